"""The Google Cloud adapter over Google's own client, against the Compute Engine stand-in on
loopback; its clock is the test's.
"""

import contextlib
import http.server
import json
import threading
import uuid

import pytest

from providers.adapters.gcp import MANIFEST
from providers.adapters.gcp import compile as native
from providers.rehearsal.clouds import gcp as standin
from providers.adapters.gcp.adapter import Gcp
from providers.adapters.gcp.client import Client
from providers.adapters import registry
from providers.engine.runtime.world import connected
from providers.rehearsal import start
from providers.rehearsal.store import Store, open_store
from providers.errors import (
    BadCredentials,
    HalfMade,
    NoCapacity,
    NotConfigured,
    OutcomeUnknown,
    QuotaExceeded,
    RateLimited,
    SpecError,
    Transient,
    Unclassified,
    Unsupported,
)
from providers.model import idle
from providers.model.machine import Handle, Mark, Order, Setup
from providers.model.offer import Candidate, Offer
from providers.model.place import Scope

TYPES = {
    "a3-highgpu-8g": ("H100", 8, ""),
    "a2-highgpu-1g": ("A100", 1, ""),
    "a2-ultragpu-8g": ("A100-80GB", 8, ""),
    "g2-standard-4": ("L4", 1, ""),
    "g2-standard-8": ("L4", 1, ""),
    "n1-standard-8": ("T4", 1, "nvidia-tesla-t4"),
}
A, B, C = "us-central1-a", "us-central1-b", "us-central1-c"


def candidate(
    zone=A,
    machine_type="a3-highgpu-8g",
    capacity="on-demand",
    micro_usd=88_490_000,
    region="",
    reservation="",
):
    gpu, count, accelerator = TYPES[machine_type]
    offer = Offer(
        "gcp",
        region or zone.rsplit("-", 1)[0],
        zone,
        machine_type,
        gpu,
        count,
        capacity,
        micro_usd,
        accelerator=accelerator,
    )
    return Candidate(1, 0, offer, 1, reservation=reservation, micro_usd=micro_usd)


def order(
    *candidates, nodes=1, generation="gen1", cluster="train", owner="own1", wait_s=900, **setup
):
    names = tuple(f"{cluster}-{generation}-{index}" for index in range(nodes))
    return Order(
        Mark(owner, cluster, generation, "0123456789abcdef"),
        str(uuid.uuid4()),
        candidates or (candidate(),),
        names,
        Setup(**setup),
        wait_s,
    )


class Rig:
    """A stand-in with its store, the test's clock, and an adapter on it."""

    def __init__(self, path):
        self.moment = 1_800_000_000.0
        self.store = Store(path / "rehearsal.db", clock=lambda: self.moment)
        self.server = standin.start(self.store)
        self.gcp = self.adapter(self.server.url)

    def adapter(self, url):
        from google.auth.credentials import AnonymousCredentials

        client = Client("rehearsal", AnonymousCredentials(), f"{url}/compute/v1/", timeout_s=5.0)
        return Gcp("rehearsal", client, sleep=self.sleep, second_look_s=0.1)

    def sleep(self, seconds):
        self.moment += seconds

    def had(self, ticket, polls=60):
        """The ticket once it is done."""
        for _ in range(polls):
            ticket = self.gcp.poll(ticket)
            if ticket.state == "done":
                return ticket
            self.moment += 1
        raise AssertionError(f"still {ticket.state}")

    def got(self, *args, **rest):
        return self.had(self.gcp.submit(order(*args, **rest)))

    def status(self, handle):
        return self.gcp.observe([handle])[0].status

    def calls(self, method):
        return len(self.store.requests(method))


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.server.close()
    assert [] == rig.server.faulty


@contextlib.contextmanager
def answering(reply):
    """A server on loopback that gives one raw reply (bytes; None: closes without a word) and counts
    its requests.
    """
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_any(self):
            seen.append((self.command, self.path))
            self.rfile.read(int(self.headers.get("content-length") or 0))
            if reply is not None:
                self.wfile.write(reply)
            self.close_connection = True

        do_GET = do_POST = do_DELETE = handle_any

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def raw(status, content, kind="application/json"):
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length:"
        f" {len(content)}\r\nConnection: close\r\n\r\n{content}".encode()
    )


# Getting machines


@pytest.mark.parametrize(
    ("machine_type", "gpu", "count", "capacity"),
    [
        ("a3-highgpu-8g", "H100", 8, "on-demand"),
        ("a3-highgpu-8g", "H100", 8, "spot"),
        ("a2-ultragpu-8g", "A100-80GB", 8, "spot"),
        ("g2-standard-4", "L4", 1, "on-demand"),
        ("n1-standard-8", "T4", 1, "on-demand"),
    ],
)
def test_b10_each_family_is_had_as_ordered(rig, machine_type, gpu, count, capacity):
    """L4 on G2, A100 on A2, H100 on A3, T4 attached to N1: made, running, and seen as what was
    ordered.
    """
    ticket = rig.got(candidate(machine_type=machine_type, capacity=capacity))
    node = rig.gcp.observe(ticket.handles)[0]
    assert (machine_type, gpu, count, capacity, "running", A, "us-central1") == (
        node.machine_type,
        node.gpu_type,
        node.gpu_count,
        node.capacity,
        node.status,
        node.zone,
        node.region,
    )
    assert ticket.placed == candidate(machine_type=machine_type, capacity=capacity)
    assert node.internal_ip and node.external_ip and node.created_at > 0
    assert Mark("own1", "train", "gen1", "0123456789abcdef") == node.mark


