"""Cases of the contract: ways to buy, numbers of nodes, and kinds, declared and not declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.launch.verify import delivered
from providers.errors import CloudError
from providers.model.ask import FLEX_START, ON_DEMAND, RESERVATION, SPOT

if TYPE_CHECKING:
    from providers.testing.bench import Bench


def on_demand(bench: Bench) -> None:
    """A machine bought on demand is one, on the adapter's and on the stand-in's word."""
    _bought_as(bench, ON_DEMAND)


def spot(bench: Bench) -> None:
    """A machine bought as Spot is one, on the adapter's and on the stand-in's word."""
    _bought_as(bench, SPOT)


def flex_start(bench: Bench) -> None:
    """A machine bought as Flex-start is one, on the adapter's and on the stand-in's word."""
    _bought_as(bench, FLEX_START)


def reservation(bench: Bench) -> None:
    """A machine out of a reservation that the user owns is one, on the adapter's and on the
    stand-in's word.
    """
    assert bench.harness.reserve is not None, (
        f"{bench.name} declares reservations: wanted a harness with `reserve`, found none"
    )
    name = bench.harness.reserve(bench.store, bench.candidates(RESERVATION)[0])
    bench.wait(5.0)
    _bought_as(bench, RESERVATION, name)


def no_on_demand(bench: Bench) -> None:
    """On-demand capacity that is not declared is refused in the plan."""
    _not_bought_as(bench, ON_DEMAND)


def no_spot(bench: Bench) -> None:
    """Spot capacity that is not declared is refused in the plan."""
    _not_bought_as(bench, SPOT)


def no_flex_start(bench: Bench) -> None:
    """Flex-start capacity that is not declared is refused in the plan."""
    _not_bought_as(bench, FLEX_START)


def no_reservation(bench: Bench) -> None:
    """A reservation where none is declared is refused in the plan."""
    _not_bought_as(bench, RESERVATION)


def _bought_as(bench: Bench, kind: str, reservation: str = "mine") -> None:
    ticket, nodes = bench.made(bench.order(bench.candidates(kind, reservation=reservation)[0]))
    delivered(ticket, nodes)
    assert {node.capacity for node in nodes} == {kind}, (
        f"wanted {kind}, found {[node.capacity for node in nodes]}"
    )
    assert [machine.capacity for machine in bench.knobs.running()] == [kind]
    bench.removed(ticket.handles)


def _not_bought_as(bench: Bench, kind: str) -> None:
    plan = bench.plan(bench.ask(kind))
    assert not plan.candidates, (
        f"{bench.name} does not declare {kind}, and the plan has {plan.best}"
    )


def several_nodes_are_made_whole_or_not_at_all(bench: Bench) -> None:
    """Two nodes are two machines in one place, in the order of their names; where only one is left,
    none is made.
    """
    best = bench.candidates(nodes=2)[0]
    order = bench.order(best, nodes=2)
    ticket, nodes = bench.made(order)
    bench.exist(2, "two nodes")
    assert tuple(node.name for node in nodes) == order.node_names, (
        f"wanted {order.node_names}, found {[node.name for node in nodes]}"
    )
    delivered(ticket, nodes)
    bench.removed(ticket.handles)
    bench.exist(0, "deleted")
    bench.knobs.sell_out(left=1)
    try:
        launched = bench.finish(bench.adapter.submit(bench.order(best, nodes=2)))
    except CloudError as error:
        bench.removed(getattr(error, "handles", ()))
    else:
        raise AssertionError(
            f"wanted all or none where one machine is left, found {launched.handles}"
        )
    bench.exist(0, "where one is left, of two")


def one_node_is_the_most(bench: Bench) -> None:
    """A cluster of two nodes is refused in the plan, with the reason."""
    _too_many(bench, 2)


def more_nodes_than_declared_are_refused_in_the_plan(bench: Bench) -> None:
    """One node more than the adapter declares is refused in the plan,
    with the most there can be.
    """
    _too_many(bench, bench.harness.manifest.capabilities.max_nodes + 1)


def _too_many(bench: Bench, nodes: int) -> None:
    plan = bench.plan(bench.ask(nodes=nodes))
    assert not plan.candidates
    assert plan.rejected_by_rule.get("nodes"), (
        f"wanted a refusal by the rule for nodes, found {plan.rejected_by_rule}"
    )
    assert any("nodes" in problem.path for problem in plan.problems), (
        f"wanted it said before any order, found {plan.problems}"
    )


def kinds_that_are_not_declared_are_refused_in_the_plan(bench: Bench) -> None:
    """A kind of cluster that the adapter does not declare has no candidate; a declared one has."""
    for kind in sorted(KINDS):
        plan = bench.plan(bench.ask(kind=kind))
        declared = kind in bench.harness.manifest.capabilities.kinds
        assert bool(plan.candidates) == declared, (
            f"{kind} is {'' if declared else 'not '}declared, and the plan has {plan.best}"
        )
        assert declared or plan.rejected_by_rule.get("kind")


KINDS = frozenset({"machine", "job", "service"})
