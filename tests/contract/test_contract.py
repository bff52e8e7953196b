"""The contract has teeth: an adapter that breaks a rule fails the case of that rule, and so does a
cloud that keeps a machine.
"""

from functools import partial
from uuid import uuid4

import pytest

from providers.errors import (
    CloudError,
    HalfMade,
    NoCapacity,
    OutcomeUnknown,
    Transient,
    Unclassified,
)
from providers.model.machine import GONE, Node
from providers.testing.bench import OTHER, OWNER
from providers.testing.contract import cases
from tests.contract.test_gcp import HARNESS


class Broken:
    """A good adapter but for one method."""

    def __init__(self, real) -> None:
        self.real = real

    def __getattr__(self, name):
        return getattr(self.real, name)


class DeletesNothing(Broken):
    def delete(self, handle) -> None:
        pass


class ListsEverybodys(Broken):
    def find(self, owner, cluster="", generation=""):
        return [
            node for owner in (OWNER, OTHER) for node in self.real.find(owner, cluster, generation)
        ]


class ReadsOnePage(Broken):
    def find(self, owner, cluster="", generation=""):
        return self.real.find(owner, cluster, generation)[:500]


class SendsAgain(Broken):
    def submit(self, order):
        try:
            return self.real.submit(order)
        except OutcomeUnknown:
            return self.real.submit(order)


class TakesALostAnswerForARefusal(Broken):
    def submit(self, order):
        try:
            return self.real.submit(order)
        except OutcomeUnknown as error:
            raise NoCapacity(str(error), provider="gcp", code=error.code) from None


class TakesAFaultForGone(Broken):
    def observe(self, handles):
        try:
            return self.real.observe(handles)
        except Transient:
            return [Node(handle, "", GONE) for handle in handles]


class BuysWhenAsked(Broken):
    def resume(self, order):
        return self.real.resume(order) or self.real.submit(order)


class ForgetsTheGeneration(Broken):
    def relabel(self, handle, generation) -> None:
        pass


class SaysGoneOnceAccepted(Broken):
    def observe(self, handles):
        return [
            node if node.status == "running" else node._replace(status=GONE)
            for node in self.real.observe(handles)
        ]


class BrokenVolumes(Broken):
    """Volumes that break one rule; the machines are good."""

    @property
    def volumes(self):
        store = Broken(self.real.volumes)
        for name in ("create", "look", "claim", "grow"):
            if name in vars(type(self)):
                setattr(store, name, partial(getattr(self, name), self.real.volumes))
        return store


class MakesAnotherVolume(BrokenVolumes):
    def create(self, store, order):
        name = f"{order.spec.name}-{len(store.find())}"
        return store.create(order._replace(spec=order.spec._replace(name=name), token=str(uuid4())))


class TakesAFaultForAVolumesEnd(BrokenVolumes):
    def look(self, store, handle):
        try:
            return store.look(handle)
        except (Transient, Unclassified):
            return None


class ForgetsTheNewOwner(BrokenVolumes):
    def claim(self, store, handle, owner) -> None:
        pass


class MountsNothing(Broken):
    def submit(self, order):
        return self.real.submit(order._replace(setup=order.setup._replace(volumes=())))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (DeletesNothing, "a_machine_is_made_seen_and_deleted"),
        (DeletesNothing, "a_killed_runs_machine_is_adopted"),
        (ListsEverybodys, "others_machines_are_never_listed"),
        (ReadsOnePage, "every_page_is_read"),
        (SendsAgain, "a_lost_reply_is_found_by_its_token"),
        (TakesALostAnswerForARefusal, "a_garbled_reply_is_found_by_its_token"),
        (TakesALostAnswerForARefusal, "one_machine_after_a_lost_reply"),
        (TakesAFaultForGone, "a_web_page_while_looking_never_means_gone"),
        (BuysWhenAsked, "an_order_is_settled_by_its_token"),
        (ForgetsTheGeneration, "a_new_generation_is_written_on_an_adopted_machine"),
        (SaysGoneOnceAccepted, "a_deletion_that_lags_is_not_done"),
        (MakesAnotherVolume, "one_token_makes_one_volume"),
        (MakesAnotherVolume, "a_lost_answer_leaves_a_volume_that_is_found_again"),
        (TakesAFaultForAVolumesEnd, "a_volume_that_cannot_be_asked_for_is_never_gone"),
        (ForgetsTheNewOwner, "a_volume_that_is_claimed_has_a_new_owner"),
        (MountsNothing, "a_volume_is_never_deleted_with_its_machine"),
        (MountsNothing, "a_volume_that_is_not_there_is_never_made_by_a_machine"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_adapter_fails(kind, name, contract_home) -> None:
    """Each broken rule is noticed by its case."""
    manifest = HARNESS.manifest._replace(
        connect=lambda *given: kind(HARNESS.manifest.connect(*given))
    )
    (case,) = [case for case in cases(HARNESS) if str(case) == name]
    with pytest.raises((AssertionError, HalfMade, CloudError)):
        case.run(HARNESS._replace(manifest=manifest), contract_home)


def test_every_case_states_its_rule() -> None:
    """Each case has a sentence, and a name of its own."""
    found = cases(HARNESS)
    assert len(found) == len({str(case) for case in found}) > 40
    assert all(case.rule.endswith(".") for case in found)


def test_a_declared_capability_must_be_testable(contract_home) -> None:
    """Reservations that are declared without a way to make one in the stand-in fail; undeclared
    ones are refused in the plan instead.
    """
    (case,) = [case for case in cases(HARNESS) if str(case) == "reservation"]
    with pytest.raises(AssertionError, match="declares reservations"):
        case.run(HARNESS._replace(reserve=None), contract_home)
    less = HARNESS.manifest._replace(
        capabilities=HARNESS.manifest.capabilities._replace(
            capacities=frozenset({"on-demand"}), max_nodes=1
        )
    )
    names = [str(case) for case in cases(HARNESS._replace(manifest=less))]
    assert {"no_reservation", "no_spot", "one_node_is_the_most"} <= set(names)
