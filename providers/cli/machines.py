"""The machines that a command is about: those named, or all that run, ad hoc and by stacks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from providers.adhoc import provision, stack_clusters
from providers.adhoc.sync import Machine, portal
from providers.cli.adhoc import one
from providers.cli.options import settings_of
from providers.engine.runtime.deadlines import looking, together
from providers.errors import CloudError, GpusError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from providers.adhoc.machine import AsyncMachine


def running(options: argparse.Namespace) -> Sequence[Machine]:
    """Those of `options.names`, else all of the stack or the world. The caller closes them. What
    cannot be told of one is said on stderr.
    """
    if options.names:
        return [one(name, options) for name in dict.fromkeys(options.names)]
    adhoc = (
        () if options.stack else provision.find(world=options.world, settings=settings_of(options))
    )
    known = [
        each
        for each in stack_clusters.known(options.world, options.stack or "")
        if not each.is_over
    ]

    async def looked() -> list[AsyncMachine | None]:
        return await together(*(_reached(each) for each in known))

    found = portal().run(looked()) if known else []
    return [*adhoc, *(Machine(inner) for inner in found if inner is not None)]


async def _reached(one: stack_clusters.Declared) -> AsyncMachine | None:
    """A cluster as its cloud has it, else as the journal does: not known is not gone."""
    try:
        with looking(one.record.world):
            return await stack_clusters.reached(one)
    except CloudError as error:
        say(f"{one.record.cluster}: as last seen, since its cloud does not tell: {error}")
        return await stack_clusters.reached(one, look=False)
    except GpusError as error:
        say(str(error))
        return None


def say(text: str) -> None:
    """A line beside the answer."""
    from providers.model.screen import told

    print(told(text, sys.stderr), file=sys.stderr)
