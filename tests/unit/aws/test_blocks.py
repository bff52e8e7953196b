"""EC2 Capacity Blocks on the wire: listed with their window and price, paid for once, waited for,
launched into, and over 30 minutes before their end.
"""

import pytest

from providers.adapters.aws import tagging
from providers.adapters.aws.blocks import block_notes
from providers.errors import (
    CloudError,
    NoCapacity,
    OfferGone,
    OutcomeUnknown,
    PriceRose,
    Transient,
    Unsupported,
)
from providers.model.ask import BLOCK, Ask, BlockTerms, Capacity, Choice
from providers.model.machine import BLOCK_ENDS_AT, QUEUED, Setup
from providers.rehearsal.clouds.aws import blocks, places
from tests.unit.aws.rig import REGION, A, candidate, order

DAY, USD = 86_400, 1_000_000
TERMS = BlockTerms(DAY, 14 * DAY, 1_000 * USD)


def ask(terms=TERMS, nodes=1) -> Ask:
    return Ask((Choice("H100", 8, nodes=nodes, capacity=(Capacity(BLOCK),)),), block=terms)


def listed(rig, terms=TERMS, nodes=1):
    """What is for sale of P5 in the region."""
    like = [candidate(A, capacity="reservation").offer]
    return rig.ec2.block_offers(ask(terms, nodes), like)


def bookable(rig, terms=TERMS, nodes=1):
    """The first block that is for sale, as a candidate."""
    offer = listed(rig, terms, nodes).offers[0]
    plain = candidate(offer.zone, nodes=nodes)
    return plain._replace(offer=offer, micro_usd=offer.node_micro_usd * nodes)


def bought(rig) -> list[float]:
    with rig.rows() as rows:
        return [fee for _, fee in blocks.paid(rows)]


def rewrite(rig, **changes):
    """Changes the only reservation at its cloud."""
    with rig.rows() as rows:
        item = {**rows.things(REGION, "reservation")[0], **changes}
        rows.write_thing(item)
    return item


def test_blocks_are_listed_with_window_and_whole_price(rig) -> None:
    """Each is in one zone, by its id; the price by the hour is the whole price spread out."""
    offers = listed(rig).offers
    offer = offers[0]
    assert {each.zone for each in offers} <= set(places.zones(REGION))
    assert offer.term.upfront_micro_usd == 755_040_000 and offer.node_micro_usd == 31_460_000
    assert offer.term.begins_at > rig.moment and offer.capacity == BLOCK
    assert offer.term.ends_at == offer.term.begins_at + DAY - 1_800
    (note,) = block_notes(candidate()._replace(offer=offer), Setup())
    assert "a block of 1d from" in note and "$755.04, paid when it is bought" in note
    _, warning = block_notes(candidate()._replace(offer=offer), Setup(ttl_s=DAY))
    assert "before a ttl of 1d" in warning
    pair = listed(rig, TERMS._replace(max_micro_usd=2_000 * USD), nodes=2).offers[0]
    assert (pair.term.upfront_micro_usd, pair.node_micro_usd) == (1_510_080_000, 31_460_000)


def test_a_block_above_its_cap_or_too_far_off_is_not_for_sale(rig) -> None:
    """The cap is on all of it; what begins later than asked is not listed; three are not sold."""
    above = listed(rig, TERMS._replace(max_micro_usd=755 * USD)).offers
    assert all(
        x.restriction == "$755.04 for all of it, above block.max_price $755.00" for x in above
    )
    soon = listed(rig, TERMS._replace(start_within_s=DAY)).offers
    assert 0 < len(soon) < len(above) and not listed(rig, TERMS._replace(start_within_s=60)).offers
    assert "not of 3" in listed(rig, nodes=3).lines[0]


def test_what_cannot_be_listed_is_a_line_beside_others_and_else_an_error(rig) -> None:
    """What is for sale there is not known, which is not nothing."""
    like = candidate(A, capacity="reservation").offer
    both = [like, like._replace(machine_type="p4d.24xlarge")]
    rig.store.add_fault("aws", "ec2.DescribeCapacityBlockOfferings", "unavailable")
    offers, lines = rig.ec2.block_offers(ask(TERMS, 1), both)
    assert offers and len(lines) == 1 and f"in {REGION} are not known" in lines[0]
    rig.store.add_fault("aws", "ec2.DescribeCapacityBlockOfferings", "unavailable", None)
    with pytest.raises(Transient, match="looking for blocks of"):
        rig.ec2.block_offers(ask(TERMS, 1), both)


