"""A lost or unreadable answer of Compute Engine never buys twice and never hides a machine."""

import pytest

from providers.errors import BadCredentials, OutcomeUnknown, QuotaExceeded, RateLimited, Transient
from providers.model.machine import Handle
from tests.unit.gcp.rig import A, answering, candidate, order, raw


@pytest.mark.parametrize("fault", ["reply-lost", "error-after", "malformed"])
def test_a_lost_answer_is_settled_by_the_token(rig, fault) -> None:
    """The work was done, the answer lost: one creating call on the wire, found again by its token,
    one machine.
    """
    rig.store.add_fault("gcp", "instances.bulkInsert", fault, times=1)
    ordered = order()
    with pytest.raises(OutcomeUnknown) as caught:
        rig.gcp.submit(ordered)
    assert ordered.token == caught.value.token
    assert rig.calls("instances.bulkInsert") == 1
    ticket = rig.finish(rig.gcp.resume(ordered))
    assert 1 == len(ticket.handles) == len(rig.gcp.find("own1"))


@pytest.mark.parametrize("fault", ["unavailable", "html"])
def test_a_server_error_before_any_work_settles_to_nothing(rig, fault) -> None:
    """5xx and web pages leave the outcome open; looked up twice, nothing was made."""
    rig.store.add_fault("gcp", "instances.bulkInsert", fault, times=1)
    ordered = order()
    with pytest.raises(OutcomeUnknown):
        rig.gcp.submit(ordered)
    assert rig.gcp.resume(ordered) is None
    assert rig.calls("instances.bulkInsert") == 1
    assert rig.calls("zoneOperations.list") + rig.calls("instances.list") >= 4


def test_what_cannot_be_looked_up_stays_unknown(rig) -> None:
    """A refused look-up is no proof that nothing was made."""
    rig.store.add_fault("gcp", "zoneOperations.list", "forbidden")
    with pytest.raises(OutcomeUnknown, match="could not be looked up"):
        rig.gcp.resume(order())


def test_the_same_token_buys_once(rig) -> None:
    """Google does the work of one requestId once: a repeat returns the same operation."""
    ordered = order()
    first, second = rig.gcp.submit(ordered), rig.gcp.submit(ordered)
    assert first.native == second.native
    rig.finish(first)
    assert len(rig.gcp.find("own1")) == 1


def test_a_taken_name_is_settled_not_bought_again(rig) -> None:
    """409: the machine of this generation is there already, and is found."""
    rig.launched(candidate(A))
    again = order(candidate(A))
    with pytest.raises(OutcomeUnknown) as caught:
        rig.gcp.submit(again)
    assert caught.value.code == "alreadyExists"
    assert len(rig.finish(rig.gcp.resume(again)).handles) == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("rate-limit", RateLimited),
        ("too-many", RateLimited),
        ("unauthorized", BadCredentials),
        ("forbidden", BadCredentials),
        ("quota", QuotaExceeded),
    ],
)
def test_refusals_of_the_post_are_classified(rig, fault, kind) -> None:
    """Refused before any work: its class, and one request."""
    rig.store.add_fault("gcp", "instances.bulkInsert", fault)
    with pytest.raises(kind):
        rig.gcp.submit(order())
    assert rig.calls("instances.bulkInsert") == 1


def test_a_closed_connection_is_not_tried_again(rig) -> None:
    """The client's own repeat of an unanswered request is switched off: one POST, unknown outcome."""
    with answering(None) as (url, seen), pytest.raises(OutcomeUnknown):
        rig.adapter(url).submit(order())
    assert len(seen) == 1


@pytest.mark.parametrize(
    "reply",
    [
        raw(200, "<html>hello</html>", "text/html"),
        raw(200, "[1, 2]"),
        raw(200, '{"name": "op'),
        b"garbage\r\n\r\n",
    ],
)
def test_an_unreadable_answer_to_a_create_is_an_unknown_outcome(rig, reply) -> None:
    """A web page, half an answer, or no HTTP at all under status 200."""
    with answering(reply) as (url, seen), pytest.raises(OutcomeUnknown):
        rig.adapter(url).submit(order())
    assert len(seen) == 1


def test_an_unreadable_answer_to_a_read_is_passing(rig) -> None:
    """A read is asked again; it never means that a machine is gone."""
    reply = raw(200, "<html>hello</html>", "text/html")
    with answering(reply) as (url, _), pytest.raises(Transient):
        rig.adapter(url).observe([Handle("gcp", f"projects/rehearsal/zones/{A}/instances/x")])


def test_no_connection_is_passing(rig) -> None:
    """Nothing listens: nothing was sent, also for a create."""
    with answering(None) as (url, _):
        pass
    with pytest.raises(Transient, match="network"):
        rig.adapter(url).submit(order())


def test_a_proxy_is_not_asked_for_a_rehearsal(rig, monkeypatch) -> None:
    """The rehearsal's server is this process, whatever proxy the environment names."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert rig.launched(candidate(A)).placed.zone == A
