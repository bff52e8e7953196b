"""The contract's cases of an ordinary life: made, seen, found again, edited, ended.

Each case is a function over a Bench, its docstring the rule; `cases` picks those that concern an
adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine import operations
from providers.engine.launch.verify import delivered
from providers.errors import OutcomeUnknown, Unsupported
from providers.model.ask import FLEX_START, ON_DEMAND, RESERVATION, SPOT
from providers.model.machine import GONE, RUNNING, STOPPED
from providers.testing.bench import (
    CLUSTER,
    GENERATION,
    LATER,
    OTHER,
    OWNER,
    PATIENCE_S,
)
from providers.testing.declaration_cases import (
    EDITS,
    STATE,
    a_check_reads_and_changes_nothing,
    groups_never_change_the_order,
    live_offers_are_whole,
    live_without_credentials_is_not_configured,
    manifest_is_whole,
    offers_are_the_catalogs,
    unknown_options_are_named,
)
from providers.testing.harness import SSH_KEY
from providers.testing.purchase_cases import (
    flex_start,
    kinds_that_are_not_declared_are_refused_in_the_plan,
    more_nodes_than_declared_are_refused_in_the_plan,
    no_flex_start,
    no_on_demand,
    no_reservation,
    no_spot,
    on_demand,
    one_node_is_the_most,
    reservation,
    several_nodes_are_made_whole_or_not_at_all,
    spot,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.model.machine import Ticket
    from providers.model.offer import Candidate
    from providers.testing.bench import Bench
    from providers.testing.harness import Harness


def cases(harness: Harness) -> list[Callable[[Bench], None]]:
    """The cases for what this adapter declares, and for what it does not."""
    can = harness.manifest.capabilities
    return [
        manifest_is_whole,
        a_machine_is_made_seen_and_deleted,
        deleting_twice_is_success,
        another_process_finds_it_by_its_label,
        others_machines_are_never_listed,
        everybodys_machines_are_listed_when_asked_so,
        *([every_page_is_read] if harness.page else []),
        on_demand if ON_DEMAND in can.capacities else no_on_demand,
        spot if SPOT in can.capacities else no_spot,
        flex_start if FLEX_START in can.capacities else no_flex_start,
        reservation if RESERVATION in can.capacities else no_reservation,
        several_nodes_are_made_whole_or_not_at_all if can.max_nodes > 1 else one_node_is_the_most,
        more_nodes_than_declared_are_refused_in_the_plan,
        kinds_that_are_not_declared_are_refused_in_the_plan,
        an_order_is_settled_by_its_token,
        edits_in_place_keep_the_machine_and_its_label,
        *([a_stopped_machine_is_kept_and_starts_again] if STATE in can.in_place else []),
        (
            a_new_generation_is_written_on_an_adopted_machine
            if can.relabels
            else a_generation_that_cannot_be_written_is_refused
        ),
        edits_that_are_not_declared_are_not_sent,
        groups_never_change_the_order,
        live_offers_are_whole if can.live_offers else offers_are_the_catalogs,
        a_check_reads_and_changes_nothing,
        unknown_options_are_named,
        live_without_credentials_is_not_configured,
    ]


# A life


def a_machine_is_made_seen_and_deleted(bench: Bench) -> None:
    """One order is one creating call and one machine, as ordered, with its label; deleted, it is
    gone.
    """
    order = bench.order()
    ticket, nodes = bench.made(order)
    assert bench.knobs.creates() == 1, f"wanted one creating call, found {bench.knobs.creates()}"
    bench.exist(1, "one order")
    assert ticket.placed is not None, "wanted the candidate that was acquired, found none"
    assert ticket.placed.offer.id in {candidate.offer.id for candidate in order.candidates}
    assert len(ticket.handles) == 1
    delivered(ticket, nodes)
    (node,) = nodes
    assert node.handle == ticket.handles[0]
    assert node.status == RUNNING, f"wanted it running, found {node.status} {node.detail}"
    assert node.label == order.label, f"wanted {order.label}, found {node.label}"
    assert node.capacity in {"", order.candidates[0].capacity}
    bench.removed(ticket.handles)
    bench.exist(0, "deleted")
    assert not bench.adapter.find(OWNER)


def deleting_twice_is_success(bench: Bench) -> None:
    """A machine that is being deleted, or is gone, can be deleted again, from any process."""
    ticket, _ = bench.made()
    bench.adapter.delete(ticket.handles[0])
    bench.adapter.delete(ticket.handles[0])
    bench.gone(ticket.handles)
    bench.adapter.delete(ticket.handles[0])
    bench.connect().delete(ticket.handles[0])
    bench.exist(0, "deleted")


def another_process_finds_it_by_its_label(bench: Bench) -> None:
    """An adapter that was not there finds it by owner, cluster and generation, sees the same
    machine, and can delete it.
    """
    ticket, _ = bench.made()
    other = bench.connect()
    for which in (
        (OWNER,),
        (OWNER, CLUSTER),
        (OWNER, CLUSTER, GENERATION),
        (OWNER, "", GENERATION),
    ):
        found = other.find(*which)
        assert [node.handle for node in found] == list(ticket.handles), (
            f"find{which}: wanted {ticket.handles}, found {found}"
        )
    for which in ((OTHER,), (OWNER, "other"), (OWNER, CLUSTER, LATER)):
        assert not other.find(*which), f"find{which}: wanted nothing, found {other.find(*which)}"
    (node,) = other.observe(ticket.handles)
    assert (node.status, node.label) == (RUNNING, ticket.order.label)
    bench.removed(ticket.handles, other)


def others_machines_are_never_listed(bench: Bench) -> None:
    """Two owners, and two clusters of one of them, see only their own."""
    places = iter(_different(bench, 3))
    orders = [
        bench.order(next(places)),
        bench.order(next(places), cluster="serve"),
        bench.order(next(places), owner=OTHER),
    ]
    made = [bench.made(order)[0] for order in orders]
    bench.exist(3, "three orders")
    for index, which in enumerate(((OWNER, CLUSTER), (OWNER, "serve"), (OTHER,))):
        assert {node.handle for node in bench.adapter.find(*which)} == set(made[index].handles), (
            f"find{which}"
        )
    assert {node.handle for node in bench.adapter.find(OWNER)} == {
        *made[0].handles,
        *made[1].handles,
    }
    bench.removed([*made[0].handles, *made[1].handles])
    assert {node.handle for node in bench.adapter.find(OTHER)} == set(made[2].handles)
    bench.removed(made[2].handles)


def everybodys_machines_are_listed_when_asked_so(bench: Bench) -> None:
    """Asked for any owner, every machine with a label of the product is listed with whose it is,
    from any process; none is left out.
    """
    places = iter(_different(bench, 2))
    orders = [bench.order(next(places)), bench.order(next(places), owner=OTHER, cluster="serve")]
    made = [bench.made(order)[0].handles[0] for order in orders]
    for adapter in (bench.adapter, bench.connect()):
        found = {node.handle: node.label for node in adapter.find("")}
        assert found == {handle: order.label for handle, order in zip(made, orders, strict=True)}, (
            f'find(""): {found}'
        )
    assert [node.handle for node in bench.adapter.find("", "serve")] == made[1:]
    bench.removed(made)
    assert not bench.connect().find("")


def every_page_is_read(bench: Bench) -> None:
    """Of one machine more than a page of the cloud's list holds, all are found, each once."""
    count, most = bench.harness.page + 1, bench.harness.manifest.capabilities.max_nodes
    best = bench.candidates()[0]
    sizes = [min(most, count - start) for start in range(0, count, most)]
    orders = [bench.order(best._replace(nodes=size), nodes=size, ttl_s=3_600) for size in sizes]
    tickets: list[Ticket] = [bench.adapter.submit(order) for order in orders]
    made = {handle for ticket in tickets for handle in bench.finish(ticket).handles}
    assert len(made) == count
    found = [node.handle for node in bench.adapter.find(OWNER)]
    assert len(found) == len(set(found)), "wanted each machine once"
    assert set(found) == made, f"wanted {count} machines, found {len(found)}"
    # Their own limit ends them, all at once.
    bench.wait(3_600 + 60)
    statuses = {node.status for node in bench.adapter.observe(sorted(made)[:3])}
    assert statuses <= {GONE, "ended"}, f"wanted all ended by their limit, found {sorted(statuses)}"


