"""Measures one machine over the line that reaches it. Runs one program here and one there."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Any

from providers.acceptance import program
from providers.errors import GpusError
from providers.remote.run import finished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.remote.line import Line, LocalCommand


async def measured(line: Line, mode: str) -> Mapping[str, Any]:
    """What the machine measures of itself. Takes about 20 s (quick) or 90 s (full), and its GPUs
    for themselves. Raises GpusError where no answer comes.
    """
    return await _answer(line.command(f"exec sh -c {shlex.quote(program.script(mode))}"), mode)


async def measured_here(mode: str) -> Mapping[str, Any]:
    """The same of this machine."""
    from providers.remote.line import LocalCommand

    return await _answer(LocalCommand(("sh", "-c", program.script(mode))), mode)


async def _answer(command: LocalCommand, mode: str) -> Mapping[str, Any]:
    limit_s = program.timeout_s(mode)
    try:
        code, output, errors = await asyncio.wait_for(finished(command), limit_s)
    except TimeoutError:
        raise GpusError(
            f"wanted the machine's measurements, found none within {limit_s:.0f} s;"
            " `gpus doctor` needs only a shell there"
        ) from None
    return program.answer(output, code, errors)
