"""What happens in the program: the parts that need no engine."""

import asyncio
import contextvars
from typing import cast

import pulumi
import pytest
from pulumi.runtime.config import set_all_config

from providers.adapters.gcp.network import subnets
from providers.model.spec import Fallback, Gpu
from providers.resources import GpuVolume, cluster, config, program, stack


def test_subnets_do_not_overlap_and_do_not_move() -> None:
    """Each region has its own /20, the same whatever other regions are listed."""
    some = subnets(["us-central1", "us-east4"])
    more = subnets(["europe-west4", "us-east4", "us-central1", *(f"region-{n}" for n in range(60))])
    assert some.items() <= more.items()
    assert len(set(more.values())) == len(more)
    assert all(block.startswith("10.") and block.endswith("/20") for block in more.values())


def test_models_are_passed_as_what_was_set() -> None:
    """`Gpu` and `Fallback` become plain mappings without defaults."""
    assert cluster.plain([Gpu("H100", count=8), Fallback(gpu="L4:1", spot="only"), "x"]) == [
        {"type": "H100", "count": 8},
        {"gpu": "L4:1", "spot": "only"},
        "x",
    ]


class Recorded(pulumi.runtime.Mocks):
    """An engine that makes everything, and what it was asked for."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, object]] = {}
        self.called: list[str] = []

    def new_resource(self, args):
        self.made[args.name] = dict(args.inputs)
        return args.name, {**args.inputs, "owner_id": "0123456789ab"}

    def call(self, args):
        self.called.append(args.token)
        return {}


def run(recorded, declared, *, preview=False):
    """Runs a program in an engine of its own."""
    loop = asyncio.new_event_loop()

    def begun():
        pulumi.runtime.set_mocks(recorded, preview=preview)
        pulumi.runtime.test(declared)()

    asyncio.set_event_loop(loop)
    try:
        contextvars.copy_context().run(begun)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@pytest.fixture
def loop():
    """Pulumi's mocks take the thread's event loop, which another test may have ended."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    asyncio.set_event_loop(None)
    made.close()


@pytest.mark.usefixtures("loop")
def test_a_program_mounts_its_volume_where_that_stands() -> None:
    """The cluster's inputs say which volume it is; the user wrote its name and a path."""
    recorded = Recorded()

    def declared():
        data = GpuVolume("data", provider="gcp", place="us-central1-a", size_gib=200)
        made = cluster.GpuCluster(
            "train",
            gpu="L4",
            kind="job",
            workload={"command": "python3 t.py", "volumes": {"data": "/mnt/data"}},
            volumes=[data],
        )
        return made.urn

    run(recorded, declared)
    volume, train = recorded.made["data"], recorded.made["train"]
    assert (volume["volume"], volume["owner"], volume["size_gib"]) == ("data", "0123456789ab", 200)
    where = {"provider": "gcp", "place": "us-central1-a", "type": "pd-balanced"}
    assert train["workload"] == {
        "command": "python3 t.py",
        "volumes": {"data": {"path": "/mnt/data", **where}},
    }


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize(("preview", "reads", "asked"), [(1, 0, 1), (0, 0, 0), (0, 1, 1)])
def test_an_up_asks_the_markets_for_a_plan_only_where_it_is_read(preview, reads, asked) -> None:
    """A preview shows it; an `up` has bought by one of its own."""
    recorded = Recorded()

    def declared():
        made = cluster.GpuCluster("train", gpu="L4")
        return [made.plan] if reads else [made.urn]

    run(recorded, declared, preview=bool(preview))
    assert recorded.called.count("gpu:index:plan") == asked


def key(text):
    """The public key of a cluster that declares this."""
    return config.with_files("train", {"ssh_key": text})["ssh_key"]


def test_a_key_file_is_read(tmp_path, monkeypatch) -> None:
    """A path of a .pub file is replaced by its content; a key is left alone; a missing file is one
    line.
    """
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAA me\n")
    assert key(str(tmp_path / "id.pub")) == "ssh-ed25519 AAAA me"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert key("~/id.pub") == "ssh-ed25519 AAAA me"
    assert key("ssh-ed25519 AAAA me@x.pub") == "ssh-ed25519 AAAA me@x.pub"
    with pytest.raises(pulumi.RunError, match=r"train\.ssh_key: wanted a readable public key file"):
        key(str(tmp_path / "none.pub"))
    with pytest.raises(pulumi.RunError, match=r"train\.ssh_key: wanted a readable public key file"):
        key("~nouser/x.pub")


def test_live_takes_the_project_from_the_environment(monkeypatch) -> None:
    """A rehearsal does not: what it makes must not depend on whose shell it is."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "mine")
    assert config.account_settings("live") == {"gcp": {"project": "mine"}}
    assert config.account_settings("rehearsal") == {}


def test_an_interrupt_ends_only_pulumis_own_runner(monkeypatch) -> None:
    """The quiet end is for Pulumi's runner; a host of another kind keeps its own way with Ctrl-C."""
    import signal
    import sys

    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        program.end_quietly()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        monkeypatch.setattr(
            sys, "orig_argv", ["python", "-u", "/x/pulumi-language-python-exec", "--monitor", "y"]
        )
        program.end_quietly()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


class Config:
    """A stack's configuration with this text under every key."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get(self, _key: str) -> str:
        return self.text


@pytest.mark.parametrize(
    "text",
    [
        "[" * 3_000 + "]" * 3_000,
        '{"a":' * 3_000 + "1" + "}" * 3_000,
        '{"a": ' + "[" * 60 + "]" * 60 + "}",
        "[" * 100_000,
    ],
)
def test_clusters_nested_too_deep_are_one_message(text) -> None:
    """However deep: Pulumi itself hands on three thousand levels."""
    with pytest.raises(
        pulumi.RunError, match="wanted at most 50 levels of lists and mappings, found more"
    ):
        config.clusters_of(cast("pulumi.Config", Config(text)))


@pytest.mark.parametrize("text", ["{x", "x" * 5_000, "[1]", "1e99999", "9" * 5_000])
def test_clusters_that_are_no_map_are_shown_in_short(text) -> None:
    """A text, a list, a number of any length."""
    with pytest.raises(pulumi.RunError, match="wanted a map of clusters by name") as caught:
        config.clusters_of(cast("pulumi.Config", Config(text)))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        ({}, "gpus:world: wanted rehearsal or live, found nothing"),
        ({"gpus:world": "dream"}, "gpus:world: wanted rehearsal or live, found 'dream'"),
        ({"gpus:wurld": "rehearsal"}, "found 'gpus:wurld'; near: gpus:world"),
        ({"gpus:world": "rehearsal"}, "gpus:clusters: wanted a map of clusters .*, found nothing"),
        ({"gpus:world": "rehearsal", "gpus:clusters": '["train"]'}, "found a list"),
    ],
)
def test_a_wrong_configuration_is_told_before_anything_is_declared(configuration, words) -> None:
    """Each with its key; the stack's program ends by it."""

    def program() -> None:
        set_all_config(configuration, [])
        stack.declare()

    with pytest.raises(pulumi.RunError, match=words):
        contextvars.copy_context().run(program)
