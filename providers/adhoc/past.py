"""What was held and has ended, of stacks and ad hoc, as this machine's journal knows it. Asks no
cloud.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adhoc.stack_clusters import journaled, known
from providers.model.machine import STOPPED, STOPPING

if TYPE_CHECKING:
    from providers.adhoc.stack_clusters import Declared
    from providers.engine.record import ClusterRecord

RELEASED = "released"
"""The status of a placement that ended by `destroy`, an edit or `gpus release`."""


def ever(world: str | None = None, stack: str = "") -> tuple[Declared, ...]:
    """All that has ended, oldest first, then what stacks have; narrowed by world and stack. What
    was held ad hoc has no stack.
    """
    there_is = known(world, stack)
    here = {_key(each.record) for each in there_is}
    every = journaled(world, stack, "", lambda journal, of: journal.launches(of), ad_hoc=True)
    past = (each for each in every if each.ended_at and _key(each.record) not in here)
    return (*map(_past, past), *there_is)


def _key(record: ClusterRecord) -> tuple[object, ...]:
    return record.world, record.owner, record.cluster, record.generation, record.launched_at


def _past(each: Declared) -> Declared:
    """A placement that is no more: how it ended where that was kept, else that it was released."""
    if each.is_over:
        return each
    status = each.record.status
    status = status if status in {STOPPED, STOPPING} else RELEASED
    return each._replace(record=each.record._replace(status=status), concluded=(status, ""))
