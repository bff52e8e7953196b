"""The plan at preview: what it shows, and what it refuses."""

import asyncio
from types import SimpleNamespace

import pytest
from pulumi.runtime.proto import provider_pb2

from providers.engine.budget import bounds, month
from providers.engine.record import ClusterRecord, Search
from providers.model.placement import Price
from providers.plugin import outputs, siblings
from providers.plugin import properties as wire
from providers.rehearsal.store import open_store
from tests.plugin.servicer_rig import (
    ID,
    INPUTS,
    URN,
    Aborted,
    Context,
    call,
    diffed,
    state,
    struct,
)
from tests.plugin.test_outputs import a_record


def plan(servicer, *, preview=True, **arguments):
    request = SimpleNamespace(
        tok="gpu:index:plan",
        args=struct({"world": "rehearsal", "cluster": "train", **arguments}),
        preview=preview,
    )
    return asyncio.run(servicer.Invoke(request, Context()))


def result(response):
    return wire.decode(getattr(response, "return")).values


def test_the_plan_is_shown_once_at_preview(servicer) -> None:
    """Under the cluster, 96 columns wide, against what runs now; in the update phase it is only
    answered.
    """
    call(servicer, "Check", news=struct(INPUTS))
    call(servicer, "Create", properties=struct(INPUTS), preview=True)
    said = result(plan(servicer, urn=URN))
    assert said["candidates"] > 10
    assert said["chosen"]["gpu_type"] == "H100"
    assert "nothing runs now" in said["change"]
    assert servicer.lines == [("info", URN, said["text"])]
    assert max(map(len, said["text"].splitlines())) <= 96
    plan(servicer, urn=URN, preview=False)
    assert len(servicer.lines) == 1


def test_plan_says_who_is_asked_at_once_and_what_that_costs_at_worst(servicer) -> None:
    """With `hedge: 2`, on one line."""
    inputs = {**INPUTS, "hedge": 2}
    call(servicer, "Check", news=struct(inputs))
    call(servicer, "Create", properties=struct(inputs), preview=True)
    text = " ".join(result(plan(servicer, urn=URN))["text"].split())
    assert " hedge also tries " in text
    assert " if gcp does not answer within 5 s; at worst $" in text
    short = {**inputs, "max_spend": 300, "ttl": "24h"}
    call(servicer, "Check", news=struct(short))
    call(servicer, "Create", properties=struct(short), preview=True)
    text = " ".join(result(plan(servicer, urn=URN))["text"].split())
    assert " hedge one place at a time: gpus:max_spend has no room for two, each as long" in text


def test_plan_names_no_place_that_max_spend_has_no_room_for(servicer) -> None:
    """Where it fits the first place and not the dearest: how many fit, and the dearest of them."""
    store = open_store()
    if (left := bounds(month(store.now()))[1] - store.now()) < 172_800:
        store.advance(left + 1)  # all of the 24 h count in one month
    inputs = {**INPUTS, "ttl": "24h"}
    call(servicer, "Check", news=struct(inputs))
    call(servicer, "Create", properties=struct(inputs), preview=True)
    all_of_them = result(plan(servicer, urn=URN))
    limit = all_of_them["price_usd_per_hour"] * 24 + 1
    short = {**inputs, "max_spend": limit}
    call(servicer, "Check", news=struct(short))
    call(servicer, "Create", properties=struct(short), preview=True)
    said = result(plan(servicer, urn=URN))
    assert said["chosen"] == all_of_them["chosen"]
    assert said["worst_usd_per_hour"] * 24 <= limit < all_of_them["worst_usd_per_hour"] * 24
    fit, places = int(said["candidates"]), int(all_of_them["candidates"])
    assert f" left; {fit} of {places} places fit" in " ".join(said["text"].split())


