"""Measures machines over the lines that reach them: each by itself, or all of them together. Runs a
program here and one there for each.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Any

from providers.acceptance import program
from providers.errors import GpusError
from providers.remote.run import finished, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from providers.remote.line import Line, LocalCommand


async def measured(line: Line, mode: str) -> Mapping[str, Any]:
    """What the machine measures of itself. Takes about 20 s (quick) or 90 s (full), and its GPUs
    for themselves. Raises GpusError where no answer comes.
    """
    return await _answer(line.command(_in_shell(mode)), mode)


async def measured_here(mode: str) -> Mapping[str, Any]:
    """The same of this machine."""
    from providers.remote.line import LocalCommand

    return await _answer(LocalCommand(("sh", "-c", program.script(mode))), mode)


async def measured_between(
    lines: Sequence[Line], addresses: Sequence[str], mode: str
) -> tuple[Mapping[str, Any], ...]:
    """What the machines measure together, an answer each. Raises GpusError where one has none."""
    limit_s = program.timeout_s(mode, between=True)
    try:
        return await asyncio.wait_for(_together(lines, addresses, mode), limit_s)
    except TimeoutError:
        raise GpusError(
            f"wanted an all-reduce of {len(lines)} machines, found no answer within {limit_s:.0f} s"
        ) from None


async def _together(
    lines: Sequence[Line], addresses: Sequence[str], mode: str
) -> tuple[Mapping[str, Any], ...]:
    def command(rank: int, told: str) -> LocalCommand:
        words = (str(rank), str(len(lines)), addresses[rank], told)
        return lines[rank].command(_in_shell(mode, *words))

    async with started(command(0, "-")) as first:
        assert first.stdout is not None
        assert first.stderr is not None
        errors = asyncio.ensure_future(first.stderr.read())
        output, key = [], ""
        async for line in _lines(first.stdout):
            output.append(line)
            if key := program.told(line):
                break
        others = [
            asyncio.ensure_future(finished(command(rank, key)))
            for rank in range(1, len(lines))
            if key
        ]
        try:
            output += [line async for line in _lines(first.stdout)]
            said = (await errors).decode(errors="replace")
            found = [program.answer("\n".join(output), await first.wait(), said)]
            for other in others:
                code, out, err = await other
                found.append(program.answer(out, code, err))
        finally:
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
    return tuple(found)


async def _lines(source: asyncio.StreamReader) -> AsyncIterator[str]:
    """The lines of a stranger's output, as far as an answer may be long."""
    left = program.ANSWER_MAX
    try:
        while left > 0 and (line := await source.readline()):
            left -= len(line)
            yield line.decode(errors="replace").rstrip("\n")
    except ValueError:
        raise GpusError("wanted the machine's measurements, found an endless line") from None


def _in_shell(mode: str, *words: str) -> str:
    return f"exec sh -c {shlex.quote(program.script(mode, *words))}"


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
