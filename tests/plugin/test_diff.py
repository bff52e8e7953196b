"""The edit table, row by row."""

from typing import Any

import pytest

from providers.plugin import diff, outputs
from providers.plugin.properties import UNKNOWN
from providers.plugin.schema import CLUSTER_INPUTS

OLD: dict[str, Any] = {
    "world": "rehearsal",
    "owner": "o1",
    "cluster": "train",
    "settings": {},
    "gpu": "H100:8",
    "fallback": ["H200:8", {"gpu": "A100-80GB:8", "spot": "only"}],
    "options": {"gcp": {"image": "a"}},
    "network_links": {"network": "n1", "subnetwork.r1": "s1", "subnetwork.r2": "s2"},
    "ttl": "20h",
    "disk_gib": 200,
}
RUNNING: dict[str, Any] = {
    "status": "running",
    "provider": "gcp",
    "region": "r1",
    "zone": "r1-a",
    "price_usd_per_hour": 10.0,
    "ssh": "ssh gpus@192.0.2.1",
}


def cluster(old, new, state, *more):
    """The verdict where the state holds these outputs, of a cluster of the declared kind."""
    record = {"kind": old.get("kind", "machine"), **state.get("record", {})}
    known_record = outputs.read("rehearsal/o1/train/g1", {**state, "record": record})
    return diff.cluster(old, new, known_record, *more)


def verdict(edit, state=RUNNING, satisfied=True, in_place=()):
    new = {key: value for key, value in {**OLD, **edit}.items() if value is not None}
    return cluster(OLD, new, state, lambda: satisfied, in_place)


def test_nothing_changed_is_no_change() -> None:
    """Equal inputs are no change, whatever the outputs say of price and address."""
    assert (
        verdict({}, {**RUNNING, "price_usd_per_hour": 99.0, "ssh": "ssh gpus@192.0.2.99"})
        == diff.Verdict()
    )


