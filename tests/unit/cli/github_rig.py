"""GitHub's API for the comments of a pull request, as docs.github.com describes it (REST, version
2022-11-28): list, create and update, on loopback.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghs_made-up-token-16C7e42F292c6912E7"


class GitHub:
    """One repository `o/r`. `read_only` refuses what writes, as a fork's token is refused."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.read_only = False
        self.moved_to = ""
        self.url = ""

    def add(self, body: str, kind: str = "User", association: str = "NONE") -> dict[str, Any]:
        number = 100 + len(self.comments)
        made = {
            "id": number,
            "html_url": f"https://github.example/o/r/pull/7#issuecomment-{number}",
            "body": body,
            "user": {"login": "somebody", "type": kind},
            "author_association": association,
        }
        self.comments.append(made)
        return made

    def answer(self, method: str, target: str, token: str | None, content: Any) -> tuple[int, Any]:
        self.calls.append(f"{method} {target}")
        url = urlsplit(target)
        if token != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials", "status": "401"}
        if method != "GET" and self.read_only:
            return 403, {"message": "Resource not accessible by integration", "status": "403"}
        if url.path == "/repos/o/r/issues/7/comments":
            if method == "POST":
                return 201, self.add(content["body"], "Bot")
            asked = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
            size, page = min(asked.get("per_page", 30), 100), asked.get("page", 1)
            return 200, self.comments[size * (page - 1) : size * page]
        if method == "PATCH" and (
            found := re.fullmatch(r"/repos/o/r/issues/comments/(\d+)", url.path)
        ):
            for each in self.comments:
                if each["id"] == int(found[1]):
                    each["body"] = content["body"]
                    return 200, each
        return 404, {"message": "Not Found", "status": "404"}


@contextmanager
def serving(github: GitHub) -> Iterator[GitHub]:
    """The API while the block runs; its address is `url`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if github.moved_to:
                self.send_response(301)
                self.send_header("Location", github.moved_to + self.path)
                self.end_headers()
                return
            size = int(self.headers.get("Content-Length") or 0)
            content = json.loads(self.rfile.read(size)) if size else None
            code, said = github.answer(
                self.command, self.path, self.headers.get("Authorization"), content
            )
            body = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PATCH = do_GET

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    github.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()
