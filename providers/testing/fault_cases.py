"""The contract's bad days, of an adapter by itself: no room, limits, lost answers, machines that
go, deletions that lag, web pages for answers.

What an adapter says then decides what the engine may do next, so each case demands the class of the
error and what really exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import (
    BadCredentials,
    CloudError,
    HalfMade,
    NoCapacity,
    OfferGone,
    OutcomeUnknown,
    PriceRose,
    RateLimited,
    Transient,
)
from providers.model.machine import ENDED, GONE, PREEMPTED, RUNNING, STOPPED
from providers.testing.bench import CLUSTER, GENERATION, OWNER, PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.adapters.base import Adapter
    from providers.model.machine import Order, Ticket
    from providers.testing.bench import Bench
    from providers.testing.harness import Harness


def cases(harness: Harness) -> list[Callable[[Bench], None]]:
    """All of them; price rises only where offers are live, preemption only where the cloud takes
    machines back.
    """
    return [
        no_capacity_makes_nothing,
        the_accounts_limit_is_told,
        rate_limits_made_nothing_and_the_same_order_may_be_sent_again,
        refused_credentials_are_told,
        a_slow_start_is_waited_for,
        a_lost_reply_is_found_by_its_token,
        an_error_after_the_work_is_found_by_its_token,
        a_garbled_reply_is_found_by_its_token,
        a_request_that_arrives_twice_makes_one_machine,
        *(
            [the_same_order_sent_again_makes_no_second_machine]
            if harness.manifest.capabilities.deduplicates
            else []
        ),
        a_web_page_before_the_work_is_no_refusal_and_no_machine,
        an_unknown_code_is_an_unknown_outcome,
        an_order_that_fails_late_leaves_nothing_or_names_it,
        a_machine_that_was_taken_back_is_seen,
        a_machine_that_vanished_is_gone,
        a_deletion_that_lags_is_not_done,
        a_deletion_that_fails_is_told_and_can_be_repeated,
        a_web_page_while_looking_never_means_gone,
        *([a_price_that_rose_is_not_paid] if harness.manifest.capabilities.live_offers else []),
    ]


def _refusal(bench: Bench, order: Order, adapter: Adapter | None = None) -> CloudError:
    """How an order ends that can't be carried out."""
    chosen = adapter or bench.adapter
    try:
        ticket = bench.finish(chosen.submit(order), chosen)
    except CloudError as error:
        assert error.provider == bench.name, (
            f"wanted an error of {bench.name}, found one of {error.provider!r}"
        )
        assert "<html" not in str(error).lower(), f"wanted a clear line, found a web page: {error}"
        return error
    raise AssertionError(f"{bench.name}: wanted a refusal, found {ticket.state} {ticket.handles}")


def _settled(bench: Bench, order: Order, adapter: Adapter) -> Ticket | None:
    """What became of an order, as another process finds out."""
    passed = 0.0
    while True:
        try:
            return adapter.resume(order)
        except (OutcomeUnknown, Transient, RateLimited) as error:
            assert not isinstance(error, HalfMade), (
                f"wanted the whole order or nothing, found {error}"
            )
            assert passed < PATIENCE_S, (
                f"{bench.name}: wanted certainty about an order, found {error} after {passed:.0f}s"
            )
            bench.wait(10.0)
            passed += 10.0


def no_capacity_makes_nothing(bench: Bench) -> None:
    """Sold out is NoCapacity (or OfferGone), about this place, for a while; nothing is made, and
    with stock it can be launched.
    """
    order = bench.order(wait_s=120)
    bench.knobs.sell_out()
    error = _refusal(bench, order)
    assert isinstance(error, (NoCapacity, OfferGone)), f"wanted NoCapacity, found {error!r}"
    assert error.block_s > 0, "wanted the place left alone for a while"
    assert all(scope.provider == bench.name for scope in error.scopes)
    assert not error.scopes or any(
        scope.covers(candidate) for scope in error.scopes for candidate in order.candidates
    ), error.scopes
    bench.exist(0, "sold out")
    bench.knobs.restock()
    bench.wait(60.0)
    ticket, _ = bench.made()
    bench.removed(ticket.handles)


