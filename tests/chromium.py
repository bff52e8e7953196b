"""A real headless Chromium, driven over its DevTools protocol through a pipe."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

needed = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="needs Debian's package chromium"
)


class Page:
    """One tab. `errors` are what the console complained about."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._number, self._rest, self._session = 0, b"", ""
        self.errors: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **given: Any) -> dict[str, Any]:
        """The answer of one call; what happened meanwhile is looked at."""
        self._number += 1
        call = {"id": self._number, "method": method, "params": given}
        if self._session:
            call["sessionId"] = self._session
        os.write(self._send, json.dumps(call).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, said
                return dict(said["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._receive, 1 << 20)
            assert piece, "chromium ended"
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        said: dict[str, Any] = json.loads(text)
        happened, what = said.get("method"), said.get("params", {})
        if happened == "Runtime.exceptionThrown":
            self.errors.append(str(what["exceptionDetails"]))
        elif happened == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.errors.append(what["entry"]["text"])
        elif happened == "Runtime.consoleAPICalled" and what["type"] == "error":
            self.errors.append(str(what["args"]))
        return said

    def open(self, url: str, width: int, *, dark: bool = False) -> None:
        """Shows the page at this width, and waits until it is loaded."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=1, mobile=width < 700,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=url)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        """What a script on the page comes to."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self, path: Path) -> None:
        """Keeps the whole page as a PNG."""
        shown = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shown["data"]))


@contextmanager
def page(profile: Path) -> Iterator[Page]:
    """A new Chromium with one tab, while the block runs."""
    there, send = os.pipe()
    receive, back = os.pipe()
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--remote-debugging-pipe",
    ]
    script = f'exec chromium "$@" 3<&{there} 4>&{back}'
    process = subprocess.Popen(
        ["bash", "-c", script, "chromium", *options, f"--user-data-dir={profile}"],
        pass_fds=(there, back), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(there)
    os.close(back)
    try:
        yield Page(send, receive)
    finally:
        os.close(send)
        process.terminate()
        process.wait(20)
        os.close(receive)
