"""The contract's cases of what was bought and what is there: compared at the delivery and at each
look, and what follows from a difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.engine import operations
from providers.engine.launch.verify import SHAPE
from providers.engine.reconcile.drift import PRICE
from providers.engine.reconcile.status import REPORT
from providers.model.machine import RUNNING
from providers.testing.bench import GENERATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.engine.record import ClusterRecord
    from providers.model.machine import Handle, Node
    from providers.testing.bench import Bench
    from providers.testing.harness import Harness


def cases(harness: Harness) -> list[Callable[[Bench], None]]:
    """Those for a cloud whose machines somebody can change, and those for every cloud."""
    return [
        a_property_that_is_not_reported_is_no_drift,
        *(
            [
                an_edited_machine_is_a_drift_of_just_that,
                an_edited_machine_is_replaced,
                an_edited_machine_is_only_reported,
            ]
            if harness.edited
            else []
        ),
    ]


def a_property_that_is_not_reported_is_no_drift(bench: Bench) -> None:
    """What was bought is what every look finds; a property that the cloud leaves out once is
    unknown, and changes nothing.
    """
    record = _created(bench)
    world = bench.another_world()
    adapter = world.adapter(bench.name)
    plain = adapter.observe

    for name in SHAPE:

        def observe(handles: Sequence[Handle], left_out: str = name) -> Sequence[Node]:
            nothing: dict[str, Any] = {left_out: 0 if left_out == "gpu_count" else ""}
            return [node._replace(**nothing) for node in plain(handles)]

        adapter.observe = observe  # type: ignore[method-assign]
        seen = bench.run(operations.read(world, record))
        assert seen is not None, f"without {name}: wanted it seen, found it gone"
        assert (seen.bought, seen.status, seen.reasons) == (
            (),
            RUNNING,
            (),
        ), f"without {name}: wanted no drift, found {seen.bought} {seen.reasons}"
        assert seen.placement == record.placement
    adapter.observe = plain  # type: ignore[method-assign]
    bench.run(operations.delete(world, record))


def an_edited_machine_is_a_drift_of_just_that(bench: Bench) -> None:
    """A machine that somebody made another one: the next look tells exactly what differs, in
    outputs and in a line, and does nothing about it.
    """
    record = _created(bench)
    seen = _edited(bench, record)
    assert bench.said[-1].startswith("warning: "), bench.said[-1]
    for name, value in bench.harness.edited.items():
        edit = f"{name}: {getattr(record.placement, name)} -> {value}"
        assert edit in seen.detail, seen.detail
        assert edit in bench.said[-1], bench.said[-1]
    again = bench.run(operations.read(bench.another_world(), seen))
    assert again is not None, "wanted it seen again, found it gone"
    assert (again.bought, again.price.micro_usd) == (
        seen.bought,
        seen.price.micro_usd,
    ), "wanted the second look like the first"
    bench.run(operations.delete(bench.world, seen))
    bench.exist(0, "deleted")


def an_edited_machine_is_replaced(bench: Bench) -> None:
    """What no longer is what was declared is released, confirmed, and placed again: one machine, as
    declared.
    """
    record = _created(bench)
    seen = _edited(bench, record)
    after = bench.run(operations.update(bench.world, seen, bench.spec()))
    bench.exist(1, "replaced")
    assert (after.status, after.reasons, after.bought) == (
        RUNNING,
        (),
        (),
    ), f"wanted it whole, found {after.status} {after.reasons}"
    assert after.handles != record.handles, "wanted another machine"
    assert (after.placement.gpu_type, after.placement.gpu_count) == (
        record.placement.gpu_type,
        record.placement.gpu_count,
    )
    assert after.price.micro_usd, "wanted its price"
    bench.run(operations.delete(bench.world, after))


def an_edited_machine_is_only_reported(bench: Bench) -> None:
    """With `on_loss: report` it stays as it is, an update sends nothing, and the difference goes on
    being told.
    """
    record = _created(bench)
    seen = _edited(bench, record, REPORT)
    wanted = bench.spec()
    before = len(bench.store.mutations())
    after = bench.run(
        operations.update(
            bench.world, seen, wanted._replace(setup=wanted.setup._replace(on_loss=REPORT))
        )
    )
    assert before == len(bench.store.mutations()), "wanted nothing changed"
    assert (after.handles, after.bought, after.reasons) == (record.handles, seen.bought, ())
    bench.run(operations.delete(bench.world, after))


def _created(bench: Bench) -> ClusterRecord:
    record = bench.run(operations.create(bench.world, bench.spec(), GENERATION))
    assert (record.status, record.reasons, record.bought) == (
        RUNNING,
        (),
        (),
    ), f"wanted a cluster that is whole, found {record.status} {record.reasons}"
    return record


def _edited(bench: Bench, record: ClusterRecord, on_loss: str = "replace-all") -> ClusterRecord:
    """What the next look finds once somebody has changed the machine; nothing else has happened to
    it.
    """
    (machine,) = bench.knobs.running()
    edited = bench.harness.edited
    assert bench.knobs.edit(
        machine.name,
        str(edited.get("machine_type", "")),
        str(edited.get("gpu_type", record.placement.gpu_type)),
        _count(record, edited),
    )
    before = len(bench.store.mutations())
    seen = bench.run(operations.read(bench.another_world(), record, on_loss))
    assert before == len(bench.store.mutations()), "wanted a look that changes nothing"
    bench.exist(1, "looked at")
    assert seen is not None, "wanted it seen, found it gone"
    assert (seen.status, seen.handles, seen.reasons) == (
        RUNNING,
        record.handles,
        (),
    ), f"wanted it there, found {seen.status} {seen.reasons}"
    found = {name for name, _ in seen.bought} - set(PRICE)
    assert found == set(edited), f"wanted a drift of {sorted(edited)}, found {sorted(found)}"
    assert {name: getattr(seen.placement, name) for name in edited} == edited
    return seen


def _count(record: ClusterRecord, edited: Mapping[str, object]) -> int:
    count = edited.get("gpu_count", record.placement.gpu_count)
    assert isinstance(count, int)
    return count