def the_accounts_limit_is_told(bench: Bench) -> None:
    """The account's limit has its own class, and nothing is made."""
    bench.knobs.refuse("quota")
    error = _refusal(bench, bench.order())
    assert type(error) is bench.harness.limit, (
        f"wanted {bench.harness.limit.__name__}, found {error!r}"
    )
    assert error.code, "wanted the cloud's own code"
    bench.exist(0, "over the limit")


def rate_limits_made_nothing_and_the_same_order_may_be_sent_again(bench: Bench) -> None:
    """Asked too often is RateLimited after one call;
    the same order sent later makes one machine.
    """
    order = bench.order()
    for number, kind in enumerate(("rate-limit", "too-many"), 1):
        bench.knobs.refuse(kind)
        error = _refusal(bench, order)
        assert isinstance(error, RateLimited), f"{kind}: wanted RateLimited, found {error!r}"
        assert bench.knobs.creates() == number, (
            "wanted no creating call sent again by the adapter itself"
        )
        bench.knobs.heal()
        bench.exist(0, kind)
        bench.wait(max(60.0, error.retry_after_s))
    ticket, _ = bench.made(order)
    bench.exist(1, "sent again")
    bench.removed(ticket.handles)


def refused_credentials_are_told(bench: Bench) -> None:
    """Refused keys and missing rights are BadCredentials about the whole provider, and nothing is
    made.
    """
    for kind in ("unauthorized", "forbidden"):
        bench.knobs.refuse(kind)
        error = _refusal(bench, bench.order())
        assert isinstance(error, BadCredentials), f"{kind}: wanted BadCredentials, found {error!r}"
        assert all(scope == (bench.name, "", "", "", "", "") for scope in error.scopes), (
            error.scopes
        )
        bench.knobs.heal()
        bench.exist(0, kind)
        bench.wait(60.0)


def a_slow_start_is_waited_for(bench: Bench) -> None:
    """Machines that take two minutes longer are launched then, not before, by one call."""
    bench.knobs.slow_start(120.0)
    ticket = bench.adapter.submit(bench.order())
    bench.wait(60.0)
    ticket = bench.adapter.poll(ticket)
    assert ticket.state in {
        "waiting",
        "queued",
    }, f"wanted it still waited for, found {ticket.state}"
    ticket = bench.finish(ticket)
    assert [node.status for node in bench.adapter.observe(ticket.handles)] == [RUNNING]
    assert bench.knobs.creates() == 1
    bench.exist(1, "slow")
    bench.removed(ticket.handles)


def a_lost_reply_is_found_by_its_token(bench: Bench) -> None:
    """The work done, the answer lost: OutcomeUnknown after one call, and another process finds the
    one machine by the order's token.
    """
    _lost(bench, "reply-lost")


def an_error_after_the_work_is_found_by_its_token(bench: Bench) -> None:
    """The work done, an error for an answer: OutcomeUnknown after one call, and another process
    finds the one machine.
    """
    _lost(bench, "error-after")


def a_garbled_reply_is_found_by_its_token(bench: Bench) -> None:
    """The work done, half of the answer: OutcomeUnknown after one call, and another process finds
    the one machine.
    """
    _lost(bench, "malformed")


def a_request_that_arrives_twice_makes_one_machine(bench: Bench) -> None:
    """Delivered twice, an order makes one machine; where the second answer is a refusal, the
    machine is still found by the order's token.
    """
    order = bench.order()
    bench.knobs.lose_reply("twice")
    try:
        ticket: Ticket | None = bench.adapter.submit(order)
    except CloudError as error:
        assert isinstance(error, (OutcomeUnknown, OfferGone)), (
            f"wanted a ticket, OutcomeUnknown or OfferGone, found {error!r}"
        )
        bench.knobs.heal()
        ticket = _settled(bench, order, bench.connect())
    assert ticket is not None, (
        "wanted the one machine found by the order's token, found that nothing was made"
    )
    done = bench.finish(ticket)
    bench.exist(1, "delivered twice")
    bench.removed(done.handles)


