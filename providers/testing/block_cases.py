"""The contract's cases about blocks: windows of a calendar, paid for in full and once, whatever
becomes of the answer, and used before another one is bought.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import CloudError, OutcomeUnknown
from providers.model.ask import BLOCK, Ask, BlockTerms, Capacity, Choice, gpu_text
from providers.testing.bench import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.model.machine import Order
    from providers.testing.bench import Bench
    from providers.testing.harness import Harness

_DAY_S = 86_400
_TERMS = BlockTerms(_DAY_S, 14 * _DAY_S, 10**12)


def cases(harness: Harness) -> list[Callable[[Bench], None]]:
    """Those of what is declared; the refusal of blocks where none is."""
    if not harness.manifest.capabilities.blocks:
        return [no_block]
    return [
        a_block_is_paid_once_though_the_answer_is_lost,
        a_refused_purchase_of_a_block_pays_nothing,
        a_block_that_has_begun_is_launched_into_once,
    ]


def no_block(bench: Bench) -> None:
    """A block where none is declared is refused in the plan."""
    plan = bench.plan(_ask(bench, bench.harness.gpu))
    assert not plan.candidates, f"{bench.name} sells no blocks, and the plan has {plan.best}"


def a_block_is_paid_once_though_the_answer_is_lost(bench: Bench) -> None:
    """Whatever became of the answer, another process finds the block by the order, and the same
    cluster's next order uses it.
    """
    for number, fault in enumerate(("reply-lost", "malformed", "error-after"), 1):
        order = _order(bench, fault)
        for call in bench.harness.block_create:
            bench.store.add_fault(bench.name, call, fault)
        try:
            bench.adapter.submit(order)
        except OutcomeUnknown as error:
            assert error.provider == bench.name
        else:
            raise AssertionError(f"{fault}: wanted OutcomeUnknown, found a ticket")
        bench.knobs.heal()
        other = bench.connect()
        found = other.resume(order)
        assert found is not None, f"{fault}: wanted the block whose answer was lost, found none"
        assert found.begins_at > bench.store.now(), f"{fault}: wanted its beginning, found {found}"
        again = other.submit(_order(bench, fault))
        assert again.begins_at == found.begins_at, f"{fault}: wanted the same block, found {again}"
        assert len(_paid(bench)) == number, f"{fault}: wanted it paid once, found {_paid(bench)}"


def a_refused_purchase_of_a_block_pays_nothing(bench: Bench) -> None:
    """What its cloud refuses is an error, and nothing was paid."""
    order = _order(bench, CLUSTER)
    for call in bench.harness.block_create:
        bench.store.add_fault(bench.name, call, "unavailable")
    try:
        bench.adapter.submit(order)
    except CloudError:
        assert not _paid(bench), f"wanted nothing paid, found {_paid(bench)}"
    else:
        raise AssertionError("wanted the refusal as an error, found a ticket")


def a_block_that_has_begun_is_launched_into_once(bench: Bench) -> None:
    """Before its beginning nothing runs; then one machine does, though two processes ask."""
    order = _order(bench, CLUSTER)
    ticket = bench.adapter.submit(order)
    waits = bench.adapter.poll(ticket)
    assert waits.state == "queued", f"wanted an order that is queued, found {waits.state}"
    bench.exist(0, "before the block's beginning")
    bench.wait(ticket.begins_at + 60.0 - bench.store.now())
    done = bench.finish(ticket)
    other = bench.connect()
    again = bench.finish(ticket, other)
    assert again.handles == done.handles, f"wanted the same machine, found {again.handles}"
    bench.exist(1, "in the block")
    assert [node.capacity for node in bench.adapter.observe(done.handles)] == [BLOCK]
    bench.removed(done.handles)
    assert len(_paid(bench)) == 1


def _ask(bench: Bench, gpu: str) -> Ask:
    kind = gpu_text(gpu)
    way = (Capacity(BLOCK),)
    choice = Choice(kind.type, kind.gpu_count or 1, exact=kind.exact, nodes=1, capacity=way)
    return Ask((choice,), providers=(bench.name,), regions=bench.harness.regions, block=_TERMS)


def _order(bench: Bench, cluster: str) -> Order:
    plan = bench.plan(_ask(bench, bench.harness.block))
    assert plan.candidates, f"wanted a block of {bench.harness.block}, found none"
    return bench.order(plan.candidates[0], cluster=cluster)


def _paid(bench: Bench) -> Sequence[str]:
    assert bench.harness.blocks_paid is not None, "wanted a harness with `blocks_paid`, found none"
    return bench.harness.blocks_paid(bench.store)
