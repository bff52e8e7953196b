"""Canaries planted wherever a secret can enter, the real CLI, engine and plugin run through a life,
then everything they left is searched.
"""

import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.plugin.conftest import Project

pytestmark = pytest.mark.long

ENVIRONMENT = {
    "CLORE_API_KEY": "canaryclorekey",
    "CLORE_JUPYTER_TOKEN": "canaryjupyter",
    "MODAL_TOKEN_ID": "ak-canarymodalid",
    "MODAL_TOKEN_SECRET": "as-canarymodalsecret",
    "AWS_ACCESS_KEY_ID": "AKIACANARYCANARY",
    "AWS_SECRET_ACCESS_KEY": "canaryawssecret",
    "AWS_SESSION_TOKEN": "canaryawssession",
    "MY_HF": "hf_canaryfromtheenvironment",
}
"""Provider keys and what a trusted marketplace is handed: through the environment."""
CONFIG = {
    "clore:apiKey": "canaryconfigclore",
    "modal:tokenSecret": "canaryconfigmodal",
    "gpus-extra:ssh_password": "canaryconfigpassword",
}
"""Pulumi secret configuration."""
REFUSED = {
    "clore-env": (
        "env: {HF_TOKEN: hf_canaryinsideenvironment00, OTHER: x}\n        trust_marketplace: true",
        "hf_canaryinsideenvironment00",
    ),
    "clore-password": ("ssh_password: canarysshpassword", "canarysshpassword"),
    "clore-jupyter": ("jupyter_token: canaryjupytertoken", "canaryjupytertoken"),
    "clore-command": (
        "command: HF_TOKEN=hf_canaryinsideacommand00 python train.py",
        "hf_canaryinsideacommand00",
    ),
    "pulumi-secret": ("image: {secure: NESTED}", "canarynestedsecret"),
}
"""Inside the cluster object, where each is refused."""
MARKS = re.compile("canary", re.IGNORECASE)


class Watch:
    """The command lines of every process of this user's while it runs, those of this test aside."""

    def __init__(self) -> None:
        self.lines: set[str] = set()
        self.samples = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        own = os.getpid()
        while not self._stop.is_set():
            self.samples += 1
            for folder in Path("/proc").iterdir():
                if folder.name.isdigit() and int(folder.name) != own:
                    try:
                        if (folder / "cwd").exists():
                            self.lines.add(
                                (folder / "cmdline")
                                .read_bytes()
                                .replace(b"\0", b" ")
                                .decode(errors="replace")
                            )
                    except OSError:
                        continue
            self._stop.wait(0.05)


def canaries():
    return [*ENVIRONMENT.values(), *CONFIG.values(), *(value for _, value in REFUSED.values())]


class Search:
    """What was searched, and what was found where it must not be."""

    def __init__(self, values) -> None:
        self.values, self.places = values, 0
        self.hits: list[str] = []

    def text(self, where, text) -> None:
        self.places += 1
        self.hits += [f"{where}: {value}" for value in self.values if value in text]

    def file(self, path) -> None:
        self.text(str(path), path.read_bytes().decode("utf-8", "surrogateescape"))

    def under(self, folder) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.file(path)


