"""What a machine of this placement is to start: the workload compiled for it, in the form that its
provider takes.

Owns the step from a declaration to `Setup.script` or to a provider's own options. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.adapters.base import Manifest
    from providers.model.ask import Ask, Choice
    from providers.model.machine import Setup
    from providers.model.workload import Program


class StartPlan(NamedTuple):
    """`program` is what runs, `section` the provider's options with it, `script` what a machine
    runs at boot (nothing where the options say it). `watched`: how far it is has to be read from
    what the script writes, since to the provider it is a machine.
    """

    program: Program
    section: Mapping[str, object]
    script: str = ""
    watched: bool = True


ANYWHERE = "0.0.0.0"  # noqa: S104 - inside a container that only its provider's own door leads to


def takes_proxy(manifest: Manifest) -> bool:
    """Whether a proxy of ours can run on its machines: they boot a script, and nobody else has a
    part of one.
    """
    return manifest.programs.runs is None and not manifest.capabilities.owned


def start(
    ask: Ask,
    entry: Choice,
    gpu_type: str,
    gpu_count: int,
    expose: str,
    manifest: Manifest | None,
    section: Mapping[str, object],
    *,
    gated: bool = False,
) -> StartPlan | None:
    """What is started on so many of this GPU at this provider; None where nothing is declared to
    run, or not at boot. `gated`: it waits until the machine is accepted, where the engine can say
    so.

    Raises SpecError where a recipe can't do it.
    """
    if ask.workload is None or ask.by_login:
        return None
    from providers.workloads.launch import proxy
    from providers.workloads.launch.compile import program
    from providers.workloads.launch.start_script import script

    own = manifest is not None and manifest.programs.runs is not None
    listen = ANYWHERE if own and ask.kind == "service" else ""
    # A provider with a door of its own asks for its own token there.
    asks = "private" if own and listen else expose
    made = program(
        ask.workload,
        ask.kind,
        gpu_type,
        gpu_count,
        entry.span,
        override=entry.override,
        expose=asks,
        listen=listen,
        proxy_port=proxy.port(tls=ask.tls) if entry.replicas and not own else 0,
    )
    if manifest is not None and manifest.programs.runs is not None:
        watched = ask.kind not in manifest.capabilities.kinds or ask.kind == "machine"
        return StartPlan(
            made,
            manifest.programs.runs(
                made, script(made, inside=True, gated=gated and watched), ask.kind, section
            ),
            watched=watched,
        )
    return StartPlan(
        made,
        section,
        script(
            made,
            release="" if manifest is None else manifest.programs.ends_itself,
            lent=manifest is not None and manifest.capabilities.owned,
            gated=gated,
        ),
    )


def started(setup: Setup, begun: StartPlan | None) -> Setup:
    """The setup of an order with what is to be started in it. `setup.options` is the provider's own
    section.
    """
    if begun is None:
        return setup
    ports = (
        setup.ports
        if not begun.program.port or begun.program.port in setup.ports
        else (*setup.ports, begun.program.port)
    )
    made = setup._replace(
        options=tuple(sorted(begun.section.items())), script=begun.script, ports=ports
    )
    return (
        made._replace(script_digest=begun.program.digest, on_done=begun.program.on_done)
        if begun.watched
        else made
    )


def nominal(ask: Ask, setup: Setup, manifest: Manifest) -> Setup:
    """The setup as it would be for the first choice at this provider, `options` its own section:
    what a check looks at before a place is known.
    """
    from providers.planner.rules import types

    found = dict(setup.options).get(manifest.name)
    section: dict[str, object] = dict(found) if isinstance(found, dict) else {}
    entry = ask.entries[0]
    begun = start(
        ask,
        entry,
        next(iter(types(entry)), ""),
        entry.gpu_count,
        setup.expose,
        manifest,
        section,
        gated=setup.gated,
    )
    kept = ask.workload.checkpoint if ask.workload is not None else None
    known = setup._replace(
        options=tuple(sorted(section.items())), keeps="" if kept is None else kept.to
    )
    return started(known, begun)
