"""What a machine measures of itself, by whatever leads into it. Owns that choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.errors import GpusError
from providers.rehearsal import played_answer
from providers.rehearsal.node import StandInProbe
from providers.remote.ssh import SshProbe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.model.machine import Node
    from providers.remote.probe import Probe


async def measured(probe: Probe | None, node: Node, mode: str) -> Mapping[str, Any]:
    """The machine's answer, for `acceptance.judge`. Raises GpusError where none comes."""
    if isinstance(probe, StandInProbe):
        return await played_answer.answer(probe, node, mode)
    line = probe.line(node) if isinstance(probe, SshProbe) else None
    if line is None:
        raise GpusError(f"{node.name}: wanted a way to log in and measure it, found none")
    from providers.acceptance.run import measured as over

    return await over(line, mode)
