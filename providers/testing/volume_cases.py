"""The contract's cases of volumes: made once, found again, attached, and never deleted with a
machine.

Each case is a function over a Bench, its docstring the rule; `cases` picks those that concern an
adapter. A volume is asked of the adapter as another process has it.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from providers.adapters.base import HasVolumes
from providers.errors import CloudError, OutcomeUnknown
from providers.model.volume import CREATING, READY, VolumeOrder
from providers.model.volume_mount import VolumeMount
from providers.testing.bench import PATIENCE_S, STEP_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.adapters.base import VolumeStore
    from providers.model.machine import Handle, Order
    from providers.model.volume import Volume, VolumeSpec
    from providers.testing.bench import Bench
    from providers.testing.harness import Harness

OWNER, OTHER, LATER = "aabbccddeeff", "ffeeddccbbaa", "001122334455"
"""Owners as an Ownership makes them: twelve hex digits, which a cloud without labels can name."""
STACK = "0a1b2c3d4e5f"


def cases(harness: Harness) -> list[Callable[[Bench], None]]:
    """The cases for what this adapter declares, and for what it does not."""
    sold = harness.manifest.storage
    if sold is None:
        return [no_volumes]
    return [
        a_volume_is_made_found_and_deleted,
        one_token_makes_one_volume,
        a_lost_answer_leaves_a_volume_that_is_found_again,
        a_volume_that_cannot_be_asked_for_is_never_gone,
        a_volume_that_is_claimed_has_a_new_owner,
        *([a_volume_grows_and_is_never_shrunk] if sold.types else []),
        a_volume_is_never_deleted_with_its_machine,
        a_volume_that_is_not_there_is_never_made_by_a_machine,
    ]


def no_volumes(bench: Bench) -> None:
    """An adapter that declares no volumes has none."""
    assert not isinstance(bench.adapter, HasVolumes), "wanted `storage` in the manifest, found none"


def a_volume_is_made_found_and_deleted(bench: Bench) -> None:
    """One order is one creating call and one volume, as ordered; another process finds it by each
    of its labels, and nobody else's; deleted, it is gone, and may be deleted again.
    """
    order = _order(bench)
    made = _store(bench).create(order)
    assert _creates(bench) == 1, f"wanted one creating call, found {_creates(bench)}"
    other = _store(bench)
    seen = _ready(bench, made.handle)
    assert seen.spec == order.spec, f"wanted {order.spec}, found {seen.spec}"
    assert (seen.owner, seen.users) == (OWNER, ()), f"wanted it {OWNER}'s and free, found {seen}"
    assert seen.stack, "wanted its stack on it, found none"
    assert STACK.startswith(seen.stack), f"wanted {STACK} on it, found {seen.stack}"
    for which in ({"owner": OWNER}, {"stack": STACK}, {"name": order.spec.name}, {}):
        found = [each.handle for each in other.find(**which)]
        assert found == [made.handle], f"wanted it found by {which}, found {found}"
    for which in ({"owner": OTHER}, {"stack": "f" * 12}, {"name": "another"}):
        assert not other.find(**which), f"wanted nothing found by {which}"
    _deleted(bench, made.handle)
    other.delete(made.handle)
    assert other.find() == _store(bench).find() == [], "wanted it in no list"


def one_token_makes_one_volume(bench: Bench) -> None:
    """An order that is sent again, by another process too, is answered with the same volume."""
    order = _order(bench)
    made = _store(bench).create(order)
    assert _store(bench).create(order).handle == made.handle
    _one(bench)
    _deleted(bench, made.handle)


def a_lost_answer_leaves_a_volume_that_is_found_again(bench: Bench) -> None:
    """Whatever became of the answer, the volume is found by its labels, and the same order makes no
    second one.
    """
    for fault in ("reply-lost", "malformed", "error-after", "twice"):
        order = _order(bench)
        for call in bench.harness.volume_create:
            bench.store.add_fault(bench.name, call, fault)
        try:
            _store(bench).create(order)
        except OutcomeUnknown as error:
            assert error.provider == bench.name
        except CloudError as error:
            assert fault == "error-after", f"{fault}: wanted OutcomeUnknown, found {error!r}"
        bench.knobs.heal()
        there = _one(bench)
        assert _store(bench).create(order).handle == there.handle, f"{fault}: found another one"
        _one(bench)
        _deleted(bench, there.handle)


def a_volume_that_cannot_be_asked_for_is_never_gone(bench: Bench) -> None:
    """A cloud that answers with a web page says nothing about a volume, or about what there is."""
    made = _store(bench).create(_order(bench))
    _ready(bench, made.handle)
    for asked in (lambda: _store(bench).look(made.handle), lambda: _store(bench).find()):
        bench.knobs.garble(times=None)
        try:
            answer = asked()
        except CloudError as error:
            assert "<html" not in str(error).lower(), f"wanted a clear line, found {error}"
        else:
            raise AssertionError(f"{bench.name}: wanted an error, found {answer!r}")
        bench.knobs.heal()
    assert _store(bench).look(made.handle) is not None
    _deleted(bench, made.handle)


def a_volume_that_is_claimed_has_a_new_owner(bench: Bench) -> None:
    """Its stack's next owner has it from then on, under the handle that it had."""
    made = _store(bench).create(_order(bench))
    _ready(bench, made.handle)
    _store(bench).claim(made.handle, LATER)
    assert not _store(bench).find(owner=OWNER)
    (found,) = _store(bench).find(owner=LATER)
    assert (found.handle, found.spec) == (made.handle, made.spec)
    _deleted(bench, made.handle)