def test_b11_reported_accelerators_are_no_change(rig):
    """The API reports the built-in GPU of an A2; the node is still the one that was ordered."""
    ticket = rig.got(candidate(machine_type="a2-highgpu-1g"))
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]
    body = rig.gcp._client.call(
        lambda s: s.instances().get(project=project, zone=zone, instance=name),
        rig.gcp._context(ticket.order),
    )
    assert "nvidia-tesla-a100" in json.dumps(body.get("guestAccelerators"))
    assert ("A100", 1) == (
        rig.gcp.observe(ticket.handles)[0].gpu_type,
        rig.gcp.observe(ticket.handles)[0].gpu_count,
    )


def test_several_zones_go_out_as_one_call(rig):
    """A sold-out first zone costs no second call: Google picks the next zone of the group, and the
    ticket says which.
    """
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "on-demand", 0)
    ticket = rig.got(candidate(A), candidate(B))
    assert (B, 1) == (ticket.placed.zone, rig.calls("regionInstances.bulkInsert"))


def test_zones_that_the_plan_lacks_are_never_used(rig):
    """A zone outside of the group has stock, the group has none: refused, and nothing is made
    elsewhere.
    """
    for zone in (A, B):
        rig.store.set_stock("gcp", zone, "a3-highgpu-8g", "on-demand", 0)
    ticket = rig.gcp.submit(order(candidate(A), candidate(B)))
    rig.moment += 30
    with pytest.raises(NoCapacity):
        rig.gcp.poll(ticket)
    assert [] == list(rig.gcp.find("own1"))


def test_machine_types_fall_back_within_one_call(rig):
    """With instance flexibility the second type of the group is had when the first is sold out."""
    rig.store.set_stock("gcp", "us-central1", "g2-standard-4", "on-demand", 0)
    group = [
        candidate(zone, machine_type)
        for machine_type in ("g2-standard-4", "g2-standard-8")
        for zone in (A, B)
    ]
    assert 4 == rig.gcp.group(group)
    ticket = rig.got(*group)
    assert ("g2-standard-8", A) == (ticket.placed.machine_type, ticket.placed.zone)


def test_a_place_without_a_zone_is_filled_in(rig):
    """Where only the region is known, the placed candidate names the zone that was had."""
    ticket = rig.got(candidate("", region="us-central1"))
    assert ticket.placed.zone.startswith("us-central1-")


def test_a_cluster_is_whole_and_in_one_zone(rig):
    """Two nodes: both or none, in one zone, in the order of their names."""
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "on-demand", 1)
    ticket = rig.got(candidate(A), candidate(B), nodes=2)
    assert B == ticket.placed.zone
    assert ["train-gen1-0", "train-gen1-1"] == [
        handle.native_id.rsplit("/", 1)[-1] for handle in ticket.handles
    ]


def test_a_cluster_that_does_not_fit_leaves_nothing(rig):
    """One of two nodes could be had: refused as a stockout, all rolled back."""
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "on-demand", 1)
    ticket = rig.gcp.submit(order(candidate(A), nodes=2))
    rig.moment += 30
    with pytest.raises(NoCapacity) as caught:
        rig.gcp.poll(ticket)
    assert (
        Scope("gcp", "us-central1", A, "a3-highgpu-8g", capacity="on-demand"),
    ) == caught.value.scopes
    assert [] == list(rig.gcp.find("own1"))


def test_b22_a_stockout_comes_with_the_operation_and_names_a_zone(rig):
    """The POST succeeds, the operation fails later; the refusal hints at the zone that Google
    names, and the second try succeeds there.
    """
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "on-demand", 0)
    ticket = rig.gcp.submit(order(candidate(A)))
    assert "waiting" == rig.gcp.poll(ticket).state
    rig.moment += 30
    with pytest.raises(NoCapacity) as caught:
        rig.gcp.poll(ticket)
    assert caught.value.hints and A not in caught.value.hints
    assert [] == list(rig.gcp.find("own1"))
    assert caught.value.hints[0] == rig.got(candidate(caught.value.hints[0])).placed.zone