def an_order_is_settled_by_its_token(bench: Bench) -> None:
    """Another process gets the machine of an order by its token; of one that was never sent nothing
    comes, and nothing is made by asking.
    """
    ticket, _ = bench.made()
    other = bench.connect()
    again = other.resume(ticket.order)
    assert again is not None, "wanted the ticket of an order that was carried out, found none"
    assert bench.finish(again, other).handles == ticket.handles
    never = bench.order(_different(bench, 1, but=ticket)[0])
    passed = 0.0
    while True:
        try:
            found = other.resume(never)
        except OutcomeUnknown:
            assert passed < PATIENCE_S, (
                "wanted certainty about an order that was never sent, found none"
            )
            bench.wait(30.0)
            passed += 30.0
        else:
            assert found is None, f"wanted nothing of an order that was never sent, found {found}"
            break
    assert bench.knobs.creates() == 1, "asking made a creating call"
    bench.exist(1, "one order, looked up")
    bench.removed(ticket.handles)


def a_new_generation_is_written_on_an_adopted_machine(bench: Bench) -> None:
    """After relabel any process sees the new generation, and finds nothing under the old one."""
    ticket, _ = bench.made()
    bench.adapter.relabel(ticket.handles[0], LATER)
    for adapter in (bench.adapter, bench.connect()):
        (node,) = adapter.observe(ticket.handles)
        assert node.label == ticket.order.label._replace(generation=LATER), (
            f"wanted generation {LATER}, found {node.label}"
        )
        assert [node.handle for node in adapter.find(OWNER, CLUSTER, LATER)] == list(ticket.handles)
        assert not adapter.find(OWNER, CLUSTER, GENERATION)
    bench.exist(1, "relabelled")
    bench.removed(ticket.handles)


