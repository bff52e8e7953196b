"""Volumes: what is declared and refused, what they cost, and where a cluster that mounts one can be
placed.
"""

import pytest

from providers.adapters import registry
from providers.catalog import volumes as prices
from providers.engine import validate, volume_spec, volumes
from providers.engine.market.planning import plan
from providers.engine.record import ClusterRecord
from providers.errors import SpecError
from providers.model.placement import Placement
from providers.model.spec import read_cluster
from providers.model.volume import VolumeSpec
from providers.planner import render
from providers.plugin import diff
from providers.plugin.volume import told

DISK = {"provider": "gcp", "place": "us-central1-a", "size_gib": 200, "type": "pd-balanced"}


def declared(gpu="L4", volume=DISK, use="/mnt/data", **more):
    entry = {
        "gpu": gpu,
        "kind": "job",
        "workload": {"command": "python3 t.py", "volumes": {"data": use}},
        **more,
    }
    return read_cluster("train", volume_spec.mounted(entry, {"data": volume}))


def wrong(**fields):
    raw = {**DISK, **fields}
    found = volume_spec.declared({"data": {k: v for k, v in raw.items() if v is not None}})[1]
    return " | ".join(map(str, found))


def test_a_volume_has_a_provider_a_zone_with_gpus_and_a_size_of_its_type() -> None:
    assert volume_spec.declared({"data": DISK}) == ({"data": DISK}, [])
    assert volume_spec.declared(None) == ({}, [])
    bare = {key: DISK[key] for key in ("provider", "place", "size_gib")}
    assert volume_spec.declared({"data": bare})[0]["data"]["type"] == "pd-balanced"
    assert "gpus:volumes.data.provider: wanted one of" in wrong(provider="clore")
    assert "near: us-central1-a" in wrong(place="us-central-a")
    assert "data.place: wanted a zone where gcp has GPUs" in wrong(place=None)
    assert "data.size_gib: wanted 10 to 65,536 for pd-balanced, found 5" in wrong(size_gib=5)
    assert "data.size_gib" in wrong(size_gib=None) and "data.size_gib" in wrong(size_gib=True)
    assert "data.type: wanted one of pd-balanced, pd-ssd" in wrong(type="gp3")
    assert "data.delete_data: wanted true or false" in wrong(delete_data="yes")
    assert "data.sice_gib: wanted one of" in wrong(sice_gib=3)
    assert "gpus:volumes.Data: wanted a name of" in str(volume_spec.declared({"Data": DISK})[1][0])
    assert "wanted a mapping such as" in str(volume_spec.declared({"data": "gcp"})[1][0])
    assert "gpus:volumes: wanted volumes by name" in str(volume_spec.declared([1])[1][0])


def test_a_volume_of_modal_has_neither_size_nor_place() -> None:
    """It costs by what is stored, and only Modal's machines mount it."""
    assert volume_spec.declared({"data": {"provider": "modal"}})[1] == []
    said = wrong(provider="modal")
    assert "data.place: wanted nothing" in said and "data.size_gib: wanted nothing" in said
    (problem,) = volume_spec.declared({"d" * 34: {"provider": "modal"}})[1]
    assert "at most 33 characters" in str(problem)
    assert told({"volume": "data", "provider": "modal"}).startswith(
        "data: at modal, size unknown, $0.09 a GiB and month of what is stored beyond 1,024 GiB"
    )
    made = plan(declared(volume={"provider": "modal"}).ask(), use_journal=False)
    assert {each.provider for each in made.candidates} == {"modal"}


def test_a_price_has_a_source_and_where_none_is_known_it_is_not_zero() -> None:
    disk = VolumeSpec("a", "gcp", "us-central1-a", 500, "pd-balanced", "us-central1")
    assert prices.words(disk).startswith("$50.00/month (as of 2025-03-06, ")
    hyper = disk._replace(type="hyperdisk-balanced")
    assert prices.words(hyper).startswith("$40.00/month")
    assert prices.words(hyper._replace(region="us-west4")) == "price unknown"
    assert prices.price(disk._replace(region="atlantis")) is None
    shown = told({"volume": "data", **DISK})
    assert shown.startswith("data: 200 GiB pd-balanced at gcp us-central1-a, $20.00/month")