@pytest.mark.parametrize(
    "edit",
    [
        {"gpu": "H200:8"},
        {"nodes": 2},
        {"regions": ["r9"]},
        {"providers": ["aws"]},
        {"spot": "only"},
        {"capacity": ["spot"]},
        {"fallback": None},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_b42_a_placement_edit_replaces_only_what_no_longer_satisfies(edit) -> None:
    """What runs stays if it satisfies the new declaration (an update, no cloud call), and goes
    first if it does not.
    """
    kept, gone = verdict(edit, satisfied=True), verdict(edit, satisfied=False)
    assert kept.changes and not kept.replaces
    assert gone.replaces and "no longer satisfies" in gone.reason


@pytest.mark.parametrize(
    "edit",
    [
        {"rank": "price"},
        {"max_price_per_hour": 1},
        {"wait": "1m"},
        {"acquire": {"within": "12h"}},
        {"hedge": 2},
        {"block": {"lasts": "1d", "max_price": 900}},
        {"labels": {"a": "b"}},
        {"prices": {"overrides": [{"provider": "gcp", "price_usd_per_hour": 1}]}},
        {"settings": {"gcp": {"project": "other"}}},
        {"ports": [80]},
        {"expose": "public"},
        {"triggers": {"reclaim": 1}},
        {"workdir": {"path": ".", "digest": "0" * 16, "files": 3, "size": 9}},
        {"ready": "running"},
        {"accept": "quick"},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_policy_edits_update(edit) -> None:
    """Rank, caps, wait, labels, prices, accounts, ports and reclaim never replace, not even what is
    no longer satisfied.
    """
    made = verdict(edit, satisfied=False)
    assert made.changes and not made.replaces


@pytest.mark.parametrize(
    "edit",
    [
        {"world": "live"},
        {"owner": "o2"},
        {"owner": UNKNOWN},
        {"cluster": "b"},
        {"triggers": {"rerun": 1}},
        {"kind": "job"},
    ],
)
def test_another_identity_replaces(edit) -> None:
    """World, owner, name, kind and a rerun make another machine."""
    assert verdict(edit).replaces


def test_the_owner_of_an_imported_machine_may_be_declared() -> None:
    """A machine imported without a label becomes the stack's own without being replaced."""
    new = {**OLD, "owner": "o1"}
    assert not cluster({**OLD, "owner": diff.STRAY}, new, RUNNING, lambda: True, ()).replaces


@pytest.mark.parametrize(("size", "replaces"), [(400, True), (100, False), (None, False)])
def test_only_a_larger_disk_replaces(size, replaces) -> None:
    """A disk that is large enough already is no reason for a new machine."""
    assert verdict({"disk_gib": size}).replaces is replaces


@pytest.mark.parametrize(("size", "replaces"), [(300, True), (200, False), (150, False)])
def test_a_disk_is_compared_with_the_one_that_was_bought(size, replaces) -> None:
    """A smaller size or none declared since changed nothing: to declare the previous one again is no
    reason for a new machine either.
    """
    bought = {**RUNNING, "record": {"applied": {"disk_gib": "200"}}}
    for since in ({"disk_gib": 100}, {}):
        old = {**{key: value for key, value in OLD.items() if key != "disk_gib"}, **since}
        assert (
            cluster(old, {**old, "disk_gib": size}, bought, lambda: True, ()).replaces is replaces
        )


@pytest.mark.parametrize(
    ("key", "value", "able"),
    [
        ("ttl", "30h", "ttl"),
        ("on_ttl", "keep", "ttl"),
        ("ssh_key", "ssh-ed25519 AAAA", "ssh_key"),
        ("labels", {"a": "b"}, "labels"),
        ("secrets", {"HF_TOKEN": {"gcp": "projects/p/secrets/x"}}, "secrets"),
    ],
)
def test_in_place_where_the_adapter_can(key, value, able) -> None:
    """ttl, ssh key, labels and secrets are edited in place where the provider can; where not, the
    machine is kept, and it is said that they wait.
    """
    able_to = verdict({key: value}, in_place=(able,))
    assert able_to.changes and not able_to.replaces and not able_to.later
    unable = verdict({key: value})
    assert unable.changes and not unable.replaces
    assert (
        unable.later
        == f"gcp cannot edit {key} on a running machine: applied when it is next replaced"
    )
    assert not verdict({key: value}, state={"status": "queued", "provider": ""}).later
    assert not verdict({key: value, "triggers": {"rerun": 1}}).later


def test_the_reason_names_the_fields() -> None:
    """Which edited fields replace it is said, by reason."""
    assert (
        verdict({"gpu": "L4:1", "spot": "only", "triggers": {"rerun": 1}}, satisfied=False).reason
        == "triggers: a new run is asked for; gpu, spot: what runs no longer satisfies the declaration"
    )


def test_stopping_and_starting_replace_nothing() -> None:
    """State is an update, never another machine; one that was started by somebody is stopped again."""
    assert verdict({"state": "stopped"}).changes and not verdict({"state": "stopped"}).replaces
    stopped = {**OLD, "state": "stopped"}
    started = cluster(stopped, stopped, RUNNING, lambda: True, ())
    assert started.changes == (diff.Change("status", "update", replaces=False, is_input=False),)
    assert (
        cluster(stopped, stopped, {**RUNNING, "status": "stopped"}, lambda: True, ())
        == diff.Verdict()
    )


def test_options_of_the_provider_it_runs_at_replace() -> None:
    """Another provider's options do not matter to a machine."""
    assert verdict({"options": {"gcp": {"image": "b"}}}).replaces
    assert not verdict({"options": {"gcp": {"image": "a"}, "aws": {"x": 1}}}).replaces


def test_only_the_links_that_are_used_matter() -> None:
    """Another region's subnet moves nothing; the network, the own subnet, or an unknown one does."""
    links = OLD["network_links"]
    assert not verdict({"network_links": {**links, "subnetwork.r2": "s9"}}).replaces
    assert not verdict({"network_links": {**links, "subnetwork.r3": UNKNOWN}}).replaces
    assert verdict({"network_links": {**links, "subnetwork.r1": "s9"}}).replaces
    assert verdict({"network_links": {**links, "network": UNKNOWN}}).replaces
    assert verdict({"network": "managed"}).replaces


def test_preempted_replaces_and_ended_does_not() -> None:
    """What the cloud took back and left stopped is replaced; what ended by its own limit stays
    ended.
    """
    taken = verdict({}, {**RUNNING, "status": "preempted"})
    assert taken.replaces and taken.changes[0] == diff.Change(
        "status", "update", replaces=True, is_input=False
    )
    assert verdict({}, {**RUNNING, "status": "ended"}) == diff.Verdict()
    assert verdict({"triggers": {"rerun": 1}}, {**RUNNING, "status": "ended"}).replaces


def test_b44_an_unknown_gpu_is_an_update_until_it_is_known() -> None:
    """Nobody is asked whether an unknown GPU is satisfied, and nothing is said to be replaced."""
    made = cluster(OLD, {**OLD, "gpu": UNKNOWN}, RUNNING, lambda: pytest.fail("asked"), ())
    assert made.changes and not made.replaces


def test_paths_are_the_deepest_that_differ() -> None:
    """A change inside a list is shown where it is."""
    made = verdict({"fallback": ["H200:8", {"gpu": "A100-80GB:8"}, "L4:1"], "labels": {"a.b": "c"}})
    assert {(change.path, change.kind) for change in made.changes} == {
        ("fallback[1].spot", "delete"),
        ("fallback[2]", "add"),
        ("labels", "add"),
    }


def test_every_input_has_a_row() -> None:
    """No input can be edited without the table saying what that does: each is tried above."""
    tried = {
        *OLD,
        "nodes",
        "regions",
        "providers",
        "spot",
        "capacity",
        "rank",
        "max_price_per_hour",
        "wait",
        "labels",
        "prices",
        "ports",
    }
    tried |= {
        "expose",
        "triggers",
        "kind",
        "on_ttl",
        "ssh_key",
        "network",
        "state",
        "ready",
        "workload",
        "workdir",
        "secrets",
        "on_loss",
        "max_spend",
        "idle_after",
        "marketplaces",
        "accept_suspect_prices",
        "accept",
        "acquire",
        "hedge",
        "block",
        "replicas",
        "tls",
    }
    assert tried == set(CLUSTER_INPUTS)


def test_what_may_be_bought_is_policy_for_what_runs() -> None:
    """Strangers' hosts, doubtful prices and the rank are about the next purchase: an edit of them
    touches nothing that runs.
    """
    for edit in ({"marketplaces": True}, {"accept_suspect_prices": True}, {"rank": "preference"}):
        made = verdict(edit)
        assert made.changes and not made.replaces and not made.later


@pytest.mark.parametrize("status", ["waiting", "gave-up"])
def test_edit_of_what_waits_for_capacity_replaces_nothing(status) -> None:
    """There is nothing to replace: it is looked for by the new declaration. One that waits is
    updated without an edit too.
    """
    waits = {"status": status}
    for edit in ({"gpu": "T4:1"}, {"disk_gib": 900}, {"triggers": {"rerun": 1}}):
        made = verdict(edit, waits, satisfied=False)
        assert made.changes and not made.replaces
    assert verdict({"cluster": "b"}, waits).replaces
    unedited = verdict({}, waits)
    assert [each.path for each in unedited.changes] == (["status"] if status == "waiting" else [])


def test_what_is_done_about_a_loss_is_policy() -> None:
    """An edit of `on_loss` touches nothing that runs."""
    made = verdict({"on_loss": "report"})
    assert made.changes and not made.replaces and not made.later


def test_another_budget_shows_at_the_ownership_alone() -> None:
    """Another `max_spend` is no edit of a cluster; the first one is, since it is counted from then
    on.
    """
    assert (
        cluster({**OLD, "max_spend": 500}, {**OLD, "max_spend": 800}, RUNNING, lambda: True, ())
        == diff.Verdict()
    )
    first = cluster(OLD, {**OLD, "max_spend": 800}, RUNNING, lambda: True, ())
    assert [change.path for change in first.changes] == ["max_spend"] and not first.replaces
    assert diff.ownership({"max_spend": 500}, {"max_spend": 800}).changes


def test_an_ownership_is_replaced_for_another_world_only() -> None:
    """An account's settings are an update."""
    old = {"world": "rehearsal", "settings": {}}
    assert diff.ownership(old, {"world": "live", "settings": {}}).replaces
    assert not diff.ownership(
        old, {"world": "rehearsal", "settings": {"gcp": {"project": "p"}}}
    ).replaces
    assert diff.ownership(old, old) == diff.Verdict()


def test_a_services_options_are_deployed_in_place_where_the_provider_can() -> None:
    """Another setting of a service is an update where it can be deployed anew in place; of a job or
    a machine it is another one.
    """
    at_modal = {"status": "running", "provider": "modal"}
    old = {**OLD, "options": {"modal": {"max_containers": 3}}}
    for kind, in_place, replaces in (
        ("service", ("service",), False),
        ("service", (), True),
        ("job", ("service",), True),
        (None, ("service",), True),
    ):
        before = {**old, "kind": kind} if kind else old
        new = {**before, "options": {"modal": {"max_containers": 4}}}
        assert replaces == cluster(before, new, at_modal, lambda: True, in_place).replaces


def test_a_done_job_is_made_anew_by_a_rerun_alone() -> None:
    """A finished job is not replaced by an edit of where or how long it may run; a rerun
    makes another.
    """
    old = {**OLD, "kind": "job", "triggers": {"rerun": 0}}
    for status in ("ended", "failed"):
        over = {"status": status, "provider": "modal"}
        for edit in ({"ttl": "10h"}, {"gpu": "H200:8"}):
            assert not cluster(old, {**old, **edit}, over, lambda: False, ()).replaces
        assert cluster(old, {**old, "triggers": {"rerun": 1}}, over, lambda: False, ()).replaces


def test_a_workload_edit_of_a_providers_own_job_is_told() -> None:
    """A job that the provider itself runs (a function, a custom job) takes no edit of its workload:
    that is said, with what to do. Where a script of ours runs it, it is run anew, and nothing is
    said.
    """
    old = {**OLD, "kind": "job", "workload": {"command": "a"}}
    new = {**old, "workload": {"command": "b"}}
    own = cluster(
        old,
        new,
        {**RUNNING, "provider": "vertex", "record": {"applied": {"ttl": "x"}}},
        lambda: True,
        (),
    )
    assert (
        not own.replaces
        and own.later
        == "vertex runs the job as it was declared: `gpus rerun train -s STACK` starts one with this workload"
    )
    assert (
        cluster(
            old, new, {**RUNNING, "record": {"applied": {"work": "d1"}}}, lambda: True, ()
        ).later
        == ""
    )
    assert (
        cluster(
            old,
            {**new, "triggers": {"rerun": 1}},
            {**RUNNING, "provider": "vertex"},
            lambda: True,
            (),
        ).later
        == ""
    )


DRIFTED = {
    "provider": "gcp",
    "status": "running",
    "gpu_count": 1,
    "detail": "gpu_count: 4 -> 1, changed at gcp",
    "record": {"bought": {"gpu_count": 4, "micro_usd": 9}},
}


@pytest.mark.parametrize(
    ("more", "serves", "replaces", "changes"),
    [
        ({}, False, True, ["gpu_count"]),
        ({}, True, False, ["gpu_count"]),
        ({"on_loss": "replace-node"}, False, True, ["gpu_count"]),
        ({"on_loss": "report"}, False, False, []),
        ({"on_loss": "report"}, True, False, ["gpu_count"]),
        ({"state": "stopped"}, False, False, ["status"]),
    ],
)
def test_what_was_edited_at_the_cloud_is_the_only_difference(
    more, serves, replaces, changes
) -> None:
    """Exactly the edited property differs; it replaces where the machine no longer serves, and is
    left alone by `on_loss: report`.
    """
    spec = {"gpu": "T4:4", **more}
    verdict = cluster(spec, spec, DRIFTED, lambda: serves, frozenset())
    assert [(change.path, change.is_input) for change in verdict.changes] == [
        (name, False) for name in changes
    ]
    assert verdict.replaces == replaces
    assert verdict.reason == (DRIFTED["detail"] if replaces else "")
    assert (
        cluster(spec, spec, {**DRIFTED, "status": "stopped"}, lambda: serves, frozenset()).changes
        == ()
    )


def test_a_workload_that_outgrows_its_machine_replaces_it() -> None:
    """What the held machine can't hold is no edit in place; a job that a provider runs by itself,
    and an ended one, are not asked about.
    """
    working = {**RUNNING, "record": {"applied": {"work": "abc"}}}
    edit = {**OLD, "workload": {"command": "x"}}

    def judged(outputs, why, **more):
        kind = {"kind": more.get("kind", "service")}
        return cluster(
            {**OLD, **kind}, {**edit, **kind, **more}, outputs, lambda: True, (), lambda: why
        )

    told = judged(working, "its disk has 100 GiB, it takes 191 GiB")
    assert told.replaces and "workload: its disk has 100 GiB, it takes 191 GiB" in told.reason
    assert not judged(working, "").replaces
    assert not judged(RUNNING, "too small").replaces
    assert not judged({**working, "status": "ended"}, "too small", kind="job").replaces
    assert not judged(working, "too small", workload={"command": UNKNOWN}).replaces


WORKING = {"record": {"applied": {"work": "abc", "state": "d"}}}


def test_a_workload_waits_for_a_stopped_machine_and_replaces_one_made_without() -> None:
    """As the update does it: started anew, once it runs again, or on another machine."""
    old = {**OLD, "workload": {"command": "a"}}
    edited, stays = {**old, "workload": {"command": "b"}}, {"state": "stopped"}

    def judged(before, after, status, **more):
        return cluster(before, after, {**RUNNING, "status": status, **more}, lambda: True, ())

    waits = judged({**old, **stays}, {**edited, **stays}, "stopped", **WORKING)
    assert not waits.replaces and "once `state: running` starts it again" in waits.later
    for before, status in ((old, "running"), ({**old, **stays}, "stopped")):
        begun = judged(before, edited, status, **WORKING)
        assert begun.changes and not begun.replaces and not begun.later
    removed = judged(old, OLD, "running", **WORKING)
    assert not removed.replaces and "what runs there goes on" in removed.later
    imported = judged(OLD, edited, "running")
    assert not imported.replaces and "imported machine" in imported.later
    bare = judged(OLD, edited, "running", record={"applied": {"ttl": "x"}})
    assert bare.replaces
    assert bare.reason == "workload: a machine that was made without one starts none"
    unknown = judged(OLD, {**OLD, "workload": {"command": UNKNOWN}}, "running")
    assert unknown.changes and not unknown.replaces


def test_replicas_that_are_not_alike_are_edited_again_in_place() -> None:
    """Of those that do not know all others, or have another workload, though nothing is edited."""
    told = {**RUNNING, "record": {"applied": {"untold": "yes", "work": "untold"}}}
    (change,) = verdict({}, told).changes
    assert (change.path, change.replaces, change.is_input) == ("status", False, False)


def test_another_certificate_needs_new_machines_and_another_name_does_not() -> None:
    first = {"domain": "api.example.com", "certificate": {"gcp": "a"}}
    old = {**OLD, "tls": first}
    renamed = cluster(
        old, {**old, "tls": {**first, "domain": "b.example.com"}}, RUNNING, lambda: True, ()
    )
    assert not renamed.replaces and renamed.changes
    other = {**old, "tls": {**first, "certificate": {"gcp": "b"}}}
    assert cluster(old, other, RUNNING, lambda: True, ()).replaces
    assert verdict({"tls": first}).replaces