@pytest.mark.parametrize(
    "code",
    ["ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "STOCKOUT"],
)
def test_b18_each_stockout_code_of_an_operation_is_no_capacity(rig, code):
    """Whatever the code, nothing is left and the place is refused."""
    rig.store.add_fault("gcp", "instances.bulkInsert", "op-error", code=code)
    ticket = rig.gcp.submit(order(candidate(A)))
    rig.moment += 30
    with pytest.raises(NoCapacity):
        rig.gcp.poll(ticket)


def test_an_unknown_code_is_unclassified_and_settles_to_nothing(rig):
    """It is shown as is; looked up by its token, the operation is over and nothing was made."""
    rig.store.add_fault("gcp", "instances.bulkInsert", "op-error", code="UNHEARD_OF")
    ordered = order(candidate(A))
    ticket = rig.gcp.submit(ordered)
    rig.moment += 30
    with pytest.raises(Unclassified, match="UNHEARD_OF"):
        rig.gcp.poll(ticket)
    assert rig.gcp.resume(ordered) is None


@pytest.mark.parametrize(
    "code", ["RESOURCE_OPERATION_RATE_EXCEEDED", "RESOURCE_NOT_READY", "INTERNAL_ERROR"]
)
def test_a_passing_fault_that_ended_the_operation_is_settled(rig, code):
    """The operation is over, so polling on would never end: it is looked up, and nothing was made."""
    rig.store.add_fault("gcp", "instances.bulkInsert", "op-error", code=code)
    ordered = order(candidate(A))
    ticket = rig.gcp.submit(ordered)
    rig.moment += 30
    with pytest.raises(OutcomeUnknown) as caught:
        rig.gcp.poll(ticket)
    assert code == caught.value.code
    assert rig.gcp.resume(ordered) is None


def test_b19_quota_stops_what_it_counts(rig):
    """A regional limit blocks that GPU in that region; the global one blocks Google; both name
    metric and page.
    """
    rig.store.set_quota("gcp", "us-central1", "NVIDIA_L4_GPUS", 0)
    with pytest.raises(QuotaExceeded) as caught:
        rig.got(candidate(A, "g2-standard-4"))
    assert "NVIDIA_L4_GPUS" == caught.value.metric
    assert all(scope.region == "us-central1" for scope in caught.value.scopes)
    rig.store.set_quota("gcp", "", "GPUS_ALL_REGIONS", 0)
    with pytest.raises(QuotaExceeded) as caught:
        rig.got(candidate("us-east1-c", "g2-standard-4"))
    assert (Scope("gcp"),) == caught.value.scopes
    assert "iam-admin/quotas?project=rehearsal" in str(caught.value)


@pytest.mark.parametrize(
    ("place", "metric", "scopes"),
    [
        ("", "GPUS_ALL_REGIONS", {Scope("gcp")}),
        (
            "us-central1",
            "NVIDIA_L4_GPUS",
            {Scope("gcp", "us-central1", gpu_type="L4", capacity="on-demand")},
        ),
    ],
)
def test_b19_a_quota_that_google_names_in_words_only_is_looked_up(rig, place, metric, scopes):
    """HTTP 403 without quotaInfo: the quotas are read, so that the scope is known and no word is
    matched.
    """
    rig.store.set_quota("gcp", place, metric, 0)
    rig.store.add_fault("gcp", "instances.bulkInsert", "quota", metric="SOMETHING_ELSE")
    with pytest.raises(QuotaExceeded) as caught:
        rig.gcp.submit(order(candidate(A, "g2-standard-4")))
    assert (metric, "0", scopes) == (
        caught.value.metric,
        caught.value.limit,
        set(caught.value.scopes),
    )


def test_b21_a_zone_without_the_machine_type_is_skipped_alone(rig):
    """400 "not in this zone" is Unsupported there, after one creating call."""
    with pytest.raises(Unsupported) as caught:
        rig.gcp.submit(order(candidate("us-central1-f")))
    assert (Scope("gcp", "us-central1", "us-central1-f", "a3-highgpu-8g"),) == caught.value.scopes
    assert 1 == rig.calls("instances.bulkInsert")


def test_a_missing_image_is_configuration_not_a_place(rig):
    """The machine type is there, the image is not: trying elsewhere would not help, and the message
    says what may be wrong.
    """
    with pytest.raises(
        NotConfigured,
        match=r"options.gcp.image_family: wanted image family no-such-family of project my-project",
    ) as caught:
        rig.gcp.submit(
            order(
                candidate(A),
                options=(("image_family", "no-such-family"), ("image_project", "my-project")),
            )
        )
    assert (Scope("gcp"),) == caught.value.scopes


def test_a_missing_image_is_told_for_a_region_and_for_n1_too(rig):
    """Whatever the call, a boot image that is nowhere ends Google at once, and the option that
    names it is what to fix.
    """
    for asked in (candidate("", region="us-central1"), candidate(A, machine_type="n1-standard-8")):
        with pytest.raises(
            NotConfigured, match=r"options.gcp.image: wanted image nothing-v1 of project my-project"
        ):
            rig.gcp.submit(
                order(asked, options=(("image", "nothing-v1"), ("image_project", "my-project")))
            )


def test_b26_an_operation_that_google_does_not_know_is_not_sold_out(rig):
    """Polled in another project, or long forgotten, with no machine there: what became of it is not
    known, and no place is blocked.
    """
    ticket = rig.gcp.submit(order(candidate(A)))
    other = Gcp(
        "rehearsal",
        Client("other-project", rig.gcp._client._credentials, f"{rig.server.url}/compute/v1/"),
        sleep=rig.sleep,
    )
    with pytest.raises(OutcomeUnknown, match="other-project") as caught:
        other.poll(ticket)
    assert (caught.value.code, caught.value.scopes) == ("OPERATION_UNKNOWN", ())
    assert rig.had(ticket).state == "done"


@pytest.mark.parametrize("project", ["My Project", "x", "UPPER-case", "a/b", "ends-with-"])
def test_a_project_that_can_be_none_is_told_at_once(tmp_path, monkeypatch, project):
    """A word that is no project id is refused where it is read, before any call."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    with pytest.raises(NotConfigured, match="wanted a project id"):
        MANIFEST.connect("rehearsal", {"project": project})


def test_a_value_that_google_does_not_take_is_a_refusal(rig):
    """400 invalidParameter on a creating call made nothing, whatever it says."""
    rig.store.add_fault(
        "gcp", "instances.bulkInsert", "http", 1, status=400, reason="invalidParameter"
    )
    with pytest.raises((Unsupported, NotConfigured)):
        rig.gcp.submit(order(candidate(A)))


def test_an_id_that_is_no_machine_of_google_is_the_users(rig):
    """A handle of another form is told as wanted and found."""
    with pytest.raises(SpecError, match="wanted projects/P/zones/Z/instances/N, found 'foo/bar'"):
        rig.gcp.observe([Handle("gcp", "foo/bar")])


def test_a_missing_reservation_blocks_that_capacity_only(rig):
    """A reservation that the zone lacks leaves other ways to buy the machine open."""
    with pytest.raises((Unsupported, NoCapacity)) as caught:
        rig.got(candidate(A, capacity="reservation", reservation="mine"))
    assert {"reservation"} == {scope.capacity for scope in caught.value.scopes}


def test_a_reservation_is_used_by_name(rig):
    """A reserved machine is had where the reservation is, and seen as such."""
    body = {
        "name": "mine",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": "1",
            "instanceProperties": {"machineType": "a3-highgpu-8g"},
        },
    }
    rig.gcp._client.call(
        lambda s: s.reservations().insert(project="rehearsal", zone=A, body=body),
        rig.gcp._context(order()),
    )
    rig.moment += 10
    ticket = rig.got(candidate(A, capacity="reservation", reservation="mine"))
    assert "reservation" == rig.gcp.observe(ticket.handles)[0].capacity


def test_flex_start_is_queued_until_there_is_room(rig):
    """No room: queued, not refused; once there is room, had."""
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "flex-start", 0)
    ticket = rig.gcp.submit(order(candidate(A, capacity="flex-start"), wait_s=3600))
    rig.moment += 30
    ticket = rig.gcp.poll(ticket)
    assert "queued" == ticket.state
    assert "7d" in ticket.detail
    assert ["queued"] == [node.status for node in rig.gcp.find("own1")]
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "flex-start", 1)
    assert "flex-start" == rig.had(ticket).placed.capacity


def test_flex_start_s_wait_runs_out(rig):
    """When the queue's time is over Google deletes the machine and the operation fails: refused,
    nothing left.
    """
    rig.store.set_stock("gcp", A, "a3-highgpu-8g", "flex-start", 0)
    ticket = rig.gcp.submit(order(candidate(A, capacity="flex-start"), wait_s=120))
    rig.moment += 7300
    with pytest.raises(NoCapacity):
        rig.gcp.poll(ticket)
    assert [] == list(rig.gcp.find("own1"))


def test_a_ticket_survives_the_process(rig):
    """Another adapter, another port: the ticket's own strings are enough to poll on."""
    ticket = rig.gcp.submit(order())
    other = standin.start(rig.store)
    try:
        assert "127.0.0.1" not in json.dumps(ticket.native)
        rig.gcp = rig.adapter(other.url)
        assert A == rig.had(ticket).placed.zone
    finally:
        other.close()


def test_what_was_delivered_is_compared_with_the_order(rig):
    """A machine of another type under the order's name and generation is not taken for it."""
    rig.got(candidate(A, "g2-standard-4"))
    ticket = rig.gcp.resume(order(candidate(A, "g2-standard-8")))
    with pytest.raises(HalfMade, match="g2-standard-4 with 1 x L4") as caught:
        rig.gcp.poll(ticket)
    assert 1 == len(caught.value.handles)


def test_a_machine_taken_while_starting_is_half_made(rig):
    """A machine that is on its way out before the ticket was done is deleted first, and its place
    left alone for a while.
    """
    ticket = rig.gcp.submit(order(candidate(A, "g2-standard-4", capacity="spot"), on_ttl="keep"))
    rig.moment += 30
    handle = rig.gcp.find("own1")[0].handle
    project, zone, name = handle.native_id.split("/")[1::2]
    rig.gcp._client.call(
        lambda s: s.instances().stop(project=project, zone=zone, instance=name),
        rig.gcp._context(ticket.order),
    )
    rig.moment += 30
    with pytest.raises(HalfMade) as caught:
        rig.gcp.poll(ticket)
    assert (handle,) == caught.value.handles
    assert caught.value.scopes


# Lost answers


@pytest.mark.parametrize("fault", ["reply-lost", "error-after", "malformed"])
def test_a_lost_answer_is_settled_by_the_token(rig, fault):
    """The work was done, the answer lost: one creating call on the wire, found again by its token,
    one machine.
    """
    rig.store.add_fault("gcp", "instances.bulkInsert", fault, times=1)
    ordered = order()
    with pytest.raises(OutcomeUnknown) as caught:
        rig.gcp.submit(ordered)
    assert ordered.token == caught.value.token
    assert 1 == rig.calls("instances.bulkInsert")
    ticket = rig.had(rig.gcp.resume(ordered))
    assert 1 == len(ticket.handles) == len(rig.gcp.find("own1"))


@pytest.mark.parametrize("fault", ["unavailable", "html"])
def test_a_server_error_before_any_work_settles_to_nothing(rig, fault):
    """5xx and web pages leave the outcome open; looked up twice, nothing was made."""
    rig.store.add_fault("gcp", "instances.bulkInsert", fault, times=1)
    ordered = order()
    with pytest.raises(OutcomeUnknown):
        rig.gcp.submit(ordered)
    assert rig.gcp.resume(ordered) is None
    assert 1 == rig.calls("instances.bulkInsert")
    assert 4 <= rig.calls("zoneOperations.list") + rig.calls("instances.list")


def test_what_cannot_be_looked_up_stays_unknown(rig):
    """A refused look-up is no proof that nothing was made."""
    rig.store.add_fault("gcp", "zoneOperations.list", "forbidden")
    with pytest.raises(OutcomeUnknown, match="could not be looked up"):
        rig.gcp.resume(order())


def test_the_same_token_buys_once(rig):
    """Google does the work of one requestId once: a repeat returns the same operation."""
    ordered = order()
    first, second = rig.gcp.submit(ordered), rig.gcp.submit(ordered)
    assert first.native == second.native
    rig.had(first)
    assert 1 == len(rig.gcp.find("own1"))


def test_a_taken_name_is_settled_not_bought_again(rig):
    """409: the machine of this generation is there already, and is found."""
    rig.got(candidate(A))
    again = order(candidate(A))
    with pytest.raises(OutcomeUnknown) as caught:
        rig.gcp.submit(again)
    assert "alreadyExists" == caught.value.code
    assert 1 == len(rig.had(rig.gcp.resume(again)).handles)


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
def test_refusals_of_the_post_are_classified(rig, fault, kind):
    """Refused before any work: its class, and one request."""
    rig.store.add_fault("gcp", "instances.bulkInsert", fault)
    with pytest.raises(kind):
        rig.gcp.submit(order())
    assert 1 == rig.calls("instances.bulkInsert")


def test_a_closed_connection_is_not_tried_again(rig):
    """The client's own repeat of an unanswered request is switched off: one POST, unknown outcome."""
    with answering(None) as (url, seen):
        with pytest.raises(OutcomeUnknown):
            rig.adapter(url).submit(order())
    assert 1 == len(seen)


@pytest.mark.parametrize(
    "reply",
    [
        raw(200, "<html>hello</html>", "text/html"),
        raw(200, "[1, 2]"),
        raw(200, '{"name": "op'),
        b"garbage\r\n\r\n",
    ],
)
def test_an_unreadable_answer_to_a_create_is_an_unknown_outcome(rig, reply):
    """A web page, half an answer, or no HTTP at all under status 200."""
    with answering(reply) as (url, seen):
        with pytest.raises(OutcomeUnknown):
            rig.adapter(url).submit(order())
    assert 1 == len(seen)


def test_an_unreadable_answer_to_a_read_is_passing(rig):
    """A read is asked again; it never means that a machine is gone."""
    with answering(raw(200, "<html>hello</html>", "text/html")) as (url, _):
        with pytest.raises(Transient):
            rig.adapter(url).observe([Handle("gcp", f"projects/rehearsal/zones/{A}/instances/x")])


def test_no_connection_is_passing(rig):
    """Nothing listens: nothing was sent, also for a create."""
    with answering(None) as (url, _):
        pass
    with pytest.raises(Transient, match="network"):
        rig.adapter(url).submit(order())


def test_a_proxy_is_not_asked_for_a_rehearsal(rig, monkeypatch):
    """The rehearsal's server is this process, whatever proxy the environment names."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert A == rig.got(candidate(A)).placed.zone


# Seeing


def test_b29_gone_only_on_google_s_own_word(rig):
    """404 is gone; 403 and a lost connection raise and never read as gone."""
    ticket = rig.got()
    assert "gone" == rig.status(Handle("gcp", f"projects/rehearsal/zones/{A}/instances/nothing"))
    rig.store.add_fault("gcp", "instances.get", "forbidden", times=1)
    with pytest.raises(BadCredentials):
        rig.gcp.observe(ticket.handles)
    rig.store.add_fault("gcp", "instances.get", "reply-lost", times=1)
    with pytest.raises(Transient):
        rig.gcp.observe(ticket.handles)
    assert "running" == rig.status(ticket.handles[0])


def test_b29_a_preempted_machine_is_told(rig):
    """Taken back and stopped: preempted. Taken back and deleted: gone, and the detail says why."""
    from providers.rehearsal.clouds.gcp import console

    kept = rig.got(
        candidate(A, "g2-standard-4", capacity="spot"), on_ttl="keep", generation="kept"
    ).handles[0]
    released = rig.got(
        candidate(A, "g2-standard-4", capacity="spot"), generation="released"
    ).handles[0]
    for handle in (kept, released):
        assert 1 == console.preempt(rig.store, handle.native_id.rsplit("/", 1)[-1])
    assert ["preempted", "preempted"] == [node.status for node in rig.gcp.observe([kept, released])]
    rig.moment += 120
    nodes = rig.gcp.observe([kept, released])
    assert [("preempted", "TERMINATED"), ("gone", "preempted and deleted")] == [
        (node.status, node.detail) for node in nodes
    ]


def test_b34_the_end_of_the_run_limit_is_told_from_a_stop(rig):
    """Stopped by its run limit: ended. Deleted by it: gone, and the detail says why."""
    kept = rig.got(candidate(A, "g2-standard-4"), ttl_s=3600, on_ttl="keep", generation="kept")
    released = rig.got(candidate(A, "g2-standard-4"), ttl_s=3600, generation="released")
    rig.moment += 4000
    assert "ended" == rig.status(kept.handles[0])
    node = rig.gcp.observe(released.handles)[0]
    assert ("gone", "ended by its run limit and deleted") == (node.status, node.detail)


def test_a_stop_by_somebody_is_stopped(rig):
    """A Spot machine that a user stopped is not called preempted."""
    ticket = rig.got(candidate(A, "g2-standard-4", capacity="spot"))
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]
    rig.gcp._client.call(
        lambda s: s.instances().stop(project=project, zone=zone, instance=name),
        rig.gcp._context(ticket.order),
    )
    rig.moment += 30
    assert "stopped" == rig.status(ticket.handles[0])


def test_find_pages_through_everything_and_narrows(rig):
    """All machines of an owner, over zones and pages, and only those; narrowed by cluster and
    generation.
    """
    rig.got(candidate(A, "g2-standard-4"), nodes=3, generation="g1")
    rig.got(candidate("us-east1-c", "g2-standard-4"), generation="g2", cluster="serve")
    rig.got(candidate(A, "g2-standard-4"), generation="g3", owner="own2")
    assert 4 == len(rig.gcp.find("own1"))
    assert 1 == len(rig.gcp.find("own1", "serve"))
    assert 3 == len(rig.gcp.find("own1", "train", "g1"))
    assert [] == list(rig.gcp.find("own1", "train", "g2"))


def test_find_follows_every_page(rig):
    """Pages are followed by their token to the end."""
    page = {"items": {f"zones/{A}": {"instances": [instance("m1")]}}, "nextPageToken": "more"}
    last = {
        "items": {
            f"zones/{A}": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
            f"zones/{B}": {"instances": [instance("m2")]},
        }
    }
    rig.gcp._client = Scripted([page, last])
    assert ["m1", "m2"] == [node.name for node in rig.gcp.find("own1")]


def test_a_zone_that_google_cannot_reach_is_no_absence(rig):
    """A partial answer raises: what is not seen is not taken for gone."""
    rig.gcp._client = Scripted([{"items": {f"zones/{A}": {"warning": {"code": "UNREACHABLE"}}}}])
    with pytest.raises(Transient, match=A):
        rig.gcp.find("own1")


def instance(name, **rest):
    link = f"https://www.googleapis.com/compute/v1/projects/rehearsal/zones/{A}/instances/{name}"
    return {
        "name": name,
        "selfLink": link,
        "zone": f"projects/rehearsal/zones/{A}",
        "status": "RUNNING",
        "machineType": "g2-standard-4",
        **rest,
    }


class Scripted:
    """A client that answers from a list of pages."""

    project = "rehearsal"

    def __init__(self, answers):
        self.answers = list(answers)

    def pages(self, make, context):
        while self.answers:
            yield self.answers.pop(0)


def test_many_machines_are_seen_by_list(rig):
    """Ten nodes of one zone are seen in one list, in the handles' order; one that is not in it is
    asked for.
    """
    ticket = rig.got(candidate(A, "g2-standard-4"), nodes=10)
    missing = Handle("gcp", f"projects/rehearsal/zones/{A}/instances/none")
    before = rig.calls("instances.get")
    nodes = rig.gcp.observe([*ticket.handles, missing])
    assert [*["running"] * 10, "gone"] == [node.status for node in nodes]
    assert 1 == rig.calls("instances.get") - before


@pytest.mark.parametrize(
    ("status", "operations", "expected"),
    [
        ("PENDING", [], "queued"),
        ("PROVISIONING", [], "starting"),
        ("STAGING", [], "starting"),
        ("RUNNING", [], "running"),
        ("REPAIRING", [], "starting"),
        ("STOPPING", ["compute.instances.preempted"], "preempted"),
        ("TERMINATED", ["compute.instances.preempted"], "preempted"),
        ("TERMINATED", ["compute.instances.deferredStop"], "ended"),
        ("TERMINATED", ["stop"], "stopped"),
        ("TERMINATED", ["compute.instances.guestTerminate"], "stopped"),
        ("STOPPING", ["delete"], "stopping"),
        ("TERMINATED", [], "preempted"),
        ("STOPPING", [], "preempted"),
        ("SUSPENDED", [], "stopped"),
    ],
)
def test_b29_what_a_spot_machine_s_status_means(status, operations, expected):
    """Preempted, ended, stopped and stopping are told apart by the operation; Spot without one was
    preempted.
    """
    from providers.adapters.gcp import nodes

    seen = instance("m", status=status, id="7", scheduling={"provisioningModel": "SPOT"})
    listed = [
        {"operationType": kind, "targetLink": seen["selfLink"], "targetId": "7"}
        for kind in operations
    ]
    told = nodes.why(listed, "m", seen) if status in nodes.LEAVING else ""
    assert expected == nodes.node(nodes.handle(seen), seen, told).status


def test_a_run_limit_is_seen_without_operations():
    """A machine that stopped when its run limit was over ended by it, even when the operations are
    forgotten.
    """
    from providers.adapters.gcp import nodes

    times = {
        "lastStartTimestamp": "2026-11-27T10:00:00.000-08:00",
        "lastStopTimestamp": "2026-11-27T11:00:05.000-08:00",
    }
    on_demand = instance(
        "m", status="TERMINATED", scheduling={"maxRunDuration": {"seconds": "3600"}}, **times
    )
    assert "ended" == nodes.why([], "m", on_demand)
    assert "stopped" == nodes.why([], "m", {**on_demand, "scheduling": {}})


# Changing


def test_delete_is_confirmed_by_observe_and_twice_is_fine(rig):
    """Deleted, then gone; deleting what is gone is success; nothing is left."""
    ticket = rig.got()
    rig.gcp.delete(ticket.handles[0])
    rig.moment += 30
    assert "gone" == rig.status(ticket.handles[0])
    rig.gcp.delete(ticket.handles[0])
    disks = rig.gcp._client.call(
        lambda s: s.disks().list(project="rehearsal", zone=A), rig.gcp._context(ticket.order)
    )
    assert not disks.get("items")


def test_relabel_writes_the_new_generation(rig):
    """An adopted machine is found under its new generation, its other labels as before."""
    ticket = rig.got(labels=(("team", "ml"),))
    rig.gcp.relabel(ticket.handles[0], "gen2")
    assert [] == list(rig.gcp.find("own1", "train", "gen1"))
    assert (
        Mark("own1", "train", "gen2", "0123456789abcdef")
        == rig.gcp.find("own1", "train", "gen2")[0].mark
    )


def test_edited_workload_keeps_the_idle_timer_and_the_secrets_of_its_machine(rig):
    """What runs at the next boots is the new script, after all else that the machine was ordered
    with; the timer's limit stays.
    """
    account = (("service_account", "me@p.iam.gserviceaccount.com"),)
    ordered = {"secrets": (("HF_TOKEN", "projects/p/secrets/hf"),), "options": account}
    ticket = rig.got(script="#!/bin/bash\necho first\n", idle_s=7_200, **ordered)
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]

    def script():
        body = rig.gcp._client.call(
            lambda s: s.instances().get(project=project, zone=zone, instance=name),
            rig.gcp._context(ticket.order),
        )
        return next(
            item["value"] for item in body["metadata"]["items"] if item["key"] == "startup-script"
        )

    before = script()
    rig.gcp.update(
        ticket.handles[0],
        {"script": Setup(script="#!/bin/bash\necho second\n", idle_s=3_600, **ordered)},
    )
    assert script() == before.replace("echo first", "echo second") != before
    assert idle.limit_s(script()) == 7_200 and "projects/p/secrets/hf/versions/latest" in script()


def test_labels_and_key_change_in_place(rig):
    """The user's labels are replaced, the marks stay; the key is replaced and can be taken away."""
    ticket = rig.got(
        labels=(("team", "ml"),),
        ssh_public_key="ssh-ed25519 AAAA me",
        options=(("container", "ubuntu"),),
    )
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]

    def body():
        return rig.gcp._client.call(
            lambda s: s.instances().get(project=project, zone=zone, instance=name),
            rig.gcp._context(ticket.order),
        )

    rig.gcp.update(
        ticket.handles[0], {"labels": {"team": "infra"}, "ssh_key": "ssh-ed25519 BBBB me"}
    )
    after = body()
    assert {"team": "infra", **native.mark_labels(ticket.order.mark)} == after["labels"]
    items = {item["key"]: item["value"] for item in after["metadata"]["items"]}
    assert "gpus:ssh-ed25519 BBBB me" == items["ssh-keys"]
    assert "startup-script" in items
    own = "ssh-ed25519 CCCC gpus-own-train"
    rig.gcp.update(ticket.handles[0], {"ssh_key": f"ssh-ed25519 BBBB me\ngpus:{own}"})
    rig.gcp.update(ticket.handles[0], {"ssh_key": "ssh-ed25519 DDDD me"})
    items = {item["key"]: item["value"] for item in body()["metadata"]["items"]}
    assert f"gpus:ssh-ed25519 DDDD me\ngpus:{own}" == items["ssh-keys"]
    rig.gcp.update(ticket.handles[0], {"ssh_key": ""})
    assert (
        f"gpus:{own}"
        == {item["key"]: item["value"] for item in body()["metadata"]["items"]}["ssh-keys"]
    )
    assert "nothing boots here" in rig.gcp.log(ticket.handles[0])


