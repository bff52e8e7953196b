"""Buckets as folders of a machine: what is declared, where it is possible, and the start-up script,
which really mounts here. The tools are played by a bind mount of a folder that stands for the
bucket.
"""

import os
import time
from pathlib import Path

import pytest

from providers.adapters import registry
from providers.adapters.modal.buckets import bucket_mounts, problems
from providers.engine import validate
from providers.engine.market.planning import plan
from providers.errors import SpecError
from providers.model.machine import Setup
from providers.model.spec import read_cluster
from providers.model.workload import Mount, Program
from providers.planner import render
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import script
from tests.launchers.machines import Machine, job

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
KEYS = {
    name: {"gcp": "projects/p/secrets/k", "modal": "store"}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
}

IMAGE = {"workload": {"image": "python:3.12"}}


def declared(mounts, **more):
    workload = {"command": "python3 t.py", "mounts": mounts, **more.pop("workload", {})}
    return read_cluster("a", {"gpu": "L4:1", "kind": "job", "workload": workload, **more})


class Store:
    """A folder of buckets, and a machine whose tools mount them for real."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine, self.folder = machine, folder
        (folder / "data" / "set").mkdir(parents=True)
        (folder / "data" / "set" / "one").write_text("row\n")
        for tool in ("gcsfuse", "mount-s3"):
            machine.tool(
                tool,
                f'echo "{tool} $*" >>"$HOME/calls"\nbucket="${{@: -2:1}}" prefix=""\n'
                'while [ $# -gt 2 ]; do case "$1" in --only-dir | --prefix) prefix=$2 ;; esac\n'
                f'shift; done\n[ -d "{folder}/$bucket" ] || {{ echo "no bucket $bucket"; exit 1; }}\n'
                f'mount --bind "{folder}/$bucket/$prefix" "$2"',
            )

    def at(self, name: str) -> str:
        return str(self.machine.folder / name)

    def calls(self) -> list[str]:
        return Path(self.at("calls")).read_text().splitlines()

    def mounted(self) -> list[str]:
        own = f"{self.machine.folder}/"
        entries = Path("/proc/self/mounts").read_text().splitlines()
        return sorted(
            path for path in (each.split()[1] for each in entries) if path.startswith(own)
        )


@pytest.fixture
def store(machine, tmp_path):
    made = Store(machine, tmp_path / "buckets")
    yield made
    machine.end()
    assert made.mounted() == []


@needs_root
def test_a_bucket_is_a_folder_while_the_program_runs(store) -> None:
    """The command reads and writes it; afterwards nothing is mounted, whatever the exit code."""
    data, out = store.at("in"), store.at("out")
    mounts = (Mount(data, "gs://data/set"), Mount(out, "s3://data/set/", writable=True))
    made = job(f"cat {data}/one && echo done >{out}/two && exit 3", mounts=mounts)
    assert store.machine.run(script(made)) == 3
    assert "row" in store.machine.log
    assert (store.folder / "data" / "set" / "two").read_text() == "done\n"
    assert store.mounted() == []
    assert store.calls() == [
        f"gcsfuse --implicit-dirs -o allow_other --only-dir set -o ro data {data}",
        "mount-s3 --allow-other --dir-mode 777 --file-mode 666 --allow-delete --allow-overwrite"
        f" --prefix set/ data {out}",
    ]


@needs_root
def test_a_mount_that_an_edit_removed_is_unmounted(store) -> None:
    """The program that gives way unmounts, and one that was killed is cleaned up after: by another
    with fewer mounts as by one with none.
    """
    data, more = Mount(store.at("in"), "s3://data"), Mount(store.at("more"), "s3://data/set")
    store.machine.begin(script(job("sleep 300", mounts=(data, more))))
    store.machine.until("running")
    assert store.mounted() == [data.path, more.path]
    fewer = store.machine.begin(script(job("echo fewer; sleep 300", mounts=(data,))))
    while "fewer" not in store.machine.log:
        assert fewer.poll() is None, store.machine.log
        time.sleep(0.05)
    assert store.mounted() == [data.path]
    store.machine.power_off()
    assert store.mounted() == [data.path]
    assert store.machine.run(script(job("true"))) == 0
    assert store.mounted() == []


@needs_root
def test_a_bucket_that_cannot_be_mounted_ends_the_program_before_its_command(store) -> None:
    """It says which, where and what to look at; what was mounted already is unmounted."""
    store.machine.tool("sleep", "")
    mounts = (
        Mount(store.at("in"), "gs://data"),
        Mount(store.at("off"), "gs://none", writable=True),
    )
    assert store.machine.run(script(job("touch $HOME/never", mounts=mounts))) == 1
    assert store.machine.words[-1] == (
        f"setup-wrong 1 gs://none could not be mounted at {store.at('off')}: is it there, and may"
        " this machine read and write it? see the log"
    )
    assert "no bucket none" in store.machine.log
    assert not (store.machine.folder / "never").exists()
    assert store.mounted() == []


def test_a_container_sees_the_mounts_as_they_are_declared() -> None:
    """Both are handed to it, in their modes; a model that lies in one is not handed over again."""
    workload = {"launcher": "vllm", "model": "/models/llama", "image": "vllm", "port": 8000}
    spec = declared(
        {"/models": "gs://bucket/m", "/out": {"source": "gs://bucket/o", "mode": "rw"}},
        kind="service",
        workload={**workload, "command": ""},
    )
    assert spec.workload is not None
    made = program(spec.workload.record(), "service", "L4", 1)
    assert made.models == ()
    text = script(made)
    assert "\nmount_paths=(/models /out)\n" in text and "\nmount_modes=(ro rw)\n" in text


def test_without_mounts_a_program_is_the_one_it_was_before_there_were_any() -> None:
    """An upgrade starts nothing anew; a mount and its mode change the digest of what runs."""
    plain = Program("job", ())
    one = plain._replace(mounts=(Mount("/data", "gs://bucket"),))
    other = plain._replace(mounts=(Mount("/data", "gs://bucket", writable=True),))
    assert plain.digest == plain._replace(models=(), mounts=()).digest
    assert len({plain.digest, one.digest, other.digest}) == 3


@pytest.mark.parametrize(
    ("mounts", "path", "told"),
    [
        ({"data": "gs://bucket"}, "mounts.data", "a folder from the root"),
        ({"/data/../etc": "gs://bucket"}, "mounts./data/../etc", "without .."),
        ({"/usr/bin": "gs://bucket"}, "mounts./usr/bin", "a folder that the system does not need"),
        ({"/data": "ftp://bucket"}, "mounts./data", "gs://BUCKET/PATH or s3://BUCKET/PATH"),
        ({"/data": "volume:x"}, "mounts./data", "gs://BUCKET/PATH or s3://BUCKET/PATH"),
        ({"/data": {"source": "gs://bucket", "mode": "w"}}, "mounts./data.mode", "ro or rw"),
        ({"/d": "gs://bucket", "/d/e": "gs://bucket"}, "mounts", "none is inside another"),
        ({f"/d{n}": "gs://bucket" for n in range(17)}, "mounts", "at most 16"),
    ],
)
def test_a_wrong_mount_is_told_at_its_path(mounts, path, told) -> None:
    """Before anything is bought, with what was wanted."""
    with pytest.raises(SpecError) as caught:
        declared(mounts)
    assert f"workload.{path}" in {problem.path for problem in caught.value.problems}
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "mounts", "more", "why"),
    [
        ("gcp", {"/d": "gs://bucket"}, {}, ""),
        ("gcp", {"/d": "s3://bucket"}, {}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY under"),
        ("gcp", {"/d": "s3://bucket"}, {"secrets": KEYS}, ""),
        ("aws", {"/d": "s3://bucket"}, {}, ""),
        ("aws", {"/d": "gs://bucket"}, {}, "aws mounts no gs://; there: s3://"),
        ("vertex", {"/d": "gs://bucket"}, IMAGE, "write mode: rw for /d if it may be"),
        ("vertex", {"/d": {"source": "gs://bucket", "mode": "rw"}}, IMAGE, ""),
        ("modal", {"/d": "gs://bucket"}, {}, "GOOGLE_ACCESS_KEY_ID"),
        ("modal", {"/d": "s3://bucket"}, {"secrets": KEYS}, ""),
        ("clore", {"/d": "s3://bucket"}, {}, "clore mounts no s3://; there: no bucket"),
    ],
)
def test_a_place_that_cannot_mount_a_bucket_is_refused_by_the_rule_mount(
    provider, mounts, more, why
) -> None:
    """The refusal says what that provider mounts, or what is missing; the others stand."""
    spec = declared(mounts, gpu=["L4:1", "RTX-4090:1"], providers=[provider], **more)
    made = plan(spec.ask(), setup=spec.setup(), use_journal=False)
    refused = {each.found for each in made.rejections if each.rule == "mount"}
    assert (why == "") == (not refused), refused
    assert all(why in each for each in refused)


def test_a_bucket_of_another_cloud_is_said_to_cost_egress() -> None:
    """The plan says so at that place only, since that cloud bills what is read from there."""
    spec = declared({"/d": "s3://bucket"}, secrets=KEYS, providers=["gcp"])
    made = plan(spec.ask(), setup=spec.setup(), use_journal=False)
    text = " ".join(render.as_text(made).split())
    assert "s3://bucket: of another cloud, which bills each GB read from it as egress" in text


@pytest.mark.parametrize(
    ("provider", "source", "path", "told"),
    [
        ("gcp", "gs://bucket/x", "service_account", "roles/storage.objectViewer on gs://bucket/x"),
        ("aws", "s3://bucket/x", "instance_profile", "may list and get in s3://bucket/x"),
    ],
)
def test_a_machine_needs_an_identity_to_mount_a_bucket(provider, source, path, told) -> None:
    """The check names the option and the right that it needs."""
    spec = declared({"/d": source}, providers=[provider])
    (found,) = validate.problems(spec, registry.manifests())
    assert (found.path, told in found.todo) == (f"options.{provider}.{path}", True)


def test_modal_logs_in_to_a_mount_with_one_secret() -> None:
    """Both keys stand in one Modal secret; two are refused, and a prefix ends in a slash."""
    mount = ("/d/", "gs://bucket/x", False)
    keys = ("GOOGLE_ACCESS_KEY_ID", "GOOGLE_ACCESS_KEY_SECRET")
    setup = Setup(mounts=(mount,))
    assert problems(setup, [(name, "store") for name in keys]) == []
    (found,) = problems(setup, [(keys[0], "a"), (keys[1], "b")])
    assert "put both into one" in found.todo
    (made,) = bucket_mounts(setup)
    assert (made.path, made.bucket, made.prefix, made.read_only) == ("/d", "bucket", "x/", True)
    assert made.endpoint == "https://storage.googleapis.com"
