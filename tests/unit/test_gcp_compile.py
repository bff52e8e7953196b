"""The one creating call of an order, and which candidates may share it. No network."""

import functools
import json
import shlex
import subprocess

import pytest

from providers.adapters.gcp import CAPABILITIES, MANIFEST
from providers.adapters.gcp import compile as native, grouping, machine_metadata
from providers.adapters.gcp import machines
from providers.adapters.gcp.options import IMAGE_FAMILY, problems
from providers.errors import Unsupported
from providers.model.machine import Mark, Order, Setup
from providers.model.offer import Candidate, Offer

MARK = Mark("own1", "train", "gen1", "0123456789abcdef")
TYPES = {
    "a3-highgpu-8g": ("H100", 8, ""),
    "a3-megagpu-8g": ("H100-MEGA", 8, ""),
    "a2-highgpu-8g": ("A100", 8, ""),
    "a2-megagpu-16g": ("A100", 16, ""),
    "a2-ultragpu-8g": ("A100-80GB", 8, ""),
    "g2-standard-4": ("L4", 1, ""),
    "g2-standard-8": ("L4", 1, ""),
    "n1-standard-8": ("T4", 1, "nvidia-tesla-t4"),
}


def candidate(
    zone="us-central1-a",
    machine_type="a3-highgpu-8g",
    capacity="on-demand",
    micro_usd=88_490_000,
    entry=0,
    nodes=1,
    region="",
    reservation="",
):
    gpu, count, accelerator = TYPES[machine_type]
    region = region or zone.rsplit("-", 1)[0]
    offer = Offer(
        "gcp", region, zone, machine_type, gpu, count, capacity, micro_usd, accelerator=accelerator
    )
    return Candidate(1, entry, offer, nodes, reservation=reservation, micro_usd=micro_usd)


def order(*candidates, wait_s=900, nodes=1, **setup):
    names = tuple(f"train-{index}" for index in range(nodes))
    return Order(
        MARK,
        "11111111-2222-4333-8444-555555555555",
        candidates or (candidate(),),
        names,
        Setup(**setup),
        wait_s,
    )


def properties(*candidates, **rest):
    return native.creating_call(order(*candidates, **rest)).body["instanceProperties"]


@functools.cache
def schemas():
    import googleapiclient

    path = f"{list(googleapiclient.__path__)[0]}/discovery_cache/documents/compute.v1.json"
    with open(path) as file:
        return json.load(file)["schemas"]


def conforms(schema, value, path="body"):
    """Every field is known to Google, of its type, and of its enum."""
    if "$ref" in schema:
        schema = schemas()[schema["$ref"]]
    kind = schema["type"]
    if kind == "object":
        assert isinstance(value, dict), path
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            assert inner, f"{path}.{key} is unknown to Google"
            conforms(inner, item, f"{path}.{key}")
    elif kind == "array":
        assert isinstance(value, list), path
        for item in value:
            conforms(schema["items"], item, f"{path}[]")
    else:
        assert isinstance(
            value, {"string": str, "integer": int, "boolean": bool, "number": float}[kind]
        ), path
        assert value in schema.get("enum", [value]), path


EVERY_KIND = [
    order(),
    order(candidate("us-central1-a"), candidate("us-central1-b")),
    order(candidate("us-central1-a", "g2-standard-4"), candidate("us-central1-a", "g2-standard-8")),
    order(candidate(capacity="spot"), nodes=4, ttl_s=7200, on_ttl="keep"),
    order(candidate(capacity="flex-start"), ttl_s=7200),
    order(candidate(capacity="flex-start"), nodes=2),
    order(candidate(capacity="reservation", reservation="mine")),
    order(
        candidate(machine_type="n1-standard-8"),
        ssh_public_key="ssh-ed25519 AAAA me",
        labels=(("team", "ml"),),
        options=(
            ("container", "nvcr.io/nvidia/pytorch:25.09-py3"),
            ("local_ssd_count", 2),
            ("service_account", "a@p.iam.gserviceaccount.com"),
        ),
        network=(
            ("network", "projects/p/global/networks/n"),
            ("subnetwork", "s"),
            ("tags", "gpus-net"),
        ),
    ),
]