def a_generation_that_cannot_be_written_is_refused(bench: Bench) -> None:
    """A label that is written once stays: relabel is an error, and changes nothing."""
    ticket, _ = bench.made()
    try:
        bench.adapter.relabel(ticket.handles[0], LATER)
    except Unsupported:
        pass
    else:
        raise AssertionError(
            "wanted relabel refused, since the capabilities say that it cannot be; found it done"
        )
    (node,) = bench.adapter.observe(ticket.handles)
    assert node.label == ticket.order.label, f"wanted {ticket.order.label}, found {node.label}"
    bench.removed(ticket.handles)


def edits_in_place_keep_the_machine_and_its_label(bench: Bench) -> None:
    """Each declared edit is taken, the machine stays the same one and keeps its label; the
    user's labels stand on it where the cloud shows any.
    """
    ticket, before = bench.made()
    can = bench.harness.manifest.capabilities.in_place
    changes: dict[str, dict[str, object]] = {
        "labels": {"labels": {"team": "blue"}},
        "ssh_key": {"ssh_key": SSH_KEY.replace("bbbb", "cccc"), "ssh_user": "gpus"},
        "ttl": {"ttl": 7_200, "on_ttl": "release"},
    }
    for edit in sorted(can & EDITS):
        bench.adapter.update(ticket.handles[0], changes[edit])
        bench.wait(5.0)
        (node,) = bench.connect().observe(ticket.handles)
        assert (node.status, node.label) == (
            RUNNING,
            before[0].label,
        ), f"{edit}: wanted it running as {before[0].label}, found {node.status} {node.label}"
    (machine,) = bench.knobs.running()
    if "labels" in can and machine.labels:
        assert machine.labels.get("team") == "blue", (
            f"wanted the label on the machine, found {machine.labels}"
        )
        bench.adapter.update(ticket.handles[0], {"labels": {"team": "red"}})
        assert bench.connect().observe(ticket.handles)[0].label == before[0].label
        assert bench.knobs.running()[0].labels.get("team") == "red"
    bench.removed(ticket.handles)


def a_stopped_machine_is_kept_and_starts_again(bench: Bench) -> None:
    """Stopped, it is there, found by its label, and not running, on any process's word; started
    again, it is the same one; either twice is fine.
    """
    ticket, before = bench.made()
    for state, status in (
        ("stopped", STOPPED),
        ("stopped", STOPPED),
        ("running", RUNNING),
        ("running", RUNNING),
    ):
        bench.adapter.update(ticket.handles[0], {STATE: state})
        bench.wait(60.0)
        for adapter in (bench.adapter, bench.connect()):
            (node,) = adapter.observe(ticket.handles)
            assert (node.status, node.label) == (
                status,
                before[0].label,
            ), f"wanted it {status}, found {node.status} {node.label}"
            assert [found.handle for found in adapter.find(OWNER, CLUSTER, GENERATION)] == list(
                ticket.handles
            )
        bench.exist(1, state)
    bench.adapter.update(ticket.handles[0], {STATE: "stopped"})
    bench.removed(ticket.handles)


def edits_that_are_not_declared_are_not_sent(bench: Bench) -> None:
    """The engine tells what only a replacement applies, and sends nothing for it."""
    undeclared = EDITS - bench.harness.manifest.capabilities.in_place
    world, wanted = bench.world, bench.spec()
    record = bench.run(operations.create(world, wanted, GENERATION))
    assert not record.reasons, record.reasons
    edited = {
        "labels": wanted.setup._replace(labels=(("team", "blue"),)),
        "ssh_key": wanted.setup._replace(ssh_public_key=SSH_KEY.replace("bbbb", "cccc")),
        "ttl": wanted.setup._replace(ttl_s=7_200),
    }
    for edit in sorted(undeclared):
        before = len(bench.store.mutations())
        bench.run(operations.update(world, record, wanted._replace(setup=edited[edit])))
        assert before == len(bench.store.mutations()), f"{edit} is not declared, and was sent"
        assert any(f"cannot edit {edit}" in line for line in bench.said), (
            f"wanted a warning about {edit}, found {bench.said}"
        )
    bench.run(operations.delete(world, record))


def _different(bench: Bench, count: int, but: Ticket | None = None) -> list[Candidate]:
    """So many candidates, each in another place where the cloud has several; a market sells each
    machine once.
    """
    taken = () if but is None or but.placed is None else (but.placed.offer.id,)
    found = [
        candidate for candidate in bench.candidates() if candidate.offer.id not in taken
    ] or list(bench.candidates())
    return [found[index % len(found)] for index in range(count)]
