"""The Google Cloud adapter over Google's own client, beside the Compute Engine stand-in on
loopback; the test moves the clock.
"""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.adapters.gcp.adapter import Gcp
from providers.adapters.gcp.client import Client
from providers.model.machine import Handle, Ticket
from providers.model.offer import Candidate, Offer
from providers.rehearsal.clouds import gcp as standin
from tests.unit.cloud_rig import CloudRig, orders

TYPES = {
    "a3-highgpu-8g": ("H100", 8, ""),
    "a2-highgpu-1g": ("A100", 1, ""),
    "a2-ultragpu-8g": ("A100-80GB", 8, ""),
    "g2-standard-4": ("L4", 1, ""),
    "g2-standard-8": ("L4", 1, ""),
    "n1-standard-8": ("T4", 1, "nvidia-tesla-t4"),
}
A, B, C = "us-central1-a", "us-central1-b", "us-central1-c"


def candidate(
    zone: str = A,
    machine_type: str = "a3-highgpu-8g",
    capacity: str = "on-demand",
    micro_usd: int = 88_490_000,
    region: str = "",
    reservation: str = "",
) -> Candidate:
    gpu, count, accelerator = TYPES[machine_type]
    offer = Offer(
        "gcp",
        region or zone.rsplit("-", 1)[0],
        zone,
        machine_type,
        gpu,
        count,
        capacity,
        micro_usd,
        accelerator=accelerator,
    )
    return Candidate(1, 0, offer, 1, reservation=reservation, micro_usd=micro_usd)


order = orders(candidate)


class Rig(CloudRig):
    """A stand-in with its store, the test's clock, and an adapter on it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.server = standin.start(self.store)
        self.gcp = self.adapter(self.server.url)

    def adapter(self, url: str) -> Gcp:
        from google.auth.credentials import AnonymousCredentials

        client = Client("rehearsal", AnonymousCredentials(), f"{url}/compute/v1/", timeout_s=5.0)
        return Gcp("rehearsal", client, sleep=self.sleep, second_look_s=0.1)

    def finish(self, ticket: Ticket) -> Ticket:
        return self.done(self.gcp, ticket)

    def launched(self, *args: Candidate, **rest: Any) -> Ticket:
        return self.finish(self.gcp.submit(order(*args, **rest)))

    def status(self, handle: Handle) -> str:
        return self.gcp.observe([handle])[0].status

    def calls(self, method: str) -> int:
        return len(self.store.requests(method))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.server.close()
    assert rig.server.faulty == []


@contextlib.contextmanager
def answering(reply: bytes | None) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server on loopback that gives one raw reply (bytes; None: closes without a word) and counts
    its requests.
    """
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            seen.append((self.command, self.path))
            self.rfile.read(int(self.headers.get("content-length") or 0))
            if reply is not None:
                self.wfile.write(reply)
            self.close_connection = True

        do_GET = do_POST = do_DELETE = handle_any

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def raw(status: int, content: str, kind: str = "application/json") -> bytes:
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length:"
        f" {len(content)}\r\nConnection: close\r\n\r\n{content}".encode()
    )
