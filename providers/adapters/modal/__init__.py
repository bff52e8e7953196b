"""Modal: GPU sandboxes as machines. Owns the manifest; importing this imports neither the client nor gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.base import LIVE, Manifest
from providers.model.capability import Capabilities

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.adapters.modal.adapter import Modal
    from providers.errors import Problem

CAPABILITIES = Capabilities(
    provider="modal",
    kinds=frozenset({"machine"}),
    capacities=frozenset({"on-demand"}),
    max_nodes=1,
    in_place=frozenset({"labels"}),
)


def connect(world: str, config: Mapping[str, str]) -> Modal:
    """The adapter. `config`: `environment` and `app` (default `gpus`). Reads the credentials; the first call opens the connection.

    In a rehearsal it starts the stand-in inside this process, once. Raises NotConfigured when live credentials are missing.
    """
    import time

    from providers.adapters.modal.adapter import Modal
    from providers.adapters.modal.client import Client, Credentials, credentials

    app = config.get("app") or "gpus"
    if world == LIVE:
        return Modal(world, Client(credentials(), environment=config.get("environment", ""), app=app), time.time)
    from providers.adapters.modal import client as connection
    from providers.adapters.modal import standin
    from providers.adapters.rehearsal import open_store

    connection.import_client(rehearsal=True)
    store = open_store()
    server = standin.shared(store)
    token = Credentials("ak-rehearsal", "as-rehearsal", "the rehearsal's own token")
    return Modal(world, Client(token, url=server.url, environment=config.get("environment") or "main", app=app), store.now)


def check_options(section: Mapping[str, object]) -> Sequence[Problem]:
    """Everything wrong with `options.modal` of a spec."""
    from providers.adapters.modal.options import problems

    return problems(section)


MANIFEST = Manifest("modal", CAPABILITIES, connect, check_options, ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"))
