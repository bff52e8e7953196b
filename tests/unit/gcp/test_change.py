"""The Google Cloud adapter deletes machines and changes labels, keys and workloads in place."""

from typing import Any

from providers.adapters.gcp import compile as native
from providers.model import idle
from providers.model.machine import Label, Setup
from providers.rehearsal.clouds.gcp import console


def test_delete_is_confirmed_by_observe_and_twice_is_fine(rig) -> None:
    """Deleted, then gone; deleting what is gone is success; nothing is left."""
    ticket = rig.launched()
    rig.gcp.delete(ticket.handles[0])
    rig.moment += 30
    assert rig.status(ticket.handles[0]) == "gone"
    rig.gcp.delete(ticket.handles[0])
    assert console.disks(rig.store) == ()


def test_relabel_writes_the_new_generation(rig) -> None:
    """An adopted machine is found under its new generation, its other labels as before."""
    ticket = rig.launched(labels=(("team", "ml"),))
    rig.gcp.relabel(ticket.handles[0], "gen2")
    assert list(rig.gcp.find("own1", "train", "gen1")) == []
    assert (
        Label("own1", "train", "gen2", "0123456789abcdef")
        == rig.gcp.find("own1", "train", "gen2")[0].label
    )


def test_edited_workload_keeps_the_idle_timer_and_the_secrets_of_its_machine(rig) -> None:
    """What runs at the next boots is the new script, after all else that the machine was ordered
    with; the timer's limit stays.
    """
    account = (("service_account", "me@p.iam.gserviceaccount.com"),)
    ordered: dict[str, Any] = {
        "secrets": (("HF_TOKEN", "projects/p/secrets/hf"),),
        "options": account,
    }
    ticket = rig.launched(script="#!/bin/bash\necho first\n", idle_s=7_200, **ordered)
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]

    def script():
        body = rig.gcp.client.call(
            lambda s: s.instances().get(project=project, zone=zone, instance=name),
            rig.gcp.context(ticket.order),
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


def test_labels_and_key_change_in_place(rig) -> None:
    """The user's labels are replaced, ours stay; the key is replaced and can be taken away."""
    ticket = rig.launched(
        labels=(("team", "ml"),),
        ssh_public_key="ssh-ed25519 AAAA me",
        script="#!/bin/bash\ntrue\n",
    )
    project, zone, name = ticket.handles[0].native_id.split("/")[1::2]

    def body():
        return rig.gcp.client.call(
            lambda s: s.instances().get(project=project, zone=zone, instance=name),
            rig.gcp.context(ticket.order),
        )

    rig.gcp.update(
        ticket.handles[0], {"labels": {"team": "infra"}, "ssh_key": "ssh-ed25519 BBBB me"}
    )
    after = body()
    assert {"team": "infra", **native.owner_labels(ticket.order.label)} == after["labels"]
    items = {item["key"]: item["value"] for item in after["metadata"]["items"]}
    assert items["ssh-keys"] == "gpus:ssh-ed25519 BBBB me"
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


def test_an_edit_is_repeated_when_somebody_was_faster(rig) -> None:
    """A stale fingerprint is read again once."""
    ticket = rig.launched()
    rig.store.add_fault(
        "gcp", "instances.setLabels", "http", times=1, status=412, reason="conditionNotMet"
    )
    rig.gcp.relabel(ticket.handles[0], "gen2")
    assert rig.calls("instances.setLabels") == 2