@pytest.mark.parametrize("given", EVERY_KIND)
def test_every_body_conforms_to_the_discovery_document(given):
    """No field, type or enum of a body is unknown to the installed discovery document."""
    call = native.creating_call(given, ("us-central1-a", "us-central1-b", "us-central1-c"))
    conforms(
        {"$ref": "Instance" if call.method == grouping.INSERT else "BulkInsertInstanceResource"},
        call.body,
    )


@pytest.mark.parametrize(
    "machine_type",
    [
        "g2-standard-4",
        "a2-highgpu-8g",
        "a2-ultragpu-8g",
        "a3-highgpu-8g",
        "a3-megagpu-8g",
        "n1-standard-8",
    ],
)
@pytest.mark.parametrize("capacity", ["on-demand", "spot", "flex-start", "reservation"])
def test_b10_every_gpu_machine_terminates_on_host_maintenance(machine_type, capacity):
    """Whether the GPU is attached or built in, a GPU machine is never to be live-migrated."""
    if capacity in machines.family(machine_type).never:
        pytest.skip("not sold")
    call = native.creating_call(
        order(candidate(machine_type=machine_type, capacity=capacity, reservation="mine"))
    )
    body = call.body if call.method == grouping.INSERT else call.body["instanceProperties"]
    assert "TERMINATE" == body["scheduling"]["onHostMaintenance"]


def test_b10_guest_accelerators_only_where_the_gpu_is_attached():
    """N1 gets its T4 as a guest accelerator, by bare name; A2 and G2 bring theirs."""
    attached = properties(candidate(machine_type="n1-standard-8"))
    assert [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}] == attached[
        "guestAccelerators"
    ]
    assert "n1-standard-8" == attached["machineType"]
    for machine_type in ("a2-highgpu-8g", "g2-standard-4", "a3-highgpu-8g"):
        assert "guestAccelerators" not in properties(candidate(machine_type=machine_type))


def test_a_cluster_is_all_or_nothing_under_its_own_names():
    """count equals minCount, and each node has the order's name."""
    body = native.creating_call(order(nodes=3)).body
    assert ("3", "3") == (body["count"], body["minCount"])
    assert {"train-0": {}, "train-1": {}, "train-2": {}} == body["perInstanceProperties"]


def test_one_place_is_a_zonal_call_and_several_are_a_regional_one():
    """One candidate goes to its zone; several go out as one regional call that denies the zones the
    plan does not hold.
    """
    alone = native.creating_call(order())
    assert (grouping.ZONAL, "us-central1-a") == (alone.method, alone.zone)
    both = native.creating_call(
        order(candidate("us-central1-a"), candidate("us-central1-c")),
        ("us-central1-a", "us-central1-b", "us-central1-c"),
    )
    assert (grouping.REGIONAL, "") == (both.method, both.zone)
    assert {
        "targetShape": "ANY_SINGLE_ZONE",
        "locations": {
            "zones/us-central1-a": {"preference": "ALLOW"},
            "zones/us-central1-b": {"preference": "DENY"},
            "zones/us-central1-c": {"preference": "ALLOW"},
        },
    } == both.body["locationPolicy"]


def test_a_candidate_without_a_zone_leaves_the_zone_to_google():
    """Where the catalog knows only the region, the region is asked, and no zone is named."""
    call = native.creating_call(order(candidate("", region="us-east4")))
    assert (grouping.REGIONAL, "us-east4", {"targetShape": "ANY_SINGLE_ZONE"}) == (
        call.method,
        call.region,
        call.body["locationPolicy"],
    )


def test_machine_types_are_ranked_in_the_plan_s_order():
    """Several machine types go out as ranked selections, and no machine type of their own."""
    body = native.creating_call(
        order(candidate(machine_type="g2-standard-4"), candidate(machine_type="g2-standard-8"))
    ).body
    assert "machineType" not in body["instanceProperties"]
    assert {
        "choice-1": {"machineTypes": ["g2-standard-4"], "rank": "1"},
        "choice-2": {"machineTypes": ["g2-standard-8"], "rank": "2"},
    } == body["instanceFlexibilityPolicy"]["instanceSelections"]


