"""The body of Compute Engine's creating call: machine, disks, network, labels, options.
No network.
"""

import functools
import json
import subprocess
from pathlib import Path

import pytest

from providers.adapters.gcp import CAPABILITIES, MANIFEST, grouping, machines
from providers.adapters.gcp import compile as native
from providers.adapters.gcp.options import IMAGE_FAMILY, problems
from providers.errors import Unsupported
from tests.unit.gcp.compile_rig import candidate, order, properties


@functools.cache
def schemas():
    import googleapiclient

    path = Path(googleapiclient.__file__).parent / "discovery_cache/documents/compute.v1.json"
    return json.loads(path.read_text())["schemas"]


def conforms(schema, value, path="body") -> None:
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
def test_every_body_conforms_to_the_discovery_document(given) -> None:
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
def test_b10_every_gpu_machine_terminates_on_host_maintenance(machine_type, capacity) -> None:
    """Whether the GPU is attached or built in, a GPU machine is never to be live-migrated."""
    if capacity in machines.family(machine_type).never:
        pytest.skip("not sold")
    call = native.creating_call(
        order(candidate(machine_type=machine_type, capacity=capacity, reservation="mine"))
    )
    body = call.body if call.method == grouping.INSERT else call.body["instanceProperties"]
    assert body["scheduling"]["onHostMaintenance"] == "TERMINATE"


def test_b10_guest_accelerators_only_where_the_gpu_is_attached() -> None:
    """N1 gets its T4 as a guest accelerator, by bare name; A2 and G2 bring theirs."""
    attached = properties(candidate(machine_type="n1-standard-8"))
    assert attached["guestAccelerators"] == [
        {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}
    ]
    assert attached["machineType"] == "n1-standard-8"
    for machine_type in ("a2-highgpu-8g", "g2-standard-4", "a3-highgpu-8g"):
        assert "guestAccelerators" not in properties(candidate(machine_type=machine_type))


@pytest.mark.parametrize(
    ("machine_type", "asked", "expected"),
    [
        ("a3-highgpu-8g", "hyperdisk-balanced", "hyperdisk-balanced"),
        ("g2-standard-4", "hyperdisk-balanced", "pd-balanced"),
        ("n1-standard-8", "pd-standard", "pd-standard"),
    ],
)
def test_the_boot_disk_is_one_that_the_family_takes(machine_type, asked, expected) -> None:
    """A disk type applies where the family has it; elsewhere the family's default stands."""
    disk = properties(candidate(machine_type=machine_type), options=(("boot_disk_type", asked),))[
        "disks"
    ][0]
    assert expected == disk["initializeParams"]["diskType"]
    assert disk["autoDelete"]


def test_the_boot_disk_has_the_asked_size_and_the_default_image() -> None:
    """disk_gib is the boot disk's size, 100 GiB by default, with a Deep Learning image."""
    assert properties()["disks"][0]["initializeParams"]["diskSizeGb"] == "100"
    assert properties(disk_gib=500)["disks"][0]["initializeParams"]["diskSizeGb"] == "500"
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
def test_the_image_can_be_named(options, expected) -> None:
    """One image, or the newest of a family, in its project."""
    assert (
        expected
        == properties(options=tuple(options.items()))["disks"][0]["initializeParams"]["sourceImage"]
    )


def test_local_ssds_are_added_where_the_machine_takes_them() -> None:
    """A2 Standard and N1 take them; A3 brings its own; G2 takes no more than its GPUs."""
    extra = (("local_ssd_count", 2),)
    disks = properties(candidate(machine_type="a2-highgpu-8g"), options=extra)["disks"]
    assert (
        disks[1:]
        == [
            {
                "type": "SCRATCH",
                "autoDelete": True,
                "interface": "NVME",
                "initializeParams": {"diskType": "local-ssd"},
            }
        ]
        * 2
    )
    assert len(properties(candidate(machine_type="a3-highgpu-8g"), options=extra)["disks"]) == 1
    with pytest.raises(Unsupported, match="at most 1 local SSD"):
        properties(candidate(machine_type="g2-standard-4"), options=extra)


def test_gvnic_from_a2_on() -> None:
    """The fast network interface is asked for wherever the family has it."""
    assert properties()["networkInterfaces"][0]["nicType"] == "GVNIC"
    assert (
        "nicType" not in properties(candidate(machine_type="n1-standard-8"))["networkInterfaces"][0]
    )


def test_the_network_is_the_default_one_or_the_wired_one() -> None:
    """Without wiring the default network with an outside address; with it, the region's own
    subnetwork, free of any host name.
    """
    plain = properties()["networkInterfaces"][0]
    assert (
        plain["network"],
        plain["accessConfigs"][0]["type"],
    ) == ("global/networks/default", "ONE_TO_ONE_NAT")
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
    assert interface["network"] == "projects/p/global/networks/n"
    assert interface["subnetwork"] == "projects/p/regions/us-central1/subnetworks/s"
    assert "accessConfigs" not in interface
    assert wired["tags"]["items"] == ["gpus", "gpus-train", "gpus-ssh", "gpus-in"]


def test_labels_say_whose_it_is_and_cannot_be_overridden() -> None:
    """The user's labels stand beside our four, which win."""
    labels = properties(labels=(("team", "ml"), ("gpus-owner", "someone")))["labels"]
    assert labels == {
        "team": "ml",
        "gpus-owner": "own1",
        "gpus-cluster": "train",
        "gpus-generation": "gen1",
        "gpus-fingerprint": "0123456789abcdef",
    }


@pytest.mark.parametrize(
    ("section", "paths"),
    [
        ({}, []),
        (
            {
                "image": "x",
                "image_project": "my-project",
                "tags": ["a"],
                "external_ip": False,
                "local_ssd_count": 1.0,
            },
            [],
        ),
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
def test_options_are_checked_all_at_once(section, paths) -> None:
    """Every problem of the section, each with its path."""
    assert paths == [problem.path for problem in problems(section)]


def test_an_unknown_option_names_the_near_one() -> None:
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
def test_families_that_the_adapter_cannot_order_are_declared(machine_type, sold) -> None:
    """The planner refuses by this list what the adapter does not know how to order."""
    assert sold == CAPABILITIES.orders(machine_type)


def test_the_manifest_loads_without_google_s_client() -> None:
    """Importing the folder imports no SDK, no asyncio and no dataclasses."""
    code = (
        "import sys, providers.adapters.gcp as g; g.MANIFEST; print([m for m in sys.modules if"
        " m.startswith(('google', 'httplib2', 'asyncio', 'dataclasses', 'sqlite3'))])"
    )
    import sys

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
    assert MANIFEST.name == "gcp"