def test_a_block_is_paid_once_waited_for_and_launched_into(rig) -> None:
    """Queued until it begins; then one launch, as market type capacity-block; EC2 ends it 30
    minutes before the block's end, which is its own end and no loss.
    """
    chosen = bookable(rig)
    term = chosen.offer.term
    ticket = rig.ec2.submit(order(chosen))
    assert ticket.state == QUEUED and ticket.begins_at == term.begins_at
    assert ticket.upfront_micro_usd == term.upfront_micro_usd and bought(rig) == [755.04]
    rig.moment = term.begins_at - 60
    assert rig.ec2.poll(ticket).state == QUEUED and rig.left()[0] == []
    rig.moment = term.begins_at + 60
    ticket = rig.finish(rig.ec2.poll(ticket))
    assert (ticket.placed.zone, ticket.placed.capacity, ticket.placed.reservation) == (
        chosen.zone,
        BLOCK,
        "",
    )
    assert ticket.upfront_micro_usd == term.upfront_micro_usd
    (node,) = rig.ec2.observe(ticket.handles)
    assert node.capacity == BLOCK and node.label.cluster == "train"
    rig.moment = term.ends_at + 60
    (node,) = rig.ec2.observe(ticket.handles)
    assert node.status == "gone" and node.ended
    assert rig.count("PurchaseCapacityBlock") == 1


@pytest.mark.parametrize("kind", ["reply-lost", "error-after", "malformed"])
def test_a_lost_answer_is_found_by_its_tags_and_never_sent_again(rig, kind) -> None:
    """It was paid: the order's token leads to it, in any process."""
    placed = order(bookable(rig))
    rig.store.add_fault("aws", "ec2.PurchaseCapacityBlock", kind)
    with pytest.raises(OutcomeUnknown):
        rig.ec2.submit(placed)
    found = rig.adapter().resume(placed)
    assert found.state == QUEUED and found.upfront_micro_usd == 755_040_000
    assert bought(rig) == [755.04]


def test_a_lost_purchase_that_nobody_lists_stays_unknown_for_a_while(rig) -> None:
    """Not to be listed proves nothing for ten minutes after it was sent, in any process."""
    placed = order(bookable(rig))._replace(intended_at=rig.moment)
    rig.store.add_fault("aws", "ec2.PurchaseCapacityBlock", "unavailable")
    with pytest.raises(OutcomeUnknown):
        rig.ec2.submit(placed)
    for adapter in (rig.ec2, rig.adapter()):
        with pytest.raises(OutcomeUnknown, match="no block of this order is listed yet"):
            adapter.resume(placed)
    rig.moment = placed.intended_at + 480
    with pytest.raises(OutcomeUnknown):
        rig.adapter().resume(placed)
    rig.moment = placed.intended_at + 600
    assert rig.adapter().resume(placed) is None


def test_a_cluster_uses_the_block_that_it_has_and_buys_no_second_one(rig) -> None:
    """Another order of it waits for the same block; one of another type is refused; a full one has
    no room. Another cluster buys its own.
    """
    first = rig.ec2.submit(order(bookable(rig)))
    again = rig.ec2.submit(order(bookable(rig), generation="gen2"))
    assert dict(again.native)["block"] == dict(first.native)["block"]
    assert again.native == first.native and bought(rig) == [755.04]
    offer = bookable(rig).offer._replace(machine_type="p5en.48xlarge")
    with pytest.raises(Unsupported, match="a second block is not bought"):
        rig.ec2.submit(order(candidate()._replace(offer=offer), generation="gen3"))
    rig.moment = first.begins_at + 60
    rig.finish(rig.ec2.poll(first))
    with pytest.raises(NoCapacity, match="0 of its machines are free, 1 are wanted"):
        rig.ec2.submit(order(bookable(rig), generation="gen4"))
    assert bought(rig) == [755.04]
    rig.ec2.submit(order(bookable(rig), cluster="other"))
    assert bought(rig) == [755.04, 755.04]


def test_what_is_not_as_planned_is_not_bought(rig) -> None:
    """Gone, dearer, or refused by the launch's own check: nothing is paid."""
    chosen = bookable(rig)
    term = chosen.offer.term
    gone = chosen.offer._replace(term=term._replace(offering="cb-0123456789abcdef0"))
    cheaper = chosen.offer._replace(term=term._replace(upfront_micro_usd=700 * USD))
    for offer, error in ((gone, OfferGone), (cheaper, PriceRose)):
        placed = order(chosen._replace(offer=offer))
        with pytest.raises(error):
            rig.ec2.submit(placed)
        assert rig.ec2.resume(placed) is None
    rig.store.add_fault("aws", "ec2.RunInstances", "forbidden")
    with pytest.raises(CloudError):
        rig.ec2.submit(order(chosen))
    with pytest.raises(Unsupported):
        rig.ec2.submit(order(chosen, options=(("ami", "ami-0123456789abcdef0"),)))
    assert bought(rig) == [] and rig.count("PurchaseCapacityBlock") == 0