def the_same_order_sent_again_makes_no_second_machine(bench: Bench) -> None:
    """Declared to do the work of one token once: the same order, sent again before and after it is
    made, is the same machine.
    """
    order = bench.order()
    bench.adapter.submit(order)
    other = bench.connect()
    done = bench.finish(other.submit(order), other)
    again = bench.finish(other.submit(order), other)
    assert again.handles == done.handles, f"wanted the same machine, found {again.handles}"
    bench.exist(1, "sent again")
    bench.removed(done.handles)


def _lost(bench: Bench, kind: str) -> None:
    order = bench.order()
    bench.knobs.lose_reply(kind)
    try:
        ticket = bench.adapter.submit(order)
    except CloudError as error:
        assert isinstance(error, OutcomeUnknown), f"{kind}: wanted OutcomeUnknown, found {error!r}"
        assert error.token in {"", order.token}, f"wanted the order's token, found {error.token!r}"
    else:
        raise AssertionError(f"{kind}: wanted OutcomeUnknown, found {ticket}")
    assert bench.knobs.creates() == 1, (
        "wanted one creating call, never sent again by the adapter itself"
    )
    bench.knobs.heal()
    other = bench.connect()
    found = _settled(bench, order, other)
    assert found is not None, "wanted the machine whose answer was lost, found nothing"
    done = bench.finish(found, other)
    bench.exist(1, kind)
    assert len(done.handles) == 1
    assert [node.handle for node in other.find(OWNER, CLUSTER, GENERATION)] == list(done.handles)
    assert bench.knobs.creates() == 1
    bench.removed(done.handles, other)


def a_web_page_before_the_work_is_no_refusal_and_no_machine(bench: Bench) -> None:
    """HTML or a 503 for an answer to a creating call is OutcomeUnknown (or Transient), and settles
    to nothing.
    """
    for kind in ("html", "unavailable"):
        order = bench.order()
        bench.knobs.refuse(kind)
        error = _refusal(bench, order)
        assert isinstance(error, (OutcomeUnknown, Transient)), (
            f"{kind}: wanted OutcomeUnknown, found {error!r}"
        )
        bench.knobs.heal()
        assert _settled(bench, order, bench.adapter) is None, f"{kind}: wanted nothing of it"
        bench.exist(0, kind)


def an_unknown_code_is_an_unknown_outcome(bench: Bench) -> None:
    """A code that no table knows is never taken for a refusal: it is settled like a lost answer."""
    order = bench.order()
    bench.knobs.refuse("http", status=418, reason="NEVER_SEEN_BEFORE")
    error = _refusal(bench, order)
    assert isinstance(error, OutcomeUnknown), (
        f"wanted Unclassified or OutcomeUnknown, found {error!r}"
    )
    bench.knobs.heal()
    assert _settled(bench, order, bench.adapter) is None
    bench.exist(0, "an unknown code")


def an_order_that_fails_late_leaves_nothing_or_names_it(bench: Bench) -> None:
    """An order that was taken and then ends with an error leaves nothing, or HalfMade names what to
    delete.
    """
    bench.knobs.refuse("op-error")
    order = bench.order()
    error = _refusal(bench, order)
    if isinstance(error, HalfMade):
        assert error.handles, "wanted the machines named"
        bench.removed(error.handles)
    elif isinstance(error, OutcomeUnknown):
        assert _settled(bench, order, bench.adapter) is None
    bench.wait(60.0)
    bench.exist(0, "failed late")