def a_volume_grows_and_is_never_shrunk(bench: Bench) -> None:
    """A larger size is taken in place; a smaller one is refused, and nothing of it is lost."""
    order = _order(bench)
    made = _store(bench).create(order)
    _ready(bench, made.handle)
    size = order.spec.size_gib
    _store(bench).grow(made.handle, size + 50)
    assert _ready(bench, made.handle).spec.size_gib == size + 50
    with suppress(CloudError):
        _store(bench).grow(made.handle, size)
    assert _ready(bench, made.handle).spec.size_gib == size + 50, "wanted it as large as it was"
    _deleted(bench, made.handle)


def a_volume_is_never_deleted_with_its_machine(bench: Bench) -> None:
    """A machine that mounts it has it attached, and nobody deletes it meanwhile; once the machine
    is gone the volume is there, free, with its labels.
    """
    made = _store(bench).create(_order(bench))
    before = _ready(bench, made.handle)
    ticket, _ = bench.made(_mounting(bench))
    if before.spec.place:
        used = _ready(bench, made.handle)
        assert len(used.users) == 1, f"wanted it attached to one machine, found {used.users}"
        try:
            _store(bench).delete(made.handle)
        except CloudError as error:
            assert error.provider == bench.name
        else:
            raise AssertionError(f"{bench.name}: wanted a volume in use kept, found it deleted")
    bench.removed(ticket.handles)
    assert _ready(bench, made.handle) == before, "wanted the volume as it was"
    _deleted(bench, made.handle)


def a_volume_that_is_not_there_is_never_made_by_a_machine(bench: Bench) -> None:
    """An order that mounts it is refused, and neither it nor a machine is made."""
    try:
        bench.finish(bench.adapter.submit(_mounting(bench)))
    except CloudError as error:
        assert "data" in str(error), f"wanted the volume named, found {error}"
    else:
        raise AssertionError(f"{bench.name}: wanted a refusal, found a machine")
    bench.exist(0, "without its volume")
    assert not _store(bench).find()


def _spec(bench: Bench) -> VolumeSpec:
    spec = bench.harness.volume
    assert spec is not None, f"{bench.name} declares volumes, its test has none: set `volume`"
    return spec


def _order(bench: Bench) -> VolumeOrder:
    return VolumeOrder(_spec(bench), OWNER, STACK, str(uuid.uuid4()), "a volume of a test")


def _mounting(bench: Bench) -> Order:
    """An order of one machine where the volume is."""
    spec = _spec(bench)
    place = next(
        each for each in bench.candidates() if spec.place in {"", each.zone} or not each.zone
    )
    mount = VolumeMount(
        spec.name, "/mnt/data", provider=spec.provider, place=spec.place, type=spec.type
    )
    order = bench.order(place, owner=OWNER)
    return order._replace(setup=order.setup._replace(volumes=(mount,)))


def _store(bench: Bench) -> VolumeStore:
    """The volumes as another process has them: nothing remembered."""
    adapter = bench.connect()
    assert isinstance(adapter, HasVolumes), f"{bench.name} declares volumes, its adapter has none"
    return adapter.volumes


def _creates(bench: Bench) -> int:
    return sum(len(bench.store.requests(call)) for call in bench.harness.volume_create)


def _one(bench: Bench) -> Volume:
    found = _store(bench).find(owner=OWNER)
    assert len(found) == 1, f"{bench.name}: wanted one volume, found {len(found)}"
    return found[0]


def _ready(bench: Bench, handle: Handle) -> Volume:
    """The volume, once it is no longer being made."""
    passed = 0.0
    while True:
        found = _store(bench).look(handle)
        assert found is not None, f"{bench.name}: wanted {handle.native_id}, found it gone"
        if found.status != CREATING:
            assert found.status == READY, f"wanted it ready, found {found.status}"
            return found
        assert passed < PATIENCE_S, f"{bench.name}: wanted {handle.native_id} ready"
        bench.wait(STEP_S)
        passed += STEP_S


def _deleted(bench: Bench, handle: Handle) -> None:
    """Deletes it, and waits until it is gone."""
    _store(bench).delete(handle)
    passed = 0.0
    while _store(bench).look(handle) is not None:
        assert passed < PATIENCE_S, f"{bench.name}: wanted {handle.native_id} gone"
        bench.wait(STEP_S)
        passed += STEP_S