A, B, C = "us-central1-a", "us-central1-b", "us-central1-c"
G4, G8 = "g2-standard-4", "g2-standard-8"


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([candidate(A)], 1),
        ([candidate(A), candidate(B), candidate(C)], 3),
        ([candidate(A), candidate(B), candidate("us-east4-a")], 2),
        ([candidate(A), candidate(B, micro_usd=1)], 1),
        ([candidate(A, micro_usd=None), candidate(B, micro_usd=None)], 2),
        ([candidate(A), candidate(B, capacity="spot")], 1),
        ([candidate(A), candidate(B, entry=1)], 1),
        ([candidate(A), candidate(B, nodes=2)], 1),
        (
            [
                candidate(A, G4, micro_usd=1),
                candidate(B, G4, micro_usd=1),
                candidate(A, G8, micro_usd=2),
                candidate(B, G8, micro_usd=2),
            ],
            4,
        ),
        # Google would also try g2-standard-8 in zone b, which the plan does not hold.
        ([candidate(A, G4), candidate(B, G4), candidate(A, G8)], 2),
        # Zones of one type apart from each other: Google would try them together.
        ([candidate(A, G4), candidate(A, G8), candidate(B, G4)], 2),
        (
            [
                candidate(A, G4),
                candidate(B, G4),
                candidate(A, G8),
                candidate(B, G8),
                candidate(A, G4),
            ],
            4,
        ),
        ([candidate(A, "n1-standard-8"), candidate(B, "n1-standard-8")], 1),
        ([candidate(A, capacity="flex-start"), candidate(B, capacity="flex-start")], 1),
        (
            [
                candidate(A, capacity="reservation", reservation="r"),
                candidate(B, capacity="reservation", reservation="r"),
            ],
            1,
        ),
        ([candidate("", region="us-central1"), candidate(A)], 1),
        ([candidate(A), candidate("", region="us-central1")], 1),
        # Another count is another machine, even at the same entry.
        ([candidate(A, "a2-highgpu-8g"), candidate(A, "a2-megagpu-16g")], 1),
    ],
)
def test_a_group_never_changes_the_plan_s_order(candidates, expected):
    """Only leading candidates that Google would try in this very order, or that rank equal, share a
    call.
    """
    assert expected == grouping.group(candidates)


def test_spot_is_deleted_when_taken_and_never_restarted():
    """Spot: its own provisioning model, no restart, deleted on preemption unless the spec keeps."""
    assert {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
    } == properties(candidate(capacity="spot"))["scheduling"]
    assert (
        "STOP"
        == properties(candidate(capacity="spot"), on_ttl="keep")["scheduling"][
            "instanceTerminationAction"
        ]
    )


def test_on_demand_without_a_ttl_has_no_termination_action():
    """instanceTerminationAction goes with a run limit or with Spot only."""
    assert {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": True,
        "provisioningModel": "STANDARD",
    } == properties()["scheduling"]


def test_b34_the_run_limit_deletes_or_stops_and_says_so():
    """A ttl is carried out by Google: it deletes, or stops and then drops the local SSD, and the
    ticket's notes say which.
    """
    release = native.creating_call(order(ttl_s=72_000))
    assert {"seconds": "72000"} == release.body["instanceProperties"]["scheduling"][
        "maxRunDuration"
    ]
    assert "DELETE" == release.body["instanceProperties"]["scheduling"]["instanceTerminationAction"]
    assert ("Google ends the run after 20h: the machine is deleted",) == release.notes
    keep = native.creating_call(order(ttl_s=72_000, on_ttl="keep"))
    assert {"discardLocalSsd": True} == keep.body["instanceProperties"]["scheduling"][
        "onInstanceStopAction"
    ]
    assert any("local SSD is lost" in note for note in keep.notes)
    without = native.creating_call(
        order(candidate(machine_type="g2-standard-4"), ttl_s=72_000, on_ttl="keep")
    )
    assert "onInstanceStopAction" not in without.body["instanceProperties"]["scheduling"]


