"""A machine at the Compute Engine stand-in: run limit, preemption, edits, stop and start."""

import pytest

from providers.rehearsal.clouds.gcp import console
from tests.unit.gcp.standin_rig import P, Z, codes, instance, refused

# Time and preemption


@pytest.mark.parametrize(
    ("action", "kind", "after"),
    [("DELETE", "deferredDelete", None), ("STOP", "deferredStop", "TERMINATED")],
)
def test_b34_the_run_limit_ends_the_machine(cloud, action, kind, after) -> None:
    """When maxRunDuration has passed, the machine is deleted or stopped, whoever looks and
    whenever; a system operation says so.
    """
    body = instance("g2-standard-4", "STANDARD")
    body["scheduling"] |= {
        "maxRunDuration": {"seconds": "3600"},
        "instanceTerminationAction": action,
    }
    cloud.done(cloud.insert(body), 2)
    assert cloud.get()["resourceStatus"]["scheduling"]["terminationTimestamp"].startswith(
        "2027-01-15T09:00:01"
    )
    cloud.later(3500)
    assert cloud.get()["status"] == "RUNNING"
    cloud.later(99.2)
    assert cloud.get()["status"] == "STOPPING"
    cloud.later(10)
    assert (refused(cloud.get)[0] == 404) if after is None else (cloud.get()["status"] == after)
    own = (
        cloud.api.zoneOperations()
        .list(project=P, zone=Z, filter=f"operationType=compute.instances.{kind}")
        .execute()["items"]
    )
    assert [(op["user"], op["targetLink"].rsplit("/", 1)[1]) for op in own] == [("system", "vm")]
    assert bool(console.disks(cloud.store)) == (after is not None)


def test_a_limit_that_was_overtaken_leaves_no_operation(cloud) -> None:
    """A machine deleted before its run limit never has a system operation, not even later."""
    body = instance()
    body["scheduling"]["maxRunDuration"] = {"seconds": "3600"}
    cloud.done(cloud.insert(body))
    cloud.done(cloud.api.instances().delete(project=P, zone=Z, instance="vm").execute())
    cloud.later(7200)
    kinds = [
        op["operationType"]
        for op in cloud.api.zoneOperations().list(project=P, zone=Z).execute()["items"]
    ]
    assert kinds == ["insert", "delete"]


@pytest.mark.parametrize(("action", "after"), [("DELETE", None), ("STOP", "TERMINATED")])
def test_b29_preemption_follows_the_termination_action(cloud, action, after) -> None:
    """A Spot machine that is taken stops, then is terminated or gone; the zone's operations name
    it; on-demand ones are never taken.
    """
    body = instance()
    body["scheduling"]["instanceTerminationAction"] = action
    cloud.done(cloud.insert(body))
    cloud.done(cloud.insert(instance(name="mine", model="STANDARD")))
    assert (
        console.preempt(cloud.store, "vm"),
        console.preempt(cloud.store, "mine"),
        console.preempt(cloud.store, "vm"),
    ) == (1, 0, 0)
    assert cloud.get()["status"] == "STOPPING"
    cloud.later(1.1)
    if after is None:
        assert refused(cloud.get)[0] == 404
    else:
        vm = cloud.get()
        assert (
            vm["status"] == after
            and "natIP" not in vm["networkInterfaces"][0]["accessConfigs"][0]
            and "lastStopTimestamp" in vm
        )
    own = (
        cloud.api.zoneOperations()
        .list(project=P, zone=Z, filter='operationType="compute.instances.preempted"')
        .execute()["items"]
    )
    assert [op["targetLink"].rsplit("/", 1)[1] for op in own] == ["vm"]
    assert [machine.name for machine in console.running(cloud.store)] == (
        ["vm", "mine"] if after else ["mine"]
    )


# Edits


def test_labels_need_the_fingerprint_that_was_read(cloud) -> None:
    """SetLabels replaces all labels, for those who have read them."""
    cloud.done(cloud.insert(instance(labels={"owner": "a"})))
    old = cloud.get()["labelFingerprint"]

    def edit(print_, labels):
        return (
            cloud.api.instances()
            .setLabels(
                project=P,
                zone=Z,
                instance="vm",
                body={"labelFingerprint": print_, "labels": labels},
            )
            .execute()
        )

    cloud.done(edit(old, {"owner": "b"}))
    assert cloud.get()["labels"] == {"owner": "b"}
    assert refused(lambda: edit(old, {}))[:2] == (412, "conditionNotMet")
    assert refused(lambda: edit(cloud.get()["labelFingerprint"], {"Bad": ""}))[:2] == (
        400,
        "invalid",
    )
    assert (cloud.names(filter="labels.owner=b"), cloud.names(filter="labels.owner=a")) == (
        ["vm"],
        [],
    )


def test_metadata_needs_the_fingerprint_that_was_read(cloud) -> None:
    """SetMetadata replaces the items, for those who have read them."""
    cloud.done(cloud.insert(instance("g2-standard-4", "STANDARD")))
    items = [{"key": "ssh-keys", "value": "x"}]

    def edit(print_):
        return (
            cloud.api.instances()
            .setMetadata(
                project=P, zone=Z, instance="vm", body={"fingerprint": print_, "items": items}
            )
            .execute()
        )

    assert refused(lambda: edit("old"))[0] == 412
    cloud.done(edit(cloud.get()["metadata"]["fingerprint"]))
    assert cloud.get()["metadata"]["items"] == items


def test_b35_b41_stop_and_start(cloud) -> None:
    """With local SSD a stop must say what becomes of it; a start without stock fails and leaves the
    machine stopped.
    """
    cloud.done(cloud.insert(instance()))
    assert refused(lambda: cloud.api.instances().stop(project=P, zone=Z, instance="vm").execute())[
        :2
    ] == (400, "badRequest")
    cloud.done(
        cloud.api.instances().stop(project=P, zone=Z, instance="vm", discardLocalSsd=True).execute()
    )
    assert cloud.get()["status"] == "TERMINATED"
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "spot", 0)

    def start_it():
        return cloud.api.instances().start(project=P, zone=Z, instance="vm").execute()

    assert (
        codes(cloud.done(start_it()))[0].startswith("ZONE_RESOURCE_POOL")
        and cloud.get()["status"] == "TERMINATED"
    )
    cloud.store.set_stock("gcp", Z, "a3-highgpu-8g", "spot", 1)
    op = start_it()
    assert cloud.get()["status"] == "PROVISIONING"
    assert "error" not in cloud.done(op) and cloud.get()["status"] == "RUNNING"
    assert refused(start_it)[:2] == (400, "resourceNotReady")