def test_an_edit_is_repeated_when_somebody_was_faster(rig):
    """A stale fingerprint is read again once."""
    ticket = rig.got()
    rig.store.add_fault(
        "gcp", "instances.setLabels", "http", times=1, status=412, reason="conditionNotMet"
    )
    rig.gcp.relabel(ticket.handles[0], "gen2")
    assert 2 == rig.calls("instances.setLabels")


# Checking and connecting


def test_check_tells_what_is_there_and_how_to_get_the_rest(rig):
    """Credentials, project, API, rights and quota, a line each; what is not listed is unknown, not
    zero.
    """
    rig.store.set_quota("gcp", "", "GPUS_ALL_REGIONS", 0)
    lines = {line.topic: line for line in rig.gcp.check()}
    assert {"ok"} == {
        lines[topic].state
        for topic in ("credentials", "project", "Compute Engine API", "rights to read")
    }
    assert "missing" == lines["quota GPUS_ALL_REGIONS"].state
    assert "quotas?project=rehearsal" in lines["quota GPUS_ALL_REGIONS"].todo


@pytest.mark.parametrize(
    ("regions", "state", "found"),
    [
        ({}, "unknown", "not zero"),
        ({"a": (0, 0), "b": (0, 0)}, "missing", "0 in all 2 regions"),
        (
            {"a": (8, 1), "b": (8, 0), "c": (0, 0)},
            "ok",
            "8 in each of 2 regions, 1 used; 0 in 1 regions",
        ),
        (
            {"a": (8, 1), "b": (16, 0), "c": (1, 0), "d": (2, 0)},
            "ok",
            "b 16 (0 used), a 8 (1 used), d 2 (0 used) and 1 more regions",
        ),
    ],
)
def test_quota_over_the_regions_is_one_line(regions, state, found):
    """The largest limits first; where there is none, the line says where to ask."""
    from providers.adapters.gcp import check

    line = check._quota("NVIDIA_L4_GPUS", regions, "my-project")
    assert (state, True) == (line.state, found in line.found)