def test_b34_ttl_is_no_edit_in_place():
    """Google changes the schedule of stopped machines only, so a ttl is not among the edits in
    place.
    """
    assert "ttl" not in CAPABILITIES.in_place


def test_flex_start_waits_in_one_zone_with_a_run_limit():
    """Flex-start is an insert with a queue, a run limit (7 days without a ttl) and no reservation."""
    call = native.creating_call(order(candidate(capacity="flex-start"), wait_s=900))
    assert (grouping.INSERT, "train-0") == (call.method, call.body["name"])
    assert "zones/us-central1-a/machineTypes/a3-highgpu-8g" == call.body["machineType"]
    assert (
        "zones/us-central1-a/diskTypes/pd-balanced"
        == call.body["disks"][0]["initializeParams"]["diskType"]
    )
    assert {"requestValidForDuration": {"seconds": "7200"}} == call.body["params"]
    assert "Google keeps the request queued for up to 2h" in call.notes
    assert {"seconds": "604800"} == call.body["scheduling"]["maxRunDuration"]
    assert "FLEX_START" == call.body["scheduling"]["provisioningModel"]
    assert {"consumeReservationType": "NO_RESERVATION"} == call.body["reservationAffinity"]
    assert any("7d" in note and "Flex-start" in note for note in call.notes)


@pytest.mark.parametrize(
    ("wait_s", "expected"), [(0, "0"), (60, "0"), (90, "7200"), (86_400, "7200")]
)
def test_flex_start_s_queue_stays_within_google_s_bounds(wait_s, expected):
    """Under 90 seconds means now or never; else the queue outlives the run, up to Google's two
    hours, so that the next run can wait on.
    """
    body = native.creating_call(order(candidate(capacity="flex-start"), wait_s=wait_s)).body
    assert expected == body["params"]["requestValidForDuration"]["seconds"]


@pytest.mark.parametrize(
    ("capacity", "ttl_s"),
    [("flex-start", 300), ("flex-start", 8 * 86_400), ("on-demand", 121 * 86_400)],
)
def test_a_ttl_beyond_google_s_range_is_refused_before_any_call(capacity, ttl_s):
    """What Google cannot guard is not bought, and the refusal is not remembered for other specs."""
    with pytest.raises(Unsupported, match="wanted a ttl from") as caught:
        native.creating_call(order(candidate(capacity=capacity), ttl_s=ttl_s))
    assert 0 == caught.value.block_s


def test_several_flex_start_nodes_are_made_at_once_or_not():
    """Google queues single machines only, so several go out as one bulk insert, and the notes say
    so.
    """
    call = native.creating_call(order(candidate(capacity="flex-start"), nodes=2))
    assert grouping.ZONAL == call.method
    assert any("queues only single machines" in note for note in call.notes)


def test_flex_start_needs_a_zone():
    """A place of which only the region is known cannot queue."""
    with pytest.raises(Unsupported, match="wanted a zone"):
        native.creating_call(order(candidate("", region="us-east4", capacity="flex-start")))


@pytest.mark.parametrize("name", ["mine", "projects/other/reservations/mine"])
def test_a_reservation_is_named_under_the_key_that_works(name):
    """A reservation is consumed by its name, in this project or a shared one."""
    affinity = properties(candidate(capacity="reservation", reservation=name))[
        "reservationAffinity"
    ]
    assert {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [name],
    } == affinity


@pytest.mark.parametrize(
    ("capacity", "expected"), [("on-demand", "ANY_RESERVATION"), ("spot", "NO_RESERVATION")]
)
def test_open_reservations_are_for_on_demand_only(capacity, expected):
    """On demand may use an open reservation, which is paid for already; Spot cannot."""
    assert {"consumeReservationType": expected} == properties(candidate(capacity=capacity))[
        "reservationAffinity"
    ]


