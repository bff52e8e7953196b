"""One comment on a GitHub pull request, kept up to date; the job's summary where a workflow may not
comment.

Owns the calls of GitHub's API for comments of issues (docs.github.com, REST, version 2022-11-28).
The token goes to the API that the runner names, and nowhere else.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from providers.errors import Problem, SpecError, printable, shortened

_PER_PAGE, _MOST_PAGES = 100, 50
_TIMEOUT_S = 30
_PUSHERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Whose comments may be ours besides a bot's: anybody else could plant one to be overwritten."""


class _Refused(Exception):
    """GitHub does not do it; its text says why."""


class _Pull(NamedTuple):
    """One pull request, and how GitHub is asked about it."""

    api: str
    repository: str
    number: int
    token: str


def show(text: str, name: str, *, keep_quiet: bool = False) -> str:
    """Shows a Markdown text on the pull request of this workflow, in the comment that an earlier
    run made for the same name if there is one. What was done, in one line.

    Where that is refused, and where it is no pull request's workflow, the text goes to the job's
    summary. `keep_quiet` makes no new comment.
    """
    mark = f"<!-- gpus review: {name} -->"
    body = f"{mark}\n{text}"
    try:
        pull = _pull()
        known = _known(pull, mark)
        if known is None and keep_quiet:
            return _summarize(text, "nothing changes, and no comment says otherwise")
        comments = f"/repos/{pull.repository}/issues"
        if known is None:
            made = _ask(pull, "POST", f"{comments}/{pull.number}/comments", {"body": body})
        else:
            made = _ask(pull, "PATCH", f"{comments}/comments/{known}", {"body": body})
    except _Refused as refused:
        return _summarize(text, f"no comment on the pull request: {refused}")
    done = "made" if known is None else "updated"
    return f"comment {done}: {printable(str(_field(made, 'html_url') or pull.number))}"


def _pull() -> _Pull:
    """The pull request that this workflow runs for. SpecError outside a workflow."""
    try:
        event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
        repository = os.environ["GITHUB_REPOSITORY"]
    except (KeyError, OSError, ValueError):
        raise SpecError(
            [
                Problem(
                    "--github",
                    "a GitHub workflow, which sets GITHUB_EVENT_PATH and GITHUB_REPOSITORY",
                    "none",
                    "leave --github out to print the report",
                )
            ]
        ) from None
    number = _field(_field(event, "pull_request"), "number")
    if not isinstance(number, int):
        raise _Refused("this workflow runs for no pull request")
    token = os.environ.get("GITHUB_TOKEN", "").strip()
    if not token:
        raise _Refused("there is no token; pass GITHUB_TOKEN to the step")
    api = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    return _Pull(api.rstrip("/"), repository, number, token)


def _known(pull: _Pull, mark: str) -> int | None:
    """The id of the comment that an earlier run made."""
    for page in range(1, _MOST_PAGES + 1):
        path = f"/repos/{pull.repository}/issues/{pull.number}/comments"
        found = _ask(pull, "GET", f"{path}?per_page={_PER_PAGE}&page={page}")
        if not isinstance(found, list):
            raise _Refused("GitHub answered with no list of comments")
        for each in found:
            comment = _field(each, "id")
            ours = str(_field(each, "body") or "").startswith(mark)
            if ours and _may_be_ours(each) and isinstance(comment, int):
                return comment
        if len(found) < _PER_PAGE:
            return None
    raise _Refused("the pull request has too many comments to look through")


def _may_be_ours(comment: object) -> bool:
    kind = _field(_field(comment, "user"), "type")
    return kind == "Bot" or _field(comment, "author_association") in _PUSHERS


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: it would take the token along."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def _ask(pull: _Pull, method: str, path: str, content: object = None) -> Any:
    """GitHub's answer. Sent once: a comment whose answer was lost is found by the next run."""
    request = urllib.request.Request(  # noqa: S310 - the runner names the address
        pull.api + path,
        None if content is None else json.dumps(content).encode(),
        {
            "Authorization": f"Bearer {pull.token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "Content-Type": "application/json",
            "User-Agent": "gpus",
        },
        method=method,
    )
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise _Refused(_reason(error)) from None
    except (OSError, ValueError) as error:
        text = printable(str(getattr(error, "reason", error)))
        raise _Refused(f"GitHub gave no answer that can be read ({text})") from None


def _reason(error: urllib.error.HTTPError) -> str:
    with error:
        try:
            said = str(_field(json.load(error), "message") or "")
        except (OSError, ValueError):
            said = ""
    text = f"GitHub answered {error.code}" + (f" ({shortened(printable(said), 200)})" * bool(said))
    if error.code in {401, 403, 404}:
        text += (
            "; the job needs `permissions: {pull-requests: write}`, which a pull request from a"
            " fork never gets"
        )
    return text


def _field(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _summarize(text: str, why: str) -> str:
    """Puts the text on the job's page, and says so."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        return f"{why}\n{text}"
    with Path(summary).open("a", encoding="utf-8") as file:
        file.write(text + "\n")
    return f"{why}; the report is in the job's summary"
