"""What an edit cannot be, said before anything is done; and what can be read of inputs that an
older version wrote. Must not import grpc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.engine.record import ClusterRecord
    from providers.model.machine import Setup
    from providers.plugin.diff import Verdict


def setup_of(values: Mapping[str, Any]) -> Setup | None:
    """The setup of inputs from the state; None when they cannot be read (an import, an older
    version).
    """
    from providers.plugin import inputs

    try:
        return inputs.setup(inputs.spec_of(values), values)
    except (SpecError, KeyError):
        return None


def stop(held: ClusterRecord, verdict: Verdict) -> None:
    """Raises SpecError where `state: stopped` cannot be: with an edit that replaces, or at a
    provider that keeps no stopped machine.
    """
    from providers.adapters import registry

    if verdict.replaces:
        raise SpecError(
            [
                Problem(
                    "state",
                    "running, with an edit that replaces the machines",
                    "stopped",
                    f"this one does: {verdict.reason}",
                )
            ]
        )
    able = registry.capabilities().get(held.provider)
    if held.provider and (able is None or "state" not in able.in_place):
        raise SpecError(
            [
                Problem(
                    "state",
                    f"running: {held.provider} cannot stop a machine and keep it",
                    "stopped",
                    "or destroy it",
                )
            ]
        )
    if able is not None and able.stoppable and held.capacity not in able.stoppable:
        what = (
            f"running: a {held.capacity} machine of {held.provider} cannot be stopped and kept, it"
            " can only end"
        )
        raise SpecError([Problem("state", what, "stopped", "or destroy it")])