def test_plan_says_in_one_line_that_it_waits_where_all_is_sold_out(servicer) -> None:
    """And of a cluster that waits already, when the next place is asked."""
    inputs = {**INPUTS, "acquire": {"within": "12h"}}
    call(servicer, "Check", news=struct(inputs))
    call(servicer, "Create", properties=struct(inputs), preview=True)
    text = result(plan(servicer, urn=URN))["text"]
    assert (
        "\nacquire     sold out everywhere: waits, and `gpus watch` goes on looking for 12h\n"
        in text
    )
    waits = ClusterRecord(
        *("rehearsal", "0123456789ab", "train", "ba9876543210", "f", "waiting"),
        price=Price(0),
        search=Search(1_800_000_000.0, 1_800_043_200.0, "d", next_at=1_800_000_600.0),
    )
    assert diffed(servicer, inputs, struct(outputs.write(waits)), inputs).changes == 2
    text = result(plan(servicer, urn=URN))["text"]
    assert "waits       still looking: next look 2027-01-15 08:10 UTC, gives up" in text
    assert "\nif room     gcp " in text and "\nbuys" not in text
    over = struct(outputs.write(waits._replace(status="gave-up")))
    diffed(servicer, inputs, over, inputs)
    assert result(plan(servicer, urn=URN))["text"].startswith(
        "train: no change: gave up; an edit, or"
    )
    diffed(servicer, {**inputs, "ttl": "9h"}, over, inputs)
    text = result(plan(servicer, urn=URN))["text"]
    assert "\nbuys" in text and "looks for train again, of which nothing runs" in text


def test_the_plan_of_what_runs_says_what_changes(servicer) -> None:
    """Unchanged: nothing changes, whatever the market does. Replaced: the difference to the price
    at launch, and that it goes first.
    """
    diffed(servicer, INPUTS)
    said = result(plan(servicer, urn=URN))
    assert (
        said["change"]
        == "no change: gcp us-central1-a a3-highgpu-8g H100:8 spot stays, at $10.21/h"
    )
    diffed(servicer, {**INPUTS, "gpu": "A100-80GB:8"})
    call(servicer, "Create", properties=struct(INPUTS), preview=True)
    said = result(plan(servicer, urn=URN))
    net = said["price_usd_per_hour"] - 10.210001
    assert (
        said["change"]
        == "REPLACES gcp us-central1-a a3-highgpu-8g H100:8 spot ($10.21/h): it and its disk are"
        f" deleted first, and may not come back; net {'-' if net < 0 else '+'}${abs(net):,.2f}/h"
    )
    assert "because     gpu: what runs no longer satisfies the declaration" in said["text"]


def test_a_replacement_that_nobody_compared_knows_what_it_replaces(servicer) -> None:
    """Under --replace and for what is tainted the engine asks for no difference: the journal tells
    what runs, and where it knows nothing, nothing does.
    """
    from providers.engine.runtime.world import open_world

    def change():
        call(servicer, "Check", news=struct(INPUTS))
        call(servicer, "Create", properties=struct(INPUTS), preview=True)
        return result(plan(servicer, urn=URN))["change"]

    assert "nothing runs now" in change()
    world = open_world("rehearsal")
    world.journal.launched(a_record())
    world.journal.look("rehearsal", a_record().owner)
    assert (
        "gcp us-central1-a H100:8 spot ($10.21/h) is there from an earlier run: it is taken over if"
        " it still fits" in change()
    )
    world.journal.claim(
        "rehearsal", a_record().owner, "train", a_record().generation, a_record().handles
    )
    world.close()
    assert (
        "REPLACES gcp us-central1-a H100:8 spot ($10.21/h): it and its disk are deleted first"
        in change()
    )


def test_the_plan_of_what_ended_says_so(servicer) -> None:
    """Nothing runs and nothing stays: when it ended, how to get a new one, and what is still
    billed.
    """
    diffed(servicer, {**INPUTS, "ttl": "20h"}, state(status="ended"), {**INPUTS, "ttl": "20h"})
    said = result(plan(servicer, urn=URN))
    assert (
        said["change"]
        == "no change: it ended at 2027-01-16T04:00:00Z by its ttl; `gpus rerun train -s s` gets a new one"
    )
    keeps = {**INPUTS, "ttl": "20h", "on_ttl": "keep"}
    diffed(servicer, keeps, state(status="ended"), keeps)
    assert "its disk is kept, and billed" in result(plan(servicer, urn=URN))["change"]
    diffed(servicer, {**INPUTS, "triggers": {"rerun": 1}}, state(status="ended"))
    said = result(plan(servicer, urn=URN))
    assert said["change"].startswith(
        "REPLACES gcp us-central1-a a3-highgpu-8g H100:8 spot, which ended at 2027-01-16T04:00:00Z"
        " by its ttl; +$"
    )