def test_a_launch_whose_answer_was_lost_is_found_again(rig) -> None:
    """The machine in the block bears the order's token: no second one is launched."""
    placed = order(bookable(rig))
    ticket = rig.ec2.submit(placed)
    rig.moment = ticket.begins_at + 60
    rig.store.add_fault("aws", "ec2.RunInstances", "reply-lost")
    with pytest.raises(OutcomeUnknown):
        rig.ec2.poll(ticket)
    assert rig.finish(rig.ec2.poll(ticket)).handles == rig.finish(rig.ec2.resume(placed)).handles
    assert len(rig.left()[0]) == 1


def test_a_block_whose_payment_failed_is_no_capacity(rig) -> None:
    """Nothing was paid, which its ticket says before the next place may be tried."""
    ticket = rig.ec2.submit(order(bookable(rig)))
    rewrite(rig, State="payment-failed")
    told = rig.ec2.poll(ticket)
    assert (told.upfront_micro_usd, told.begins_at) == (0, 0)
    with pytest.raises(NoCapacity, match="is payment-failed"):
        rig.ec2.poll(told)
    assert rig.adapter().resume(ticket.order) == told


@pytest.mark.parametrize("state", ["failed", "cancelled", "expired", "unsupported"])
def test_a_block_that_is_over_was_paid_all_the_same(rig, state) -> None:
    """What it cost is counted on; its window is no more."""
    ticket = rig.ec2.submit(order(bookable(rig)))
    rewrite(rig, State=state)
    told = rig.ec2.poll(ticket)
    assert told.upfront_micro_usd == 755_040_000 and BLOCK_ENDS_AT not in dict(told.native)
    with pytest.raises(NoCapacity, match=f"is {state}"):
        rig.ec2.poll(told)


def test_a_fee_on_the_tag_of_an_earlier_order_that_nobody_can_read_is_not_known(rig) -> None:
    """It is neither zero nor what the new order would have paid."""
    rig.ec2.submit(order(bookable(rig)))
    rewrite(rig, tags={**rewrite(rig)["tags"], tagging.BLOCK_FEE: ""})
    again = rig.ec2.submit(order(bookable(rig), generation="gen2"))
    assert again.upfront_micro_usd is None and bought(rig) == [755.04]


@pytest.mark.parametrize("state", ["unavailable", "of-tomorrow", "assessing"])
def test_a_block_in_a_state_that_nobody_knows_still_stands(rig, state) -> None:
    """It is waited for, found again, and no second one is bought."""
    ticket = rig.ec2.submit(order(bookable(rig)))
    rewrite(rig, State=state)
    assert rig.ec2.poll(ticket) == ticket
    assert rig.adapter().resume(ticket.order) == ticket
    again = rig.ec2.submit(order(bookable(rig), generation="gen2"))
    assert dict(again.native)["block"] == dict(ticket.native)["block"]
    assert bought(rig) == [755.04]


def test_an_own_block_is_found_whatever_is_missing_in_its_list(rig) -> None:
    """By the order's token alone. What it cost is what the order was placed for, whatever became of
    its tag.
    """
    ticket = rig.ec2.submit(order(bookable(rig)))
    tags = {**rewrite(rig)["tags"], tagging.BLOCK_FEE: "about 700"}
    rewrite(rig, InstanceType="", tags=tags)
    found = rig.adapter().resume(ticket.order)
    assert dict(found.native) == dict(ticket.native)
    assert found.upfront_micro_usd == 755_040_000


def test_a_block_of_another_process_is_waited_for(rig) -> None:
    """What the ticket has is enough, for any process."""
    ticket = rig.ec2.submit(order(bookable(rig)))
    rig.moment = ticket.begins_at + 60
    other = rig.adapter()
    assert rig.done(other, other.poll(ticket)).state == "done"


def test_the_block_bears_whose_it_is(rig) -> None:
    """By its tags the console shows which cluster paid for it, and how much."""
    rig.ec2.submit(order(bookable(rig)))
    (item,) = rig.boto("describe_capacity_reservations")["CapacityReservations"]
    tags = {tag["Key"]: tag["Value"] for tag in item["Tags"]}
    assert tags[tagging.CLUSTER] == "train" and tags[tagging.BLOCK_FEE] == "755040000"
    assert item["ReservationType"] == "capacity-block"