def a_machine_that_was_taken_back_is_seen(bench: Bench) -> None:
    """A preempted machine is preempted or gone for any process, never running; deleting it is
    success.
    """
    kind = bench.preemptible
    if not kind:
        return
    ticket, nodes = bench.made(bench.order(bench.candidates(kind)[0]))
    assert bench.knobs.preempt(nodes[0]) == 1, "wanted the stand-in to take it back"
    bench.wait(30.0)
    for adapter in (bench.adapter, bench.connect()):
        (node,) = adapter.observe(ticket.handles)
        assert node.status in {
            PREEMPTED,
            GONE,
        }, f"wanted preempted, found {node.status} {node.detail}"
        assert all(found.status != RUNNING for found in adapter.find(OWNER))
    bench.removed(ticket.handles)


def a_machine_that_vanished_is_gone(bench: Bench) -> None:
    """A machine that somebody else deleted is gone, is found no more,
    and deleting it is success.
    """
    ticket, _ = bench.made()
    bench.vanish(ticket.handles)
    bench.exist(0, "deleted by somebody else")
    (node,) = bench.adapter.observe(ticket.handles)
    assert node.status in {GONE, ENDED, STOPPED}, f"wanted gone, found {node.status} {node.detail}"
    assert not bench.adapter.find(OWNER), "wanted nothing found"
    bench.removed(ticket.handles)


def a_deletion_that_lags_is_not_done(bench: Bench) -> None:
    """Accepted is not gone: for as long as the machine exists it is not reported gone, by any
    process.
    """
    ticket, _ = bench.made()
    bench.knobs.delay_delete(300.0)
    bench.adapter.delete(ticket.handles[0])
    for _ in range(2):
        bench.wait(100.0)
        for adapter in (bench.adapter, bench.connect()):
            (node,) = adapter.observe(ticket.handles)
            assert node.status not in {
                GONE,
                RUNNING,
            }, f"wanted it on its way out, found {node.status}"
    bench.adapter.delete(ticket.handles[0])
    bench.wait(301.0)
    bench.gone(ticket.handles)
    bench.gone(ticket.handles, bench.connect())


def a_deletion_that_fails_is_told_and_can_be_repeated(bench: Bench) -> None:
    """A deletion that failed is an error of the tree, unless the client repeated it by itself;
    repeated, it deletes.
    """
    ticket, _ = bench.made()
    for kind in ("unavailable", "html"):
        bench.knobs.refuse_delete(kind)
        try:
            bench.adapter.delete(ticket.handles[0])
        except CloudError as error:
            assert isinstance(error, Transient), f"{kind}: wanted Transient, found {error!r}"
            bench.exist(1, "a deletion that failed")
            assert [node.status for node in bench.adapter.observe(ticket.handles)] == [RUNNING]
        bench.knobs.heal()
    bench.removed(ticket.handles)


def a_web_page_while_looking_never_means_gone(bench: Bench) -> None:
    """While the cloud answers with web pages, a look raises a passing fault; it never reports a
    machine gone, or none found.
    """
    ticket, _ = bench.made()
    looks: tuple[Callable[[], object], ...] = (
        lambda: bench.adapter.observe(ticket.handles),
        lambda: bench.adapter.find(OWNER),
    )
    for look in looks:
        bench.knobs.garble()
        try:
            found = look()
        except CloudError as error:
            assert isinstance(error, Transient), f"wanted Transient, found {error!r}"
        else:
            # A client may repeat a read by itself.
            assert [node.status for node in found] == [RUNNING], (  # type: ignore[attr-defined]
                f"wanted the machine, found {found}"
            )
        bench.knobs.heal()
    bench.exist(1, "looked at")
    bench.removed(ticket.handles)


def a_price_that_rose_is_not_paid(bench: Bench) -> None:
    """An offer that costs more than planned is PriceRose (or OfferGone), and nothing is made."""
    assert bench.harness.raise_price is not None, (
        f"{bench.name} has live offers: wanted a harness with `raise_price`, found none"
    )
    order = bench.order()
    bench.harness.raise_price(bench.store, order.candidates[0])
    bench.wait(120.0)
    error = _refusal(bench, order)
    assert isinstance(error, (PriceRose, OfferGone)), f"wanted PriceRose, found {error!r}"
    bench.exist(0, "the price rose")