def test_an_edit_that_waits_is_said(servicer) -> None:
    """A ttl that the provider cannot put on a running machine replaces nothing, and the preview
    says that it waits.
    """
    response = diffed(servicer, {**INPUTS, "ttl": "30h"})
    assert response.changes == provider_pb2.DiffResponse.DIFF_SOME and not response.replaces
    said = result(plan(servicer, urn=URN))
    assert "gcp cannot edit ttl on a running machine: applied when it is next replaced" in " ".join(
        said["text"].split()
    )


def refused(servicer, values):
    """An edit that would replace what runs and is not carried out: nothing is replaced, the preview
    shows why and the update fails with it.
    """
    assert not diffed(servicer, values).replaces
    call(
        servicer,
        "Update",
        id=ID,
        olds=struct(state()),
        old_inputs=struct(INPUTS),
        news=struct(values),
        preview=True,
    )
    with pytest.raises(Aborted) as caught:
        call(
            servicer,
            "Update",
            id=ID,
            olds=struct(state()),
            old_inputs=struct(INPUTS),
            news=struct(values),
        )
    assert ("error", URN, caught.value.details) in servicer.lines
    return caught.value.details


def test_b42_nothing_is_given_up_for_a_declaration_that_nothing_can_serve(servicer) -> None:
    """An edit that would replace what runs, and for which there is no candidate, is refused before
    anything is deleted.
    """
    said = refused(servicer, {**INPUTS, "gpu": "A100-80GB:8", "max_price_per_hour": 0.5})
    assert said.startswith(
        "train: nothing acceptable for A100-80GB:8; spot, then on-demand; at most $0.5000/h (gpu:"
        " what runs no longer satisfies"
    )
    assert "gcp us-central1-a a3-highgpu-8g H100:8 spot stays as it is" in said
    assert "the cheapest is $" in said and "above the cap of $0.5000/h" in said


@pytest.mark.parametrize("zone", ["use1-atl2-az1", "apse3-az1"])
def test_a_machine_is_not_given_up_for_a_place_that_the_account_may_not_have(
    servicer, zone
) -> None:
    """The only acceptable places are a Local Zone or a region that an account begins without: the
    edit is refused and says how to enable it; where nothing runs the same declaration is tried.
    """
    region = {"use1-atl2-az1": "us-east-1", "apse3-az1": "ap-southeast-3"}[zone]
    values = {
        **INPUTS,
        "spot": "only",
        "providers": ["aws"],
        "regions": [region],
        "max_price_per_hour": 16 if region == "us-east-1" else 80,
    }
    said = " ".join(refused(servicer, values).split())
    assert (
        "H100:8 spot stays as it is" in said
        and "an account must enable: aws " in said
        and "`gpus check aws --world rehearsal`" in said
    )
    other = {**values, "cluster": "new"}
    call(servicer, "Check", news=struct(other), urn=f"{URN}2")
    call(servicer, "Create", properties=struct(other), urn=f"{URN}2", preview=True)


def test_what_was_taken_back_may_go_without_a_candidate(servicer) -> None:
    """A refresh compares too: what the cloud itself took back is no edit, and must not fail it."""
    assert list(
        diffed(
            servicer,
            {**INPUTS, "max_price_per_hour": 0.5},
            state(status="preempted"),
            {**INPUTS, "max_price_per_hour": 0.5},
        ).replaces
    ) == ["status"]


def test_a_preview_of_nothing_acceptable_fails(servicer, monkeypatch) -> None:
    """`up` would fail, so preview does: the whole table, then a line with what would help."""
    monkeypatch.setattr(siblings, "only_previews", lambda: True)
    values = {**INPUTS, "spot": "never", "max_price_per_hour": 5}
    call(servicer, "Check", news=struct(values))
    with pytest.raises(
        Aborted,
        match=(
            r"train: nothing acceptable for H100:8; on-demand; at most \$5.00/h\nthe cheapest is \$"
        ),
    ) as caught:
        call(servicer, "Create", properties=struct(values), preview=True)
    assert "spot" in caught.value.details.splitlines()[2]
    assert [line[0] for line in servicer.lines] == ["info"] and "price-cap" in servicer.lines[0][2]