@pytest.mark.parametrize(
    ("machine_type", "asked", "expected"),
    [
        ("a3-highgpu-8g", "hyperdisk-balanced", "hyperdisk-balanced"),
        ("g2-standard-4", "hyperdisk-balanced", "pd-balanced"),
        ("n1-standard-8", "pd-standard", "pd-standard"),
    ],
)
def test_the_boot_disk_is_one_that_the_family_takes(machine_type, asked, expected):
    """A disk type applies where the family has it; elsewhere the family's default stands."""
    disk = properties(candidate(machine_type=machine_type), options=(("boot_disk_type", asked),))[
        "disks"
    ][0]
    assert expected == disk["initializeParams"]["diskType"]
    assert disk["autoDelete"]


def test_the_boot_disk_has_the_asked_size_and_the_default_image():
    """disk_gib is the boot disk's size, 100 GiB by default, with a Deep Learning image."""
    assert "100" == properties()["disks"][0]["initializeParams"]["diskSizeGb"]
    assert "500" == properties(disk_gib=500)["disks"][0]["initializeParams"]["diskSizeGb"]
    assert (
        f"projects/deeplearning-platform-release/global/images/family/{IMAGE_FAMILY}"
        == properties()["disks"][0]["initializeParams"]["sourceImage"]
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"image": "mine-v1", "image_project": "my-project"},
            "projects/my-project/global/images/mine-v1",
        ),
        (
            {"image_family": "mine", "image_project": "my-project"},
            "projects/my-project/global/images/family/mine",
        ),
        ({"image": "projects/p-12345/global/images/x"}, "projects/p-12345/global/images/x"),
    ],
)
def test_the_image_can_be_named(options, expected):
    """One image, or the newest of a family, in its project."""
    assert (
        expected
        == properties(options=tuple(options.items()))["disks"][0]["initializeParams"]["sourceImage"]
    )


def test_local_ssds_are_added_where_the_machine_takes_them():
    """A2 Standard and N1 take them; A3 brings its own; G2 takes no more than its GPUs."""
    extra = (("local_ssd_count", 2),)
    disks = properties(candidate(machine_type="a2-highgpu-8g"), options=extra)["disks"]
    assert [
        {
            "type": "SCRATCH",
            "autoDelete": True,
            "interface": "NVME",
            "initializeParams": {"diskType": "local-ssd"},
        }
    ] * 2 == disks[1:]
    assert 1 == len(properties(candidate(machine_type="a3-highgpu-8g"), options=extra)["disks"])
    with pytest.raises(Unsupported, match="at most 1 local SSD"):
        properties(candidate(machine_type="g2-standard-4"), options=extra)


def test_gvnic_from_a2_on():
    """The fast network interface is asked for wherever the family has it."""
    assert "GVNIC" == properties()["networkInterfaces"][0]["nicType"]
    assert (
        "nicType" not in properties(candidate(machine_type="n1-standard-8"))["networkInterfaces"][0]
    )


def test_the_network_is_the_default_one_or_the_wired_one():
    """Without wiring the default network with an outside address; with it, the region's own
    subnetwork, free of any host name.
    """
    plain = properties()["networkInterfaces"][0]
    assert ("global/networks/default", "ONE_TO_ONE_NAT") == (
        plain["network"],
        plain["accessConfigs"][0]["type"],
    )
    wired = properties(
        network=(
            ("network", "https://www.googleapis.com/compute/v1/projects/p/global/networks/n"),
            (
                "subnetwork.us-central1",
                "http://127.0.0.1:99/compute/v1/projects/p/regions/us-central1/subnetworks/s",
            ),
            ("tags", "gpus-ssh,gpus-in"),
        ),
        options=(("external_ip", False),),
    )
    interface = wired["networkInterfaces"][0]
    assert "projects/p/global/networks/n" == interface["network"]
    assert "projects/p/regions/us-central1/subnetworks/s" == interface["subnetwork"]
    assert "accessConfigs" not in interface
    assert ["gpus", "gpus-train", "gpus-ssh", "gpus-in"] == wired["tags"]["items"]


def test_labels_say_whose_it_is_and_cannot_be_overridden():
    """The user's labels stand beside the four marks, which win."""
    labels = properties(labels=(("team", "ml"), ("gpus-owner", "someone")))["labels"]
    assert {
        "team": "ml",
        "gpus-owner": "own1",
        "gpus-cluster": "train",
        "gpus-generation": "gen1",
        "gpus-fingerprint": "0123456789abcdef",
    } == labels