def test_nothing_of_the_client_s_own_reaches_the_screen(rig, capfd):
    """A refusal is told once, by us: the client's log lines are not printed."""
    rig.store.add_fault("gcp", "instances.bulkInsert", "quota")
    with pytest.raises(QuotaExceeded):
        rig.gcp.submit(order())
    assert ("", "") == capfd.readouterr()


def test_b19_a_quota_that_is_not_listed_is_unknown(rig):
    """Compute Engine lists no metric for H100 on demand: unknown, so a try decides."""
    line = next(line for line in rig.gcp.check() if line.topic == "quota NVIDIA_H100_GPUS")
    assert ("unknown", True) == (line.state, "not zero" in line.found)


@pytest.mark.parametrize(
    ("status", "reason", "topic", "state"),
    [
        (401, "authError", "credentials", "refused"),
        (403, "forbidden", "credentials", "refused"),
        (403, "accessNotConfigured", "Compute Engine API", "missing"),
        (404, "notFound", "project", "missing"),
    ],
)
def test_check_names_what_is_refused(rig, status, reason, topic, state):
    """Each refusal is a line with what to do, never an exception."""
    rig.store.add_fault("gcp", "projects.get", "http", status=status, reason=reason)
    line = next(line for line in rig.gcp.check() if line.topic == topic)
    assert (state, True) == (line.state, bool(line.todo))


