"""Generated declarations: mostly like real ones with hostile pieces in any place, some of them
plain junk. Owns the grammar of a spec for tests.
"""

from typing import Any

from hypothesis import strategies as st

from tests.hostile.words import JUNK, NUMBERS, TEXTS

Strategy = st.SearchStrategy[Any]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb someone"


def mostly(real: Strategy, hostile: Strategy = JUNK) -> Strategy:
    """Real nineteen times of twenty, so that whole specs are often right but for one place."""
    return st.integers(0, 19).flatmap(lambda chosen: hostile if chosen == 0 else real)


def fields(known: dict[str, Strategy], extra: Strategy = JUNK) -> Strategy:
    """A mapping of some of the known keys, now and then with a strange one."""
    return st.builds(
        lambda real, odd: {**real, **odd},
        st.fixed_dictionaries({}, optional=known),
        mostly(st.just({}), st.dictionaries(TEXTS, extra, max_size=1)),
    )


GPU = mostly(
    st.sampled_from(
        [
            "H100:8",
            "A100-80GB:8",
            "L4:1",
            "T4:4",
            "a100",
            "H100!:8",
            "RTX-4090:2",
            "A10:1",
            "H200:8",
            "h 100 : 8",
            "L4",
            "B200:8",
        ]
    ),
    TEXTS,
)
SPOT = mostly(st.sampled_from(["never", "prefer", "only"]))
CAPACITY = mostly(
    st.lists(
        st.sampled_from(["on-demand", "spot", "flex-start", "reservation(mine)"]),
        min_size=1,
        max_size=3,
        unique=True,
    ),
    st.lists(TEXTS, max_size=3),
)
DURATION = mostly(
    st.sampled_from(["20h", "15m", "1h30m", 600, 3600.0, "2d", "1w"]), st.one_of(TEXTS, NUMBERS)
)
FALLBACK = mostly(
    st.one_of(
        GPU,
        fields(
            {
                "gpu": GPU,
                "spot": SPOT,
                "capacity": CAPACITY,
                "nodes": mostly(st.just(2)),
                "ttl": DURATION,
                "wait": DURATION,
            }
        ),
    )
)
GPUS = mostly(
    st.one_of(
        GPU,
        st.lists(GPU, min_size=1, max_size=3),
        fields(
            {
                "type": GPU,
                "count": mostly(st.integers(1, 8)),
                "min_memory_gib": mostly(st.integers(8, 100)),
                "fallback": st.lists(FALLBACK, max_size=2),
            }
        ),
    )
)
GCP = fields(
    {
        "image": mostly(st.just("projects/p/global/images/i"), TEXTS),
        "image_family": mostly(st.just("common-cu124"), TEXTS),
        "image_project": mostly(st.just("ml-images"), TEXTS),
        "local_ssd_count": mostly(st.integers(0, 8), NUMBERS),
        "boot_disk_type": mostly(st.sampled_from(["pd-ssd", "hyperdisk-balanced"]), TEXTS),
        "service_account": mostly(st.just("me@p.iam.gserviceaccount.com"), TEXTS),
        "external_ip": mostly(st.booleans()),
        "network": mostly(st.just("default"), TEXTS),
        "subnetwork": mostly(st.just("mine"), TEXTS),
        "tags": mostly(st.just(["gpu"]), st.lists(TEXTS, max_size=3)),
        "fabric": mostly(
            st.just(
                {
                    "us-central1-b": {
                        "nics": [{"network": "host-#", "subnetwork": "host-#", "count": 2}]
                    }
                }
            ),
            st.dictionaries(TEXTS, JUNK, max_size=2),
        ),
    }
)
AWS = fields(
    {
        "subnets": mostly(
            st.just({"use1-az1": "subnet-0123456789abcdef0"}),
            st.dictionaries(TEXTS, TEXTS, max_size=2),
        ),
        "security_group": mostly(
            st.just("sg-0123456789abcdef0"), st.one_of(TEXTS, st.lists(TEXTS, max_size=6))
        ),
        "key_name": mostly(st.just("mine"), TEXTS),
        "instance_profile": mostly(st.just("gpu"), TEXTS),
        "ami": mostly(st.just("ami-0123456789abcdef0"), TEXTS),
        "ami_ssm_parameter": mostly(st.just("/mine/{architecture}"), TEXTS),
        "volume_type": mostly(st.sampled_from(["gp3", "io2"]), TEXTS),
        "volume_iops": mostly(st.just(3_000), NUMBERS),
        "volume_throughput": mostly(st.just(250), NUMBERS),
        "placement_group": mostly(st.sampled_from(["none", "mine"]), TEXTS),
        "efa": mostly(st.booleans()),
    }
)
MODAL = fields(
    {
        "image": mostly(st.just("nvidia/cuda:12.8.1-devel-ubuntu24.04"), TEXTS),
        "add_python": mostly(st.just("3.11"), TEXTS),
        "python": mostly(st.just("3.11"), st.one_of(TEXTS, NUMBERS)),
        "pip": mostly(st.just(["torch"]), st.lists(TEXTS, max_size=3)),
        "command": mostly(
            st.sampled_from(["python train.py", ["python", "x"]]),
            st.one_of(TEXTS, st.lists(TEXTS, max_size=3)),
        ),
        "cpu": mostly(st.just(4), NUMBERS),
        "memory_gib": mostly(st.just(16), NUMBERS),
        "secrets": mostly(st.just(["mine"]), st.lists(TEXTS, max_size=2)),
        "volumes": mostly(st.just({"/data": "mine"}), st.dictionaries(TEXTS, TEXTS, max_size=2)),
        "retries": mostly(st.integers(0, 3), NUMBERS),
        "timeout": DURATION,
        "port": mostly(st.just(8000), NUMBERS),
        "min_containers": mostly(st.integers(0, 2), NUMBERS),
        "max_containers": mostly(st.integers(1, 4), NUMBERS),
    }
)
CLORE = fields(
    {
        "reliability": mostly(st.just(0.9), st.one_of(NUMBERS, TEXTS)),
        "include_servers": mostly(st.just([1]), JUNK),
        "pay_with": mostly(st.just(["usd"]), JUNK),
        "image": mostly(st.just("cloreai/ubuntu22.04-cuda12"), TEXTS),
        "command": mostly(st.just("sleep 1"), TEXTS),
        "env": mostly(st.just({"A": "b"}), st.dictionaries(TEXTS, TEXTS, max_size=3)),
        "trust_marketplace": mostly(st.booleans()),
        "start_deadline": DURATION,
        "jupyter": mostly(st.booleans()),
    }
)
SPEC = fields(
    {
        "gpu": GPUS,
        "kind": mostly(st.sampled_from(["machine", "machine", "job", "service"])),
        "nodes": mostly(st.integers(1, 3), NUMBERS),
        "fallback": mostly(st.lists(FALLBACK, min_size=1, max_size=3)),
        "spot": SPOT,
        "capacity": CAPACITY,
        "providers": mostly(
            st.lists(
                st.sampled_from(["gcp", "aws", "modal", "clore"]),
                min_size=1,
                max_size=4,
                unique=True,
            ),
            st.lists(TEXTS, max_size=3),
        ),
        "regions": mostly(
            st.lists(
                st.sampled_from(["us-central1", "us-east-1", "europe-west4"]),
                min_size=1,
                max_size=3,
                unique=True,
            ),
            st.lists(TEXTS),
        ),
        "rank": mostly(
            st.sampled_from(["preference", "price", "performance_per_dollar", "expected"])
        ),
        "max_price_per_hour": mostly(st.sampled_from([60, 1.5, 500]), NUMBERS),
        "prices": mostly(
            st.just({"overrides": [{"provider": "gcp", "price_usd_per_hour": 3.0}]}),
            fields(
                {
                    "overrides": st.lists(
                        fields(
                            {
                                "provider": TEXTS,
                                "price_usd_per_hour": NUMBERS,
                                "gpu": TEXTS,
                                "capacity": TEXTS,
                            }
                        ),
                        max_size=2,
                    )
                }
            ),
        ),
        "wait": DURATION,
        "ttl": DURATION,
        "on_ttl": mostly(st.sampled_from(["release", "keep"])),
        "disk_gib": mostly(st.just(200), NUMBERS),
        "ports": mostly(
            st.lists(st.integers(1, 65_535), max_size=3), st.lists(NUMBERS, max_size=3)
        ),
        "expose": mostly(st.sampled_from(["private", "public"])),
        "ssh_key": mostly(st.just(KEY), st.one_of(TEXTS, TEXTS.map(lambda text: f"{KEY} {text}"))),
        "labels": mostly(st.just({"team": "blue"}), st.dictionaries(TEXTS, TEXTS, max_size=3)),
        "network": mostly(st.sampled_from(["default", "managed"])),
        "options": mostly(
            fields(
                {
                    "gcp": mostly(GCP),
                    "aws": mostly(AWS),
                    "modal": mostly(MODAL),
                    "clore": mostly(CLORE),
                }
            )
        ),
        "triggers": mostly(
            st.fixed_dictionaries({}, optional={"rerun": mostly(st.just(1)), "reclaim": JUNK}), JUNK
        ),
        "state": mostly(st.sampled_from(["running", "stopped"])),
    }
)
ENTRY = st.one_of(SPEC, SPEC, SPEC, SPEC.map(lambda spec: {"gpu": "L4:1", **spec}), JUNK)
NAME = mostly(st.sampled_from(["train", "serve-l4", "x"]), TEXTS)
