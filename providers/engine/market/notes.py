"""What a plan says of a workload at one provider besides its fit: a token that travels in clear, a
model that wants one, data that crosses clouds. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from providers.model.ask import Ask
    from providers.model.capability import Capabilities
    from providers.model.machine import Setup


def notes(ask: Ask, setup: Setup, provider: str, able: Capabilities) -> list[str]:
    """The notes, one sentence each. `setup.options` holds every provider's section."""
    return (
        [
            *_unmeasured(ask, setup, able),
            *_in_clear(ask, setup, able),
            *_gated(ask, setup, provider),
            *_crossing(ask, able),
        ]
        if ask.workload is not None
        else []
    )


def _unmeasured(ask: Ask, setup: Setup, able: Capabilities) -> list[str]:
    """A provider's own job or service starts by itself, and nobody logs in before."""
    own = ask.kind in able.kinds and ask.kind != "machine"
    return (
        [f"accept does nothing here: nobody logs in to a {ask.kind}"] if setup.gated and own else []
    )


def _in_clear(ask: Ask, setup: Setup, able: Capabilities) -> list[str]:
    """A machine's service answers by plain HTTP; a provider with a door of its own, by HTTPS."""
    from providers.model.workload import here
    from providers.workloads.launch import proxy
    from providers.workloads.launch.recipes import listens

    if (
        setup.expose != "token"
        or ask.kind != "service"
        or ask.kind in able.kinds
        or ask.workload is None
        or ask.tls
    ):
        return []
    task = ask.workload.tasks[0]
    port = proxy.HTTP if ask.replicated else listens(task.launcher, task.port)
    local = here(port)
    carried = str(port) if local == port else f"{local}:{port}"
    found = f"the token travels in clear: http://ADDRESS:{port} has no TLS"
    return [
        (
            f"{found}; encrypted instead: gpus ssh NAME -L {carried}, then http://localhost:{local}"
            if able.ssh
            else found
        )
    ]


def _gated(ask: Ask, setup: Setup, provider: str) -> list[str]:
    from providers.workloads.launch.gated_models import TOKENS, gated

    if ask.workload is None:
        return []
    section = dict(setup.options).get(provider)
    # Modal's own secrets hold variables whose names are known there alone.
    if isinstance(section, dict) and section.get("secrets"):
        return []
    model = gated(ask.workload, {name for name, at in ask.secrets if provider in at})
    todo = (
        f"accept its terms there, and declare the secret {TOKENS[0]} with a reference for"
        f" {provider}"
    )
    return [f"{model} is gated at Hugging Face, and no token is declared: {todo}"] if model else []


def _crossing(ask: Ask, able: Capabilities) -> list[str]:
    """Buckets of another cloud than the place's: their cloud bills what is read from there."""
    mounts = ask.workload.mounts if ask.workload is not None else ()
    far = [mount.source for mount in mounts if mount.scheme not in able.buckets]
    if not far:
        return []
    each = "it" if len(far) == 1 else "them"
    return [f"{', '.join(far)}: of another cloud, which bills each GB read from {each} as egress"]
