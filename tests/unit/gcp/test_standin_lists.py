"""What the Compute Engine stand-in lists: machines, zones, disks, networks, reservations."""

import uuid

from providers.rehearsal.clouds.gcp import console, machines
from tests.unit.gcp.standin_rig import P, R, Z, codes, instance, refused

# Lists


def test_lists_filter_page_and_name_empty_zones(cloud) -> None:
    """Filters, pages of any size, and zones without a result with a warning, as at Google. The older
    syntax of filters is refused.
    """
    for index in range(5):
        cloud.insert(
            instance(
                "g2-standard-4",
                name=f"vm{index}",
                labels={"stack": "dev" if index % 2 else "prod", "n": str(index)},
            )
        )
    assert cloud.names(filter="labels.stack=dev") == ["vm1", "vm3"]
    assert cloud.names(filter='(labels.stack="dev") AND (labels.n="3")') == ["vm3"]
    assert cloud.names(filter="labels.n=1 OR labels.n=2") == ["vm1", "vm2"]
    assert cloud.names(filter="labels.stack:* NOT labels.stack=dev") == ["vm0", "vm2", "vm4"]
    assert cloud.names(filter="labels.missing:*") == []
    assert cloud.names(filter="-labels.stack=dev labels.n>0") == ["vm2", "vm4"]
    assert cloud.names(filter="name=vm* scheduling.automaticRestart=false") == [
        f"vm{index}" for index in range(5)
    ]
    for wrong in ("name", "name=", "(name=x", "name = x )", "= x", "name eq vm.*"):
        assert refused(lambda wrong=wrong: cloud.names(filter=wrong))[:2] == (400, "invalid")
    seen, request = [], cloud.api.instances().list(project=P, zone=Z, maxResults=2)
    while request:
        page = request.execute()
        seen.append([vm["name"] for vm in page["items"]])
        request = cloud.api.instances().list_next(request, page)
    assert seen == [["vm0", "vm1"], ["vm2", "vm3"], ["vm4"]]
    for wanted, names in (
        ('labels.stack="DEV"', ["vm1", "vm3"]),
        ('(labels.stack="dev") AND (labels.n="3")', ["vm3"]),
        ('labels.stack="dev" OR labels.n="0"', ["vm0", "vm1", "vm3"]),
        ('(labels.stack="de*")', ["vm1", "vm3"]),
        ('labels.stack="prod" AND NOT labels.n="2"', ["vm0", "vm4"]),
    ):
        found = cloud.api.instances().aggregatedList(project=P, filter=wanted).execute()["items"]
        assert [vm["name"] for vm in found[f"zones/{Z}"]["instances"]] == names
    items = cloud.api.instances().aggregatedList(project=P).execute()["items"]
    assert (
        items["zones/us-east4-a"]["warning"]["code"] == "NO_RESULTS_ON_PAGE"
        and "instances" not in items["zones/us-east4-a"]
    )


def test_operations_can_be_found(cloud) -> None:
    """By the caller's request id, by target and by type."""
    request = str(uuid.uuid4())
    op = cloud.insert(instance(), requestId=request)
    for wanted in (
        f'clientOperationId="{request}"',
        f'targetLink="{op["targetLink"]}"',
        "operationType=insert",
    ):
        found = cloud.api.zoneOperations().list(project=P, zone=Z, filter=wanted).execute()["items"]
        assert [item["name"] for item in found] == [op["name"]]
    cloud.later()
    assert cloud.operation(op)["status"] == "DONE"
    assert refused(
        lambda: cloud.api.zoneOperations().get(project=P, zone=Z, operation="operation-x").execute()
    )[:2] == (404, "notFound")
    assert refused(
        lambda: cloud.api.zoneOperations()
        .get(project="other", zone=Z, operation=op["name"])
        .execute()
    )[:2] == (404, "notFound")


def test_what_exists_where(cloud) -> None:
    """Machine types with their GPUs, regions and images; a type is in no zone but its own."""
    kind = cloud.api.machineTypes().get(project=P, zone=Z, machineType="a3-highgpu-8g").execute()
    assert kind["accelerators"] == [
        {"guestAcceleratorType": "nvidia-h100-80gb", "guestAcceleratorCount": 8}
    ]
    assert (kind["guestCpus"], kind["memoryMb"], kind["bundledLocalSsds"]["partitionCount"]) == (
        208,
        1872 * 1024,
        16,
    )
    assert (
        refused(
            lambda: cloud.api.machineTypes()
            .get(project=P, zone="us-east1-b", machineType="a3-highgpu-8g")
            .execute()
        )[0]
        == 404
    )
    names = [region["name"] for region in cloud.api.regions().list(project=P).execute()["items"]]
    assert "australia-southeast2" in names and R in names
    image = (
        cloud.api.images()
        .getFromFamily(
            project="deeplearning-platform-release", family="common-cu129-ubuntu-2204-nvidia-580"
        )
        .execute()
    )
    assert (
        image["status"] == "READY"
        and image
        == cloud.api.images()
        .get(project="deeplearning-platform-release", image=image["name"])
        .execute()
    )


