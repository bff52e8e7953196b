"""What a plan says of a workload at one place besides its fit: a token that travels in clear, a
model that wants one, work that a spot loss ends, data that crosses clouds. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.model.ask import SPOT
from providers.model.note import Costs, Stops

if TYPE_CHECKING:
    from providers.model.ask import Ask
    from providers.model.capability import Capabilities
    from providers.model.machine import Setup
    from providers.model.offer import Candidate


def notes(ask: Ask, setup: Setup, candidate: Candidate, able: Capabilities) -> list[str]:
    """The notes, one sentence each. `setup.options` holds every provider's section."""
    return (
        [
            *_unmeasured(ask, setup, able),
            *_gated(ask, setup, candidate.provider),
            *_in_clear(ask, setup, able),
            *_unsaved(ask, candidate),
            *_untagged(ask),
            *_crossing(ask, able),
        ]
        if ask.workload is not None
        else []
    )


def _unmeasured(ask: Ask, setup: Setup, able: Capabilities) -> list[str]:
    """A provider's own job or service starts by itself, and nobody logs in before."""
    own = ask.kind in able.kinds and ask.kind != "machine"
    return (
        [Stops(f"accept does nothing here: nobody logs in to a {ask.kind}")]
        if setup.gated and own
        else []
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
    found = "the token travels in clear (no TLS)"
    safe = f": use gpus ssh NAME -L {carried}, then http://localhost:{local}"
    return [Stops(f"{found}{safe if able.ssh else f' to http://ADDRESS:{port}'}")]


def _gated(ask: Ask, setup: Setup, provider: str) -> list[str]:
    from providers.workloads.launch.gated_models import TOKENS, gated

    if ask.workload is None:
        return []
    section = dict(setup.options).get(provider)
    # Modal's own secrets hold variables whose names are known only there.
    if isinstance(section, dict) and section.get("secrets"):
        return []
    model = gated(ask.workload, {name for name, at in ask.secrets if provider in at})
    todo = f"accept its terms, and write secrets: {{{TOKENS[0]}: {{{provider}: REFERENCE}}}}"
    found = f"no {TOKENS[0]} under secrets, which the gated {model} needs"
    return [Stops(f"{found}: {todo}")] if model else []


def _unsaved(ask: Ask, candidate: Candidate) -> list[str]:
    """A job on spot that keeps nothing elsewhere; what it writes to a bucket or a volume is its
    own affair.
    """
    work = ask.workload
    if work is None or ask.kind != "job" or candidate.capacity != SPOT or work.checkpoint:
        return []
    if work.volumes or any(mount.writable for mount in work.mounts):
        return []
    return [Stops("no workload.checkpoint: after a spot loss all starts again")]


def _untagged(ask: Ask) -> list[str]:
    """An image without a fixed version."""
    image = ask.workload.image if ask.workload is not None else ""
    name = image.rpartition("/")[2]
    if not name or "@" in name or (":" in name and not name.endswith("latest")):
        return []
    how = "'s tag moves" if ":" in name else " has no tag"
    return [f"the image {image}{how}: it changes under you; write a version's tag or a digest"]


def _crossing(ask: Ask, able: Capabilities) -> list[str]:
    """Buckets of another cloud than the place's: their cloud bills what is read from there."""
    mounts = ask.workload.mounts if ask.workload is not None else ()
    far = [mount.source for mount in mounts if mount.scheme not in able.buckets]
    if not far:
        return []
    each = "it" if len(far) == 1 else "them"
    return [
        Costs(f"{', '.join(far)}: of another cloud, which bills each GB read from {each} as egress")
    ]