def test_live_without_credentials_is_not_configured(tmp_path, monkeypatch):
    """No silent rehearsal: live without keys says what to do."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotConfigured, match="gcloud auth application-default login"):
        MANIFEST.connect("live", {})


def test_live_without_a_project_is_not_configured(tmp_path, monkeypatch):
    """Keys alone are not enough: the project is asked for, and nothing of the keys is shown."""
    key = {
        "type": "authorized_user",
        "client_id": "id-1",
        "client_secret": "s3cr3t",
        "refresh_token": "r3fr3sh",
    }
    (tmp_path / "key.json").write_text(json.dumps(key))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotConfigured, match="wanted a project") as caught:
        MANIFEST.connect("live", {})
    assert "s3cr3t" not in str(caught.value) and "r3fr3sh" not in str(caught.value)
    assert "live" == MANIFEST.connect("live", {"project": "my-project"}).world


def live(monkeypatch, url, token="ya29.s3cr3t"):
    import google.auth
    from google.oauth2.credentials import Credentials

    monkeypatch.setattr(
        google.auth, "default", lambda scopes: (Credentials(token=token), "adc-project")
    )
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    return MANIFEST.connect("live", {"endpoint": f"{url}/compute/v1/"})


def test_live_calls_bear_the_token_and_the_project_of_the_credentials(rig, monkeypatch):
    """The credentials' own project is used where none is set, and calls reach the endpoint with
    them.
    """
    gcp = live(monkeypatch, rig.server.url)
    assert [] == list(gcp.find("own1"))
    assert "adc-project" in rig.store.requests("instances.aggregatedList")[-1].path


def test_a_token_that_is_refused_is_bad_credentials_and_stays_secret(rig, monkeypatch):
    """401, and no way to renew: refused, with the way to sign in, without the token."""
    with answering(
        raw(
            401,
            '{"error": {"code": 401, "message": "Invalid Credentials", "errors": [{"reason":'
            ' "authError"}]}}',
        )
    ) as (url, seen):
        with pytest.raises(BadCredentials, match="gcloud auth application-default login") as caught:
            live(monkeypatch, url).submit(order())
    assert "s3cr3t" not in str(caught.value)
    assert 1 == len(seen)


def test_a_rehearsal_never_reaches_a_real_endpoint():
    """A rehearsal's endpoint must be on this machine."""
    with pytest.raises(NotConfigured, match="on this machine"):
        MANIFEST.connect("rehearsal", {"endpoint": "https://compute.googleapis.com/compute/v1/"})


def test_a_rehearsal_starts_its_cloud_once(tmp_path, monkeypatch):
    """Two adapters of one store share one stand-in in this process."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    first, second = connected(MANIFEST, "rehearsal", {}), connected(MANIFEST, "rehearsal", {})
    try:
        server = start.server("gcp", open_store())
        assert ("rehearsal", "gcp", None) == (first.world, first.name, first.offers())
        assert first._client._endpoint == second._client._endpoint == f"{server.url}/compute/v1/"
    finally:
        start.stop(tmp_path / "rehearsal.db")


@pytest.mark.parametrize("provider", start.clouds())
def test_a_rehearsal_without_a_server_is_told_in_one_line(tmp_path, monkeypatch, provider):
    """An adapter never starts a server by itself: what it was not given is not configured."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    with pytest.raises(NotConfigured, match=f"{provider}: wanted its rehearsal server"):
        registry.manifests()[provider].connect("rehearsal", {})
