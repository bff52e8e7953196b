"""The training program of the stacks: what of it needs no torch; and where torch is installed, all
of it by torchrun over two machines.
"""

import importlib.util
import random
import re
import shutil
import time
from pathlib import Path
from typing import Never

import pytest

from providers.model.workload import Checkpoint, Process, Program, Task, Workload, packed
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import script
from tests.launchers.machines import machines
from tests.present import present

pytestmark = pytest.mark.long

TRAIN = Path(__file__).parents[2] / "stacks" / "train.py"
TORCHRUN = shutil.which("torchrun")
SMALL = "--steps 400 --batch 2 --context 32 --width 64 --layers 1 --save-every 5"
CPU = (
    ("GLOO_SOCKET_IFNAME", "lo"),
    ("OMP_NUM_THREADS", "1"),
    ("PYTHONUNBUFFERED", "1"),
)


@pytest.fixture
def train():
    made = importlib.util.spec_from_file_location("train", TRAIN)
    module = importlib.util.module_from_spec(present(made))
    present(present(made).loader).exec_module(module)
    return module


def test_a_step_is_the_same_whenever_it_is_made_and_another_for_each_process(train) -> None:
    """What a resumed run trains on is what the first one would have; no two processes share their
    sequences.
    """
    first, second = train.Place(0, 2, 0), train.Place(1, 2, 1)
    drawn = train.starts(10_000, 64, 8, 7, first, 1)
    random.seed(99)
    assert train.starts(10_000, 64, 8, 7, first, 1) == drawn
    assert (
        train.starts(10_000, 64, 8, 7, second, 1)
        != drawn
        != train.starts(10_000, 64, 8, 8, first, 1)
    )
    assert all(0 <= start < 10_000 - 65 for start in drawn)
    with pytest.raises(SystemExit, match="--context"):
        train.starts(64, 64, 1, 0, first, 1)


def test_what_is_left_begins_after_what_is_done(train) -> None:
    """Five of six steps done: the last one of the second epoch."""
    assert list(train.left(5, 2, 3)) == [(1, 5)]
    assert [epoch for epoch, _ in train.left(0, 2, 3)] == [0, 0, 0, 1, 1, 1]
    assert list(train.left(6, 2, 3)) == []


def test_a_checkpoint_that_was_cut_short_is_none(train, tmp_path) -> None:
    """It bears the name only once it is whole, and replaces the previous one then."""

    def cut(_content, path) -> Never:
        path.write_text("half")
        raise OSError("no space")

    assert train.newest(None) is None and train.newest(tmp_path) is None
    with pytest.raises(OSError, match="no space"):
        train.save({}, tmp_path, cut)
    assert train.newest(tmp_path) is None
    found = train.save(
        {"steps": 3}, tmp_path, lambda content, path: path.write_text(str(content["steps"]))
    )
    assert train.newest(tmp_path) == found and found.read_text() == "3"


def test_its_text_is_split_by_file_and_none_is_told(train, tmp_path) -> None:
    """Every tenth file is held back; a folder without text is named."""
    for number in range(11):
        (tmp_path / f"{number:02}.txt").write_text(f"text {number} ")
    kept, held_back = train.texts(tmp_path, ".txt")
    assert (kept.count(b"text"), held_back.count(b"text")) == (9, 2)
    with pytest.raises(SystemExit, match=r"\.py"):
        train.texts(tmp_path, ".py")


def test_it_stands_in_the_stack_as_its_content() -> None:
    """The stack carries the file that is here, small enough for a start-up script."""
    import yaml

    from providers.model.spec import read_cluster
    from providers.model.workload import with_files

    root = TRAIN.parents[1]
    declared = yaml.safe_load((root / "stacks" / "Pulumi.train-ddp-2x8.yaml").read_text())[
        "config"
    ]["gpus:clusters"]["train"]
    ask = read_cluster("train", with_files(declared, root)).ask()
    made = program(present(ask.workload), "job", "H100", 8, 2)
    assert dict(made.files)["train.py"] == packed(TRAIN.read_bytes())
    assert "train.py --epochs 3" in made.processes[0].line
    text = script(made)
    assert "\nfile_paths=(train.py)\n" in text and "\nkept=/opt/out\n" in text