def test_live_without_credentials_says_so_first(servicer, monkeypatch, tmp_path) -> None:
    """A preview in the live world with no provider configured fails, and the credentials come
    first.
    """
    monkeypatch.setattr(siblings, "only_previews", lambda: True)
    for name in ("HOME", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    values = {**INPUTS, "world": "live", "providers": ["gcp"]}
    call(servicer, "Check", news=struct(values))
    with pytest.raises(Aborted) as caught:
        call(servicer, "Create", properties=struct(values), preview=True)
    assert caught.value.details.splitlines()[1].startswith("not configured: gcp: ")
    assert "gcp: gcp:" not in caught.value.details


def test_a_renamed_cluster_shows_what_still_runs(servicer) -> None:
    """What the owner runs under a name that the program does not have is shown beside the new one's
    price.
    """
    from providers.engine.runtime.world import open_world

    world = open_world("rehearsal")
    world.journal.launched(a_record())
    world.close()
    values = {**INPUTS, "cluster": "tune"}
    call(servicer, "Check", news=struct(values))
    call(servicer, "Create", properties=struct(values), preview=True)
    said = result(plan(servicer, urn=URN, cluster="tune"))
    assert "this stack runs train (gcp us-central1-a H100:8 spot, $10.21/h)" in " ".join(
        said["text"].split()
    )
    servicer.session.declared.add("train")
    assert "this stack runs" not in result(plan(servicer, urn=URN, cluster="tune"))["text"]


def test_all_clusters_are_checked_at_once(servicer) -> None:
    """One question for a stack: every problem of every cluster, with its path; keys that Python
    reserves are no exception.
    """
    clusters = {
        "good": {"gpu": "L4:1"},
        "": {"gpu": "L4:1"},
        "bad": {"gpu": "H1000:8", "self": 1, "nodes": 0, "providers": 5},
    }
    request = SimpleNamespace(
        tok="gpu:index:check",
        args=struct({"world": "rehearsal", "settings": {}, "clusters": clusters}),
        preview=True,
    )
    problems = result(asyncio.run(servicer.Invoke(request, Context())))["problems"]
    assert {
        name: sorted(line.partition(":")[0] for line in lines) for name, lines in problems.items()
    } == {"good": [], "": ["''"], "bad": ["bad.gpu", "bad.nodes", "bad.providers", "bad.self"]}


def test_the_plan_of_a_reclaim_tells_the_overlap(servicer) -> None:
    """While the preferred one is launched first, both cost."""
    old = {**INPUTS, "fallback": ["A100-80GB:8"]}
    diffed(
        servicer,
        {**old, "triggers": {"reclaim": 1}},
        state(gpu_type="A100-80GB", machine_type="a2-ultragpu-8g", entry=1),
        old,
    )
    said = result(plan(servicer, urn=URN))
    assert "first; while both run $" in said["change"]


def test_b44_the_plan_of_an_unknown_gpu_says_so(servicer) -> None:
    """No crash and no price."""
    call(servicer, "Check", news=struct({**INPUTS, "gpu": wire.UNKNOWN}))
    said = result(plan(servicer, urn=URN))
    assert said["candidates"] == 0
    assert "not known yet" in said["text"]


def test_the_plan_stands_alone_too(servicer) -> None:
    """Any program may ask, without a cluster; a bad declaration is a failure with its path."""
    said = result(plan(servicer, gpu="L4:1", running_usd_per_hour=0.1))
    assert said["chosen"]["gpu_type"] == "L4"
    assert servicer.lines == []
    assert [failure.property for failure in plan(servicer, gpu="L4:x").failures] == ["gpu"]


def test_lines_for_the_screen_fit_it(monkeypatch) -> None:
    """A long line is broken at spaces and goes on indented; short ones and addresses are left as
    they are.
    """
    from providers.plugin.preview import fitted

    monkeypatch.setenv("COLUMNS", "100")
    line = (
        "#3 gcp australia-southeast2 H100:8 spot $10.74/h: sold out"
        " (ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS) a while"
    )
    assert fitted(f"  x\n{line}").splitlines() == ["  x", line[:58], f"    {line[59:]}"]
    assert fitted("x" * 120) == "x" * 120


def test_the_plan_fits_the_terminal(servicer, monkeypatch) -> None:
    """Also the narrow one of 80 columns, of which Pulumi's display takes four."""
    monkeypatch.setenv("COLUMNS", "80")
    call(servicer, "Check", news=struct(INPUTS))
    call(servicer, "Create", properties=struct(INPUTS), preview=True)
    text = result(plan(servicer, urn=URN))["text"]
    assert max(map(len, text.splitlines())) <= 76 and len(text.splitlines()) <= 12
