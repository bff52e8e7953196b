"""`zoneOperations.wait`: Google says when an operation is over, and no answer of it is relied on."""

import threading
import time

import pytest

from providers.errors import NoCapacity
from tests.unit.gcp.rig import A, candidate, order

NAMES = ("instances.bulkInsert", "zoneOperations.wait", "zoneOperations.get")


def asked(rig) -> list[int]:
    """How often the operation was waited for, and asked plainly."""
    return [rig.calls(name) for name in NAMES[1:]]


def test_the_end_of_an_operation_is_told_when_it_comes_by_one_read(rig) -> None:
    """Google holds its answer while the operation goes on."""
    rig.store.hold_at_most(10)
    ticket = rig.gcp.submit(order())
    threading.Timer(0.2, rig.sleep, [5.0]).start()
    began = time.monotonic()
    assert rig.gcp.long_poll(ticket).state == "done"
    assert 0.2 <= time.monotonic() - began < 5
    assert asked(rig) == [1, 0]


def test_a_stockout_is_told_when_it_is_known(rig) -> None:
    """A refusal ends the wait as a machine does."""
    rig.store.hold_at_most(10)
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "on-demand", 0)
    ticket = rig.gcp.submit(order())
    threading.Timer(0.1, rig.sleep, [5.0]).start()
    with pytest.raises(NoCapacity):
        rig.gcp.long_poll(ticket)
    assert asked(rig) == [1, 0]


def test_an_answer_that_comes_early_says_that_it_goes_on(rig) -> None:
    """An overloaded Google answers at once: the order is asked for again, and is refused nothing."""
    ticket = rig.gcp.submit(order())
    assert rig.gcp.long_poll(ticket).state == "waiting"
    rig.sleep(5)
    assert rig.gcp.long_poll(ticket).state == "done"
    assert asked(rig) == [2, 0]


@pytest.mark.parametrize("fault", ["unavailable", "reply-lost", "html", "forbidden", "too-many"])
def test_where_waiting_fails_the_operation_is_asked_plainly(rig, fault) -> None:
    """A proxy that cuts long answers, or a role without the right, costs a read and nothing else."""
    rig.store.add_fault("gcp", "zoneOperations.wait", fault, None)
    ticket = rig.gcp.submit(order())
    rig.sleep(5)
    assert rig.gcp.long_poll(ticket).state == "done"
    assert asked(rig) == [1, 1]


def test_a_queued_request_is_called_queued_before_it_is_waited_for(rig) -> None:
    """Flex-start: that it queues is known at once, and so is that its machine came."""
    rig.store.hold_at_most(10)
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "flex-start", 0)
    ticket = rig.gcp.submit(order(candidate(A, capacity="flex-start"), wait_s=3600))
    ticket = rig.gcp.long_poll(ticket)
    assert ticket.state == "queued"

    def room() -> None:
        rig.store.set_stock("gcp", A, "a3-highgpu-8g", "flex-start", 1)
        rig.sleep(5)

    threading.Timer(0.1, room).start()
    assert rig.gcp.long_poll(ticket).state == "done"
    assert rig.calls("zoneOperations.wait") == 1