def test_a_command_finds_the_files_by_the_names_that_were_declared(tmp_path) -> None:
    """A relative name is one in the home folder, wherever the machine starts the script."""
    made = Program(
        "job", (Process("main", "python3 t.py"),), files=(("t.py", packed(b"print('found it')")),)
    )
    with machines(tmp_path, ("127.0.0.1",)) as (machine,):
        assert machine.run(f"cd /\n{script(made)}") == 0
        assert "found it" in machine.log


@pytest.mark.skipif(TORCHRUN is None, reason="needs torch: pip install torch")
def test_a_killed_run_over_two_machines_goes_on_from_its_checkpoint(tmp_path) -> None:
    """Both machines are taken away in the middle; new ones, empty but for the bucket, go on from
    what it holds, to the same number of steps.
    """
    addresses, bucket = ("127.0.0.2", "127.0.0.3"), tmp_path / "bucket"

    def compiled(folder):
        # Machines have the same paths; these two share a disk.
        out = folder / "out"
        task = Task(launcher="torchrun", command=f"train.py {SMALL} --out {out}", env=CPU)
        kept = Checkpoint(str(out), "s3://b/run", 1)
        files = (("train.py", packed(TRAIN.read_bytes())),)
        return program(
            Workload((task,), files=files, checkpoint=kept, resume=f"--resume {out}"),
            "job",
            "H100",
            1,
            2,
        )

    def both(place):
        place.mkdir()
        return machines(place, addresses, Path(present(TORCHRUN)).parent)

    with both(tmp_path / "first") as nodes:
        for node in nodes:
            node.environment["CUDA_VISIBLE_DEVICES"] = ""
            node.bucket(bucket)
            node.hand("peers", "\n".join(addresses) + "\n")
            node.begin(script(compiled(node.folder)))
        end = time.monotonic() + 120
        while "saved step 20 " not in nodes[0].log or not (bucket / "checkpoint.pt").exists():
            assert time.monotonic() < end, nodes[0].log
            time.sleep(0.2)
        for node in nodes:
            node.power_off()
        assert "train: done" not in nodes[0].log
    with both(tmp_path / "second") as nodes:
        for node in nodes:
            node.environment["CUDA_VISIBLE_DEVICES"] = ""
            node.bucket(bucket)
            node.hand("peers", "\n".join(addresses) + "\n")
        begun = [node.begin(script(compiled(node.folder))) for node in nodes]
        assert [process.wait(240) for process in begun] == [0, 0], nodes[0].log
        step = int(
            present(
                re.search(r"begins at step (\d+) of 400 \(2 processes, cpu, gloo\)", nodes[0].log)
            )[1]
        )
        assert step >= 5
        assert "saved step 400" in nodes[0].log and "train: done" in nodes[0].log
        assert [node.words[-1] for node in nodes] == ["succeeded 0", "succeeded 0"]


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "deepspeed"])
def test_each_launcher_trains_on_what_is_here(launcher, tmp_path) -> None:
    """Two processes of one machine, on its GPU where it has one: through the compiled script, to
    the end, and again from the checkpoint.
    """
    found = shutil.which(launcher)
    if found is None:
        pytest.skip(f"needs {launcher}, which is not installed")
    gpu = shutil.which("nvidia-smi") is not None
    out = tmp_path / "out"

    def compiled(steps, out):
        command = f"train.py {SMALL} --steps {steps} --out {out} --resume {out}"
        # DeepSpeed else tells the script its rank as an argument, which this one takes from the
        # environment.
        args = (("no_local_rank", True),) if launcher == "deepspeed" else ()
        task = Task(
            launcher=launcher,
            command=command,
            args=args,
            env=CPU[1:] if gpu else (*CPU, ("DS_ACCELERATOR", "cpu")),
        )
        return program(
            Workload((task,), files=(("train.py", packed(TRAIN.read_bytes())),)), "job", "H100", 2
        )

    with machines(tmp_path, ("127.0.0.1",), Path(found).parent) as (machine,):
        assert machine.run(script(compiled(20, out)), 240) == 0, machine.log
        assert machine.run(script(compiled(30, out)), 240) == 0, machine.log
        where = "gpu" if gpu else "cpu"
        assert f"begins at step 0 of 20 (2 processes, {where}" in machine.log
        assert f"begins at step 20 of 30 (2 processes, {where}" in machine.log
        assert machine.log.count("train: done") == 2