OWN = "ssh-ed25519 BBBB gpus-own-train"


def test_the_clusters_own_key_stands_beside_the_users():
    """Two lines of one metadata item, the user's first; alone where the user gives none."""
    both = properties(ssh_public_key="ssh-ed25519 AAAA me", own_public_key=OWN)["metadata"]["items"]
    assert [{"key": "ssh-keys", "value": f"gpus:ssh-ed25519 AAAA me\ngpus:{OWN}"}] == both
    assert [{"key": "ssh-keys", "value": f"gpus:{OWN}"}] == properties(own_public_key=OWN)[
        "metadata"
    ]["items"]
    assert [OWN] == machine_metadata.own_keys(both[0]["value"]) and [] == machine_metadata.own_keys(
        "gpus:ssh-ed25519 AAAA me"
    )


def test_b32_what_a_machine_is_told_at_its_start_is_bounded_when_planning():
    """More than Google takes in a value is a problem of the section, with both sizes; what fits is
    none.
    """
    (problem,) = machine_metadata.fits({}, Setup(ssh_public_key="ssh-rsa " + "A" * 262_144))
    assert (
        "metadata (ssh-keys) of at most 262,144 bytes" in problem.wanted
        and problem.found == "262,157"
    )
    assert [] == machine_metadata.fits(
        {"container": "job:1"}, Setup(ssh_public_key="ssh-ed25519 AAAA me")
    )


def test_a_login_that_the_declaration_rules_out_is_known():
    """A managed network and a machine without an address outside take no ssh from here; everything
    else does.
    """
    assert "Identity-Aware Proxy" in MANIFEST.limits.unreachable(
        None, Setup(network=(("network", "n"),))
    )
    assert "external_ip" in MANIFEST.limits.unreachable(
        None, Setup(options=(("external_ip", False),))
    )
    assert "" == MANIFEST.limits.unreachable(None, Setup(options=(("container", "job:1"),)))


def test_the_ssh_key_is_metadata_and_there_is_none_without_one():
    """ssh-keys holds user and key; without a key there is no metadata and no service account."""
    assert [{"key": "ssh-keys", "value": "gpus:ssh-ed25519 AAAA me"}] == properties(
        ssh_public_key="ssh-ed25519 AAAA me\n"
    )["metadata"]["items"]
    assert not {"metadata", "serviceAccounts"} & properties().keys()


def test_the_container_s_script_is_a_valid_shell_script_with_the_image_quoted():
    """bash parses the script, and the image stands in it quoted."""
    script = machine_metadata.start_up_script("nvcr.io/nvidia/pytorch:25.09-py3")
    assert 0 == subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode
    assert f"image={shlex.quote('nvcr.io/nvidia/pytorch:25.09-py3')}" in script
    assert "{{json .Runtimes}}" in script and "{{.Config.Image}}" in script
    assert "image='a b; rm -rf /'" in machine_metadata.start_up_script("a b; rm -rf /")


@pytest.mark.parametrize(
    ("section", "paths"),
    [
        ({}, []),
        (
            {
                "image": "x",
                "image_project": "my-project",
                "container": "ghcr.io/me/app@sha256:" + "a" * 64,
                "tags": ["a"],
                "external_ip": False,
                "local_ssd_count": 1.0,
            },
            [],
        ),
        ({"container": "localhost:5000/a/b:latest"}, []),
        ({"container": "a; rm -rf /"}, ["container"]),
        ({"container": "$(x)"}, ["container"]),
        ({"container": ""}, ["container"]),
        ({"local_ssd_count": 3}, ["local_ssd_count"]),
        ({"local_ssd_count": True}, ["local_ssd_count"]),
        ({"external_ip": "yes"}, ["external_ip"]),
        ({"image": "x", "image_family": "y"}, ["image_family"]),
        ({"image_project": "my-project"}, ["image_project"]),
        (
            {"boot_disk_type": "pd-extreme", "tags": "a", "service_account": "me"},
            ["boot_disk_type", "tags", "service_account"],
        ),
        ({"imge": "x"}, ["imge"]),
    ],
)
def test_options_are_checked_all_at_once(section, paths):
    """Every problem of the section, each with its path."""
    assert paths == [problem.path for problem in problems(section)]


