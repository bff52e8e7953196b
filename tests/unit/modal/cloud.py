"""A Modal stand-in with a clock that the test moves, and the adapter on it with the real client."""

import time

from providers.adapters.modal.adapter import Modal
from providers.adapters.modal.client import Client
from providers.adapters.modal.sdk import import_client
from providers.adapters.modal.sign_in import Credentials
from providers.rehearsal.clouds import modal
from providers.rehearsal.clouds.modal.state import State
from providers.rehearsal.store import Store

import_client(rehearsal=True)


class Cloud:
    def __init__(self, folder) -> None:
        self.time = 1_000_000.0
        self.folder = folder
        self.store = Store(folder / "rehearsal.db", lambda: self.time)
        self.store.begin()
        self.server = modal.start(self.store)

    def adapter(self, server=None):
        """Another process's adapter: own connection, own memory."""
        client = Client(
            Credentials("ak-test", "as-test", "test"),
            url=(server or self.server).url,
            environment="main",
        )
        return Modal("rehearsal", client, self.store.now)

    def wait(self, seconds) -> None:
        self.time += seconds

    def sent(self, method):
        return len(self.store.requests(method))

    def server_state(self):
        return State(self.store)

    def close(self) -> None:
        self.server.close()
        self.store.close()


def until(condition, limit_s=60.0) -> bool:
    """True once the condition holds, within real seconds."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
