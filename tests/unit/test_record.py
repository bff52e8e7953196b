"""What a journal and a state have of a cluster is read for good, and written as it was."""

import json

from providers.engine.record import ClusterRecord
from providers.model.machine import Handle
from providers.model.placement import Placement, Price

RUNNING = """{
  "world": "live", "owner": "0123456789ab", "cluster": "train", "generation": "ba9876543210",
  "fingerprint": "0123456789abcdef", "status": "running", "provider": "gcp",
  "region": "us-central1", "zone": "us-central1-a", "machine_type": "a3-highgpu-8g",
  "gpu_type": "H100", "gpu_count": 8, "nodes": 1, "capacity": "spot", "reservation": "",
  "micro_usd": 10210001, "price_as_of": "2026-07-30", "price_source": "a list",
  "handles": [["gcp", "projects/p/zones/us-central1-a/instances/train-0a1b-0"]],
  "machines": [{
    "handle": ["gcp", "projects/p/zones/us-central1-a/instances/train-0a1b-0"],
    "name": "train-0a1b-0", "status": "running",
    "mark": ["0123456789ab", "train", "ba9876543210", "0123456789abcdef"],
    "region": "us-central1", "zone": "us-central1-a", "machine_type": "a3-highgpu-8g",
    "gpu_type": "H100", "gpu_count": 8, "capacity": "spot", "internal_ip": "10.0.0.2",
    "external_ip": "192.0.2.1", "created_at": 1800000000.0, "detail": "", "ports": [],
    "ssh_user": "", "login": "", "url": "", "contradiction": "", "drift": "",
    "kind": "machine", "ended": false
  }],
  "attempts": [{
    "number": 1, "provider": "gcp", "region": "us-central1", "zones": ["us-central1-a"],
    "machine_types": ["a3-highgpu-8g"], "gpu": "H100:8", "capacity": "spot",
    "micro_usd": 10210001, "outcome": "acquired", "code": "", "message": "",
    "started_at": 0.0, "seconds": 0.0
  }],
  "launched_at": 1800000000.0, "ends_at": 1800072000.0, "entry": 1, "reasons": [],
  "leftovers": [], "applied": [["labels", ""], ["ttl", "0123456789ab"]],
  "account": {"project": "p"}, "kind": "machine", "detail": "", "bought": [],
  "to_release": false
}"""
UNSETTLED = """{
  "world": "rehearsal", "owner": "ba9876543210", "cluster": "block",
  "generation": "0a1b2c3d4e5f", "fingerprint": "fedcba9876543210", "status": "unsettled",
  "provider": "aws", "region": "us-east-1", "zone": "", "machine_type": "p5.48xlarge",
  "gpu_type": "unknown", "gpu_count": 4, "nodes": 2, "capacity": "reservation",
  "reservation": "cr-1", "micro_usd": null, "price_as_of": "", "price_source": "",
  "handles": [["aws", "us-east-1/i-0123"]], "machines": [], "attempts": [],
  "launched_at": 0.0, "ends_at": 0.0, "entry": 0, "reasons": ["half-made"],
  "leftovers": [["aws", "us-east-1/i-0123"]], "applied": [], "account": null, "kind": "job",
  "detail": "d",
  "bought": [["gpu_count", 8], ["gpu_type", "H100"], ["micro_usd", 98000000],
             ["price_as_of", "2026-07-30"], ["price_source", "a list"]],
  "to_release": true
}"""
"""Two rows as journals of the first users have them: place and price are flat there."""


def test_flat_rows_of_a_journal_are_read_whole() -> None:
    """Nothing of where, what and for how much is lost; an unknown price stays unknown."""
    first = ClusterRecord.from_dict(json.loads(RUNNING))
    assert first.placement == Placement(
        *("gcp", "us-central1", "us-central1-a", "a3-highgpu-8g", "H100", 8, 1, "spot")
    )
    assert first.price == Price(10_210_001, "2026-07-30", "a list")
    assert (first.entry, first.machines[0].handle) == (1, first.handles[0])
    second = ClusterRecord.from_dict(json.loads(UNSETTLED))
    assert second.placement == Placement(
        *("aws", "us-east-1", "", "p5.48xlarge", "unknown", 4, 2, "reservation", "cr-1")
    )
    assert second.price == Price(None)
    assert second.leftovers == (Handle("aws", "us-east-1/i-0123"),)


def test_a_record_is_written_as_earlier_versions_read_it() -> None:
    """The same keys with the same values: an older version finds all that it knows."""
    for row in (RUNNING, UNSETTLED):
        raw = json.loads(row)
        assert ClusterRecord.from_dict(raw).to_dict() == raw


def test_whole_floats_are_read_as_integers() -> None:
    """Pulumi's wire knows only floats."""
    raw = json.loads(RUNNING) | {"gpu_count": 8.0, "nodes": 1.0, "micro_usd": 10_210_001.0}
    record = ClusterRecord.from_dict(raw)
    assert record.placement.gpu == "H100:8"
    assert [type(value) for value in (record.placement.nodes, record.price.micro_usd)] == [int, int]