def test_a_cluster_is_placed_where_its_volumes_are_and_nowhere_else() -> None:
    """Every candidate is in the zone; the others are refused with the reason."""
    made = plan(declared(providers=["gcp", "aws", "modal"]).ask(), use_journal=False)
    assert made.candidates
    assert {(each.provider, each.zone) for each in made.candidates} == {("gcp", "us-central1-a")}
    assert made.rejected_by_rule["volume"] > 100
    found = {each.found for each in made.rejections if each.rule == "volume"}
    assert "its volume data is at gcp us-central1-a" in found
    assert "its volume data is in us-central1-a" in found
    assert "volume" in render.as_text(made, 200)


def test_a_machine_type_that_takes_no_such_disk_is_refused() -> None:
    """G2 machines have no Hyperdisk to write to, A3 machines have."""
    hyper = {**DISK, "type": "hyperdisk-balanced"}
    made = plan(declared(volume=hyper, providers=["gcp"]).ask(), use_journal=False)
    assert not made.candidates
    found = {each.found for each in made.rejections if each.rule == "volume"}
    assert (
        "g2-standard-8 takes no hyperdisk-balanced, which its volume data is: it takes pd-balanced,"
        " pd-ssd" in found
    )
    large = plan(declared("H100:8", hyper).ask(), use_journal=False)
    assert {each.zone for each in large.candidates} == {"us-central1-a"}


def test_a_disk_is_written_to_by_one_machine_and_read_by_several() -> None:
    manifests = registry.manifests()
    several = declared(nodes=2)
    (problem,) = validate.problems(several, manifests)
    assert problem.path == "workload.volumes.data" and "under mounts:" in str(problem)
    reading = declared(nodes=2, use={"path": "/mnt/data", "mode": "ro"})
    assert validate.problems(reading, manifests) == []
    hyper = {**DISK, "type": "hyperdisk-balanced"}
    (problem,) = validate.problems(
        declared(nodes=2, volume=hyper, use={"path": "/mnt/data", "mode": "ro"}), manifests
    )
    assert "can't be mounted by several" in str(problem)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"volumes": {"other": "/mnt/x"}}, "wanted a volume of this stack, found nothing"),
        ({"volumes": {"data": "/etc"}}, "a folder that the system does not need"),
        ({"volumes": {"data": "mnt"}}, "a folder from the root"),
        ({"volumes": {"data": "/a/b"}, "mounts": {"/a": "gs://b/c"}}, "none is inside another"),
        ({"volumes": {"data": {"path": "/a", "mode": "wr"}}}, "ro or rw"),
        ({"volumes": "/mnt"}, "paths by the volume's name"),
    ],
)
def test_a_mount_that_cannot_be_is_refused_where_it_stands(workload, said) -> None:
    entry = {"gpu": "L4", "kind": "job", "workload": {"command": "x", **workload}}
    with pytest.raises(SpecError) as caught:
        read_cluster("train", volume_spec.mounted(entry, {"data": DISK}))
    assert said in str(caught.value)


def record():
    where = Placement("gcp", "us-central1", "us-central1-a", "g2-standard-8", "L4", 1, 1)
    return ClusterRecord("live", "o", "train", "g", "f", "running", where)


def test_other_volumes_need_a_new_machine_and_the_same_ones_none() -> None:
    old = declared().model_dump(mode="json", exclude_unset=True)
    moved = declared(use="/mnt/other").model_dump(mode="json", exclude_unset=True)
    verdict = diff.cluster(old, moved, record(), lambda: True, frozenset())
    assert verdict.replaces and "other volumes need a new machine" in verdict.reason
    assert not diff.cluster(old, dict(old), record(), lambda: True, frozenset()).replaces


def test_a_volume_grows_and_neither_shrinks_nor_moves() -> None:
    there = VolumeSpec("data", "gcp", "us-central1-a", 200, "pd-balanced")
    volumes.refuse(there, there._replace(size_gib=300))
    for change, said in (
        ({"size_gib": 100}, "never shrunk"),
        ({"place": "us-central1-b"}, "copy the data"),
        ({"type": "pd-ssd"}, "copy the data"),
    ):
        with pytest.raises(SpecError) as caught:
            volumes.refuse(there, there._replace(**change))
        assert said in str(caught.value)