def test_b43_no_secret_escapes(tmp_path) -> None:
    """Canaries in provider keys, secret configuration, the environment and nested in the cluster:
    zero hits in anything that is written or said.
    """
    made = Project(tmp_path, "rent-4090x2")
    search = Search(canaries())
    made.env |= {**ENVIRONMENT, "PULUMI_DEBUG_COMMANDS": "true"}  # shows --event-log
    for key, value in CONFIG.items():
        with_input = subprocess.run(
            made.command("config", "set", "--secret", key, "-s", made.stack),
            check=False,
            env=made.env,
            input=value,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert with_input.returncode == 0, with_input.stderr
    log = tmp_path / "events.json"
    trusted = made.file.read_text()

    def tried(name, *words, fails=False):
        said = made.run(
            *words,
            "-s",
            made.stack,
            *(("--event-log", str(tmp_path / f"{name}-{log.name}")) if words[0] in EVENTS else ()),
            fails=fails,
        )
        search.text(f"output of {name}", said)
        return said

    with Watch() as watch:
        # Each refused one alone: said what is wrong, never what it was.
        for name, (line, value) in REFUSED.items():
            if "NESTED" in line:
                subprocess.run(
                    made.command("config", "set", "--secret", "--path", "gpus:clusters.bench.options.clore.image", "-s", made.stack),
                    env=made.env, input=value, capture_output=True, text=True, timeout=120, check=True,
                )  # fmt: skip
            else:
                made.file.write_text(with_options(trusted, line))
            said = tried(f"preview of {name}", "preview", "--diff", fails=True)
            assert "wanted no secret" in said, said
            made.file.write_text(trusted)
        # The declared life: a secret by reference on a trusted market, and jupyter, whose token
        # comes from the environment.
        spec = with_options(trusted, "trust_marketplace: true\n        jupyter: true")
        made.file.write_text(
            spec.replace(
                "    bench:\n",
                "    bench:\n      secrets: {HF_TOKEN: {clore: env:MY_HF, modal: hf}}\n",
            )
        )
        tried("preview", "preview", "--diff")
        # A create that fails while the request is in the cloud's hands, and then is refused
        # outright.
        made.rehearse("fault", "clore", "create_order", "malformed", "--times", "1")
        made.rehearse("fault", "clore", "create_order", "html", "--times", "1")
        tried("up", "up", "--yes", "--skip-preview", "--diff")
        assert len(made.machines()) == 1
        tried("refresh", "refresh", "--yes", "--skip-preview")
        search.text("gpus sweep", made.gpus("sweep", "--json"))
        search.text("state", made.run("stack", "export", "-s", made.stack))
        search.under(tmp_path / "state")
        search.under(tmp_path / "home")
        # Rotated: nothing changes, nothing is replaced.
        made.env |= {name: f"{value}rotated" for name, value in ENVIRONMENT.items()}
        tried("preview after rotating", "preview", "--diff", "--expect-no-changes")
        tried("destroy", "destroy", "--yes", "--skip-preview")
        assert made.machines() == []
    search.text("state after destroy", made.run("stack", "export", "-s", made.stack))
    for folder in ("state", "home"):
        search.under(tmp_path / folder)
    for path in tmp_path.glob("*-events.json"):
        assert path.stat().st_size > 0, path
        search.text(
            str(path), "\n".join(map(without_the_stack_file, path.read_text().splitlines()))
        )
    for line in watch.lines:
        search.text(f"argv {line[:60]}", line)
    search.text("requests", json.dumps(made.seen()))
    assert watch.samples > 20 and len(watch.lines) > 5
    print(
        f"canaries {len(search.values)}, searched {search.places} places, hits {len(search.hits)}"
    )
    assert search.hits == []


def without_the_stack_file(line):
    """An event, less the engine's own copy of the stack file: what a user wrote there in plain
    text, and we refuse, stands there as he wrote it.
    """
    event = json.loads(line)
    plain = {
        key: value
        for key, value in event.get("preludeEvent", {}).get("config", {}).items()
        if key != "gpus:clusters"
    }
    return json.dumps({**event, "preludeEvent": {"config": plain}})


EVENTS = {"up", "preview", "refresh", "destroy"}


def with_options(text, line) -> str:
    """The stack file with these lines under options.clore."""
    head, _, rest = text.partition("    bench:\n")
    assert rest, text
    return (
        f"{head}    bench:\n      options:\n        clore:\n         "
        f" {line.replace(chr(10) + '        ', chr(10) + '          ')}\n{rest}"
    )


def test_a_failing_create_does_not_repeat_its_request(tmp_path) -> None:
    """An error of a creating call that quotes the request back, as clouds do, reaches the user
    without what the request held.
    """
    from providers.adapters.clore import errors as clore
    from providers.adapters.gcp import errors as gcp

    body = {
        "error": {
            "code": 400,
            "message": (
                "Invalid value for field 'metadata': ssh_password=canaryquoted Bearer"
                " ya29.canaryquoted"
            ),
            "errors": [{"reason": "x"}],
        }
    }
    said = str(gcp.from_http(400, json.dumps(body), gcp.Context("a test", creating=True)))
    assert "ya29.canaryquoted" not in said
    told = str(
        clore.error(
            "9",
            creating=True,
            token="t",
            reply={"code": 9, "error": "canaryquoted"},
            doing="create_order",
        )
    )
    assert "canaryquoted" not in told


def test_the_search_finds_what_it_looks_for(tmp_path) -> None:
    """The search itself has teeth: a canary in a file or a line is a hit."""
    (tmp_path / "x").write_text("... canaryclorekey ...")
    search = Search(canaries())
    search.under(tmp_path)
    assert search.places == 1 and len(search.hits) == 1
    assert all(MARKS.search(value) for value in canaries())
    assert pytest and time