def test_disks_go_with_their_machine_unless_told_otherwise(cloud) -> None:
    """AutoDelete disks go with the machine; others stay and cost money."""
    body = instance("g2-standard-4")
    body["disks"].append(
        {
            "autoDelete": False,
            "initializeParams": {
                "diskName": "data",
                "diskSizeGb": "10",
                "diskType": f"zones/{Z}/diskTypes/pd-balanced",
            },
        }
    )
    cloud.done(cloud.insert(body))
    assert console.disks(cloud.store) == (f"zones/{Z}/vm", f"zones/{Z}/data")
    cloud.done(cloud.api.instances().delete(project=P, zone=Z, instance="vm").execute())
    assert console.disks(cloud.store) == (f"zones/{Z}/data",)


# Surroundings


def test_a_managed_network_is_made_used_and_removed(cloud) -> None:
    """Network, subnetwork and firewall rule; a machine inside; nothing in use can be removed."""
    api, link = cloud.api, f"https://www.googleapis.com/compute/v1/projects/{P}/global/networks/net"
    op = cloud.done(
        api.networks()
        .insert(project=P, body={"name": "net", "autoCreateSubnetworks": False, "mtu": 8896})
        .execute()
    )
    assert op["targetLink"] == link
    subnet = {"name": "sub", "network": link, "ipCidrRange": "10.9.0.0/24"}
    cloud.done(api.subnetworks().insert(project=P, region=R, body=subnet).execute())
    assert refused(
        lambda: api.subnetworks()
        .insert(project=P, region=R, body={**subnet, "name": "again"})
        .execute()
    )[:2] == (400, "invalid")
    rule = {
        "name": "ssh",
        "network": link,
        "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
        "sourceRanges": ["0.0.0.0/0"],
        "targetTags": ["gpus"],
    }
    cloud.done(api.firewalls().insert(project=P, body=rule).execute())
    assert (
        refused(
            lambda: api.firewalls()
            .insert(project=P, body={**rule, "name": "x", "denied": rule["allowed"]})
            .execute()
        )[0]
        == 400
    )
    found = api.firewalls().get(project=P, firewall="ssh").execute()
    assert (found["sourceRanges"], found["direction"], found["priority"], found["targetTags"]) == (
        ["0.0.0.0/0"],
        "INGRESS",
        1000,
        ["gpus"],
    )
    assert refused(
        lambda: cloud.insert(instance(networkInterfaces=[{"network": "global/networks/net"}]))
    )[:2] == (400, "invalid")
    cloud.done(
        cloud.insert(instance(networkInterfaces=[{"subnetwork": f"regions/{R}/subnetworks/sub"}]))
    )
    assert cloud.get()["networkInterfaces"][0]["network"] == link and cloud.get()[
        "networkInterfaces"
    ][0]["networkIP"].startswith("10.9.0.")
    assert (
        api.networks()
        .get(project=P, network="net")
        .execute()["subnetworks"][0]
        .endswith("/subnetworks/sub")
    )

    def drop_net():
        return api.networks().delete(project=P, network="net").execute()

    def drop_sub():
        return api.subnetworks().delete(project=P, region=R, subnetwork="sub").execute()

    assert refused(drop_net)[1] == refused(drop_sub)[1] == "resourceInUseByAnotherResource"
    cloud.done(api.instances().delete(project=P, zone=Z, instance="vm").execute())
    for drop in (
        drop_sub,
        lambda: api.firewalls().delete(project=P, firewall="ssh").execute(),
        drop_net,
    ):
        assert "error" not in cloud.done(drop())
    assert refused(lambda: api.networks().get(project=P, network="net").execute())[:2] == (
        404,
        "notFound",
    )


def test_default_network(cloud) -> None:
    """Every project has a default network with a subnetwork in every region, each of its own range."""
    ranges = [
        cloud.api.subnetworks()
        .get(project=P, region=region, subnetwork="default")
        .execute()["ipCidrRange"]
        for region in machines.regions()
    ]
    assert all(block.endswith("/20") for block in ranges) and len(set(ranges)) == len(ranges)


def test_a_reservation_is_used_by_name_and_runs_out(cloud) -> None:
    """A machine that names a reservation uses it, whatever the stock; beyond its count it fails; it
    must be for that machine type.
    """
    cloud.store.set_stock("gcp", Z, "", "", 0)
    body = {
        "name": "mine",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": "1",
            "instanceProperties": {"machineType": "a3-highgpu-8g"},
        },
    }
    cloud.done(cloud.api.reservations().insert(project=P, zone=Z, body=body).execute())
    affinity = {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [f"projects/{P}/reservations/mine"],
    }

    def wanted(name, kind="a3-highgpu-8g"):
        return cloud.insert(instance(kind, "STANDARD", name=name, reservationAffinity=affinity))

    assert "error" not in cloud.done(wanted("vm"))
    assert codes(cloud.done(wanted("second"))) == ["ZONE_RESOURCE_POOL_EXHAUSTED"]
    assert refused(lambda: wanted("third", "g2-standard-4"))[:2] == (400, "invalid")
    listed = (
        cloud.api.reservations()
        .aggregatedList(project=P)
        .execute()["items"][f"zones/{Z}"]["reservations"]
    )
    assert [(found["name"], found["specificReservation"]["inUseCount"]) for found in listed] == [
        ("mine", "1")
    ]
