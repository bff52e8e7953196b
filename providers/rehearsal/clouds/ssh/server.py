"""The rehearsal's boxes on loopback: greets as an ssh server, then runs what it is sent in the
box's folder, with the world's time. Owns the faults on the way.

What runs there is the adapter's own program, so that leases and locks are the real ones; its
session starts nothing, since its time is played.
"""

from __future__ import annotations

import json
import os
import re
import socketserver
import subprocess
import threading
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from providers.rehearsal.clouds.ssh import box as boxes
from providers.rehearsal.clouds.ssh.box import PROVIDER

if TYPE_CHECKING:
    from providers.rehearsal.clouds.ssh.box import Box
    from providers.rehearsal.scenario import Fault
    from providers.rehearsal.store import Store

METHODS = ("facts", "look", "take", "start", "drop", "edit", "release", "log")
READS = ("facts", "look", "log")
BANNER = b"SSH-2.0-rehearsal\r\n"
_VERB = re.compile(r" gpus-(\w+)$")
_LOGIN = ("unauthorized", "forbidden")
"""Faults of the login: nobody is let in."""
_ANSWERS = {"rate-limit": "busy", "too-many": "busy", "quota": "no-space"}
"""Faults that the box itself tells, by its code."""
_CLOSED = ("html", "unavailable")
"""Faults on the way, before any work."""
_PAGE = b"<!DOCTYPE html><html><head><title>502</title></head><body>bad gateway</body></html>"


class Boxes:
    """A running server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._server = _Server(store)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name=f"{PROVIDER}-rehearsal",
            daemon=True,
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """The inventory that leads here, at today's prices."""
        return boxes.inventory(self._store, self._server.server_address[1])

    def close(self) -> None:
        """Stops answering. What happened stays in the boxes' folder."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._store.close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64
    server_address: tuple[str, int]

    def __init__(self, store: Store) -> None:
        self.store = store
        self.taking = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Session)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up is no news; a fault of the server itself is told on stderr."""
        import sys

        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Session(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        self.wfile.write(BANNER)
        if not (line := self.rfile.readline()):
            return
        asked = json.loads(line)
        box = next(each for each in boxes.BOXES if each.name == asked["user"])
        found = _VERB.search(asked["command"])
        method = found.group(1) if found else "exec"
        store = self.server.store
        fault = store.take_fault(PROVIDER, method, [box.name, boxes.REGION], [box.name])
        # Boxes that are asked at once share the scenario's stock.
        with self.server.taking if method == "take" else nullcontext():
            answered = self._answered(box, asked["command"], method, fault)
        verb = "GET" if method in READS else "POST"
        kind = fault.kind if fault is not None else ""
        store.log(PROVIDER, verb, method, f"/{box.name}", 200 if answered else 0, kind)

    def finish(self) -> None:
        super().finish()
        # Each connection has its own thread, and so its own connection to the store.
        self.server.store.close()

    def _answered(self, box: Box, command: str, method: str, fault: Fault | None) -> bool:
        """Does what is asked, with its fault; whether a whole answer went back."""
        kind = fault.kind if fault is not None else ""
        if kind in _LOGIN:
            return False
        settings = fault.settings if fault is not None else {}
        store = self.server.store
        delays_s = {
            "GPUS_BEGINS_S": store.latency(PROVIDER, "create")
            + (float(str(settings.get("seconds", 0))) if kind == "slow" else 0),
            "GPUS_DELETE_S": store.latency(PROVIDER, "delete"),
        }
        for each in list(boxes.lent(store)):
            if each.box == box and boxes.play(store, each):
                agent = f"exec sh {each.folder}/own/agent"
                _Run(store, box, agent, {"GPUS_VERB": "done", "GPUS_DELETE_S": "0"}).answer(b"")
        ran = _Run(store, box, command, {name: f"{each:.0f}" for name, each in delays_s.items()})
        self.wfile.write(ran.greeting)
        program = self.rfile.read()
        if kind == "overtaken":
            time.sleep(float(str(settings.get("seconds", 1))))
        refusal = "http-418" if kind == "http" else _ANSWERS.get(kind, "")
        if refusal or kind in _CLOSED:
            ran.end()
            self.wfile.write(f"end {refusal}\n".encode() if refusal else _PAGE)
            return False
        answer = ran.answer(program)
        if kind == "twice":
            answer = _Run(store, box, command, ran.delays).answer(program)
        if kind == "op-error":
            verb = f"verb={method}".encode(), b"verb=release"
            _Run(store, box, command, {"GPUS_DELETE_S": "0"}).answer(program.replace(*verb, 1))
        if kind == "delay":
            time.sleep(float(str(settings.get("seconds", 1))))
        if kind == "reply-lost":
            return False
        self.wfile.write(
            b"end http-503\n"
            if kind == "error-after"
            else answer[: len(answer) // 2]
            if kind == "malformed"
            else answer
        )
        return kind not in {"error-after", "malformed"}


class _Run:
    """One command in a box."""

    def __init__(self, store: Store, box: Box, command: str, delays: dict[str, str]) -> None:
        self.delays = delays
        folder = boxes.folder(store, box)
        environment = {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(folder),
            "GPUS_AGENT_ROOT": str(folder / "agent"),
            "GPUS_BOOT_ID": f"boot-{boxes.boots(store, box)}",
            "GPUS_NOW": str(int(store.now())),
            "GPUS_BOX_PRODUCT": box.product,
            "GPUS_BOX_MIB": str(box.mib),
            "GPUS_BOX_CARDS": " ".join(box.cards),
            "GPUS_BOX_USED": " ".join(box.cards) if boxes.is_sold_out(store, box) else "",
            **delays,
        }
        self._process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        assert self._process.stdout is not None
        self.greeting = self._process.stdout.readline()

    def answer(self, program: bytes) -> bytes:
        """What it writes after its greeting."""
        return self._process.communicate(program)[0]

    def end(self) -> None:
        """Ends it before it was told anything."""
        self._process.kill()
        self._process.communicate()