def test_an_unknown_option_names_the_near_one():
    """A slip of the keyboard is met with the option that was meant."""
    assert "near: image" in problems({"imge": "x"})[0].wanted


@pytest.mark.parametrize(
    ("machine_type", "sold"),
    [
        ("a2-ultragpu-1g", True),
        ("a3-megagpu-8g", True),
        ("n1-standard-8", True),
        ("g2-standard-96", True),
        ("a3-ultragpu-8g", True),
        ("g4-standard-48", True),
        ("g4-standard-24", False),
        ("c3-standard-4", False),
    ],
)
def test_families_that_the_adapter_cannot_order_are_declared(machine_type, sold):
    """The planner refuses by this list what the adapter does not know how to order."""
    assert sold == CAPABILITIES.orders(machine_type)


def test_the_manifest_loads_without_google_s_client():
    """Importing the folder imports no SDK, no asyncio and no dataclasses."""
    code = (
        "import sys, providers.adapters.gcp as g; g.MANIFEST; print([m for m in sys.modules if"
        " m.startswith(('google', 'httplib2', 'asyncio', 'dataclasses', 'sqlite3'))])"
    )
    import sys

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "[]" == result.stdout.strip()
    assert "gcp" == MANIFEST.name


class Box:
    """A machine whose tools are small scripts over files: what the start-up script finds and does
    at a boot.
    """

    DOCKER = """#!/bin/bash
echo "$1" >> {home}/calls
case $1 in
  info) echo nvidia ;;
  inspect) cat {home}/image 2>/dev/null ;;
  run) echo "${{@: -1}}" > {home}/image ;;
  rm) rm -f {home}/image ;;
  wait) code=$(head -1 {home}/codes); [ -n "$code" ] || exit 1; sed -i 1d {home}/codes; echo "$code" ;;
esac
"""

    def __init__(self, home):
        self.home, self.tools = home, home / "tools"
        self.tools.mkdir()
        tools = {
            "docker": self.DOCKER.format(home=home),
            "systemctl": f"#!/bin/bash\ncat {home}/system\n",
            "systemd-run": '#!/bin/bash\nwhile [ "$1" != bash ]; do shift; done\nexec "$@"\n',
            **dict.fromkeys(("nvidia-ctk", "nvidia-smi", "sleep"), "#!/bin/bash\n"),
        }
        for name, text in tools.items():
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)

    def boot(self, image, *codes, system="running"):
        """Which docker calls a boot makes; `codes` are how the container ends while the machine is
        up, or as it goes down.
        """
        (self.home / "codes").write_text("".join(f"{code}\n" for code in codes))
        (self.home / "system").write_text(system)
        (self.home / "calls").write_text("")
        script = machine_metadata.start_up_script(image).replace(
            "/var/lib/gpus", str(self.home / "state")
        )
        env = {"PATH": f"{self.tools}:/usr/bin:/bin"}
        done = subprocess.run(
            ["bash", "-c", script], env=env, capture_output=True, text=True, timeout=20
        )
        assert 0 == done.returncode, done.stderr
        return [
            call
            for call in (self.home / "calls").read_text().split()
            if call in {"run", "start", "rm"}
        ]


def test_b32_a_finished_container_is_not_run_again_at_the_next_boot(tmp_path):
    """Ended with 0: the next boot leaves it alone. Failed, or gone down with the machine: it is
    started. Another image: run anew.
    """
    box = Box(tmp_path)
    assert ["rm", "run"] == box.boot("job:1")
    assert ["start"] == box.boot("job:1", 0, system="stopping")
    assert ["start"] == box.boot("job:1", 1, 137)
    assert ["start"] == box.boot("job:1", 1, 0)
    assert [] == box.boot("job:1") == box.boot("job:1")
    assert ["rm", "run"] == box.boot("job:2")
    assert ["start"] == box.boot("job:2")
    assert "--restart on-failure" in machine_metadata.start_up_script("job:1")
