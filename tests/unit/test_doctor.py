"""What `gpus doctor` finds: each look's output judged, and the script run for real here."""

import os
import re
import shutil
import subprocess

import pytest

from providers.cli import main
from providers.workloads import diagnose

SHELLS = [words for words in (("bash",), ("dash",), ("busybox", "sh")) if shutil.which(words[0])]
LOOKS = re.findall(r"^look (\w+)", diagnose.script(), re.MULTILINE)
WELL = {
    "gpus": "0, NVIDIA H100 80GB HBM3, 512, 81559\n1, NVIDIA H100 80GB HBM3, 512, 81559",
    "torch": "2.11.0+cu130 13.0 2",
    "visible": "unset",
    "topology": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-31\nGPU1\tNV18\t X \t0-31",
    "pcie": "0, 16, 16, 97\n1, 16, 16, 95",
    "throttle": "0, Not Active, Not Active, 51\n1, Not Active, Not Active, 49",
    "shm": "64000",
    "disk": "41%",
    "load": "3.10 32",
}


def output(**changes):
    looks = {**WELL, **changes}
    return "\n".join(
        f"{diagnose.PREFIX} {name} {0 if looks.get(name) else 1}\n{looks.get(name, '')}"
        for name in LOOKS
    )


def wrong(wanted=2, **changes):
    return {
        each.name: each
        for each in diagnose.judge(output(**changes), wanted)
        if each.state == diagnose.BAD
    }


def test_a_well_machine_has_nothing_wrong() -> None:
    """Two H100 on NVLink, PyTorch sees both."""
    assert wrong() == {}
    assert "2.11.0+cu130, CUDA 13.0, sees 2 GPUs" in diagnose.text(diagnose.judge(output(), 2))


@pytest.mark.parametrize(
    ("name", "changes", "told", "todo"),
    [
        ("driver", {"gpus": ""}, "does not answer", "nvidia-smi"),
        ("driver", {"gpus": WELL["gpus"].splitlines()[0]}, "1 of 2 GPUs", "fallen off the bus"),
        (
            "driver",
            {"xid": "NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus."},
            "79",
            "Xid table",
        ),
        ("torch", {"torch": "2.11.0+cpu None 0"}, "built without CUDA", "CUDA build"),
        (
            "torch",
            {"torch": "2.11.0 13.0 1", "visible": "0"},
            "CUDA_VISIBLE_DEVICES is 0",
            "unset it",
        ),
        ("torch", {"torch": "2.11.0 13.0 0"}, "sees 0 of 2", "newer than the driver"),
        (
            "memory",
            {"gpus": WELL["gpus"].replace("512", "81000"), "apps": "77, 80900, /usr/bin/python3"},
            "pid 77 80900 MiB python3",
            "smaller batch",
        ),
        (
            "host memory",
            {"oom": "Out of memory: Killed process 9 (python3)"},
            "Killed process 9",
            "fewer data workers",
        ),
        ("PCIe", {"pcie": "0, 4, 16, 90\n1, 16, 16, 90"}, "GPU 0 x4 of x16", "another host"),
        ("links", {"topology": "GPU0\t X \tPHB\nGPU1\tPHB\t X"}, "no NVLink", "pipeline stages"),
        ("NCCL", {"shm": "64"}, "has 64 MiB", "--ipc host"),
        (
            "NCCL",
            {"nccl": "NCCL_IB_DISABLE=0\nNCCL_P2P_DISABLE=1"},
            "NCCL_P2P_DISABLE=1",
            "not over NVLink or PCIe; unset it",
        ),
        ("clocks", {"throttle": "0, Active, Not Active, 92"}, "GPU 0 at 92 C", "another host"),
        ("disk", {"disk": "99%"}, "99 % full", "disk_gib"),
        (
            "CPU",
            {"load": "60 32", "pcie": "0, 16, 16, 12\n1, 16, 16, 20"},
            "load 60.0 on 32",
            "wait for the CPU",
        ),
    ],
)
def test_each_trouble_is_named_with_what_to_do(name, changes, told, todo) -> None:
    """One finding for each of the troubles, with its reason and its way out."""
    found = wrong(**changes)
    assert name in found, found
    assert told in found[name].found
    assert todo in found[name].todo


def links(topology, count):
    gpus = "\n".join(f"{number}, NVIDIA A100 80GB PCIe, 512, 81920" for number in range(count))
    return next(
        each
        for each in diagnose.judge(output(gpus=gpus, topology=topology), count)
        if each.name == "links"
    )


def test_links_are_judged_by_every_pair_of_gpus() -> None:
    """Bridges join pairs of four: that is told. Network cards behind the GPUs do not count, nor
    does the heading, which comes underlined.
    """
    head = (
        "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    )
    joined = [
        "X NV12 SYS SYS PIX 0-31 0",
        "NV12 X SYS SYS PIX 0-31 0",
        "SYS SYS X NV12 SYS 0-31 0",
        "SYS SYS NV12 X SYS 0-31 0",
    ]
    bridged = (
        head
        + "\n".join(
            f"GPU{number}\t{row.replace(' ', chr(9))}\tN/A" for number, row in enumerate(joined)
        )
        + "\nNIC0\tPIX\tPIX\tSYS\tSYS\t X"
    )
    assert links(bridged, 4)[1:3] == (diagnose.BAD, "NVLink between 2 of 6 pairs of GPUs")
    assert links(bridged.replace("SYS\tSYS", "NV12\tNV12"), 4).state == diagnose.OK
    assert links(bridged, 8).state == diagnose.UNKNOWN


def test_what_cannot_be_looked_at_is_unknown() -> None:
    """No PyTorch is no fault, and junk breaks nothing."""
    assert (
        next(each for each in diagnose.judge(output(torch=""), 2) if each.name == "torch").state
        == diagnose.UNKNOWN
    )
    assert diagnose.judge("junk\n\x00\ngpus-doctor gpus 0\n,,\n,", 1)


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
def test_the_script_is_sound_and_looks_at_everything(words) -> None:
    """Run for real, every look answers with its exit code, whatever is installed; on a stand-in
    only the driver is asked.
    """
    done = subprocess.run(
        [*words, "-c", diagnose.script()], capture_output=True, text=True, check=False
    )
    assert set(diagnose.read(done.stdout)) == set(LOOKS) and len(LOOKS) == 13
    done = subprocess.run(
        [*words, "-c", diagnose.script(stand_in=True)], capture_output=True, text=True, check=False
    )
    assert set(diagnose.read(done.stdout)) == {"gpus"}


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
def test_a_look_is_read_back_as_it_was_printed(words, tmp_path) -> None:
    """Exit code and lines of a driver that answers, of one that fails, and of a variable with an
    escape in it.
    """
    (tmp_path / "nvidia-smi").write_text(
        '#!/bin/sh\ncase "$*" in *temperature*) echo broken; exit 9 ;; *) echo "0, L4, 1, 2" ;;'
        " esac\n"
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CUDA_VISIBLE_DEVICES": "-n \\n%s",
        "NCCL_DEBUG": "INFO",
    }
    done = subprocess.run(
        [*words, "-c", diagnose.script()], env=environ, capture_output=True, text=True, check=False
    )
    found = diagnose.read(done.stdout)
    assert found["gpus"] == (0, ["0, L4, 1, 2"]) and found["throttle"] == (9, ["broken"])
    assert found["visible"] == (0, ["-n \\n%s"]) and found["nccl"] == (0, ["NCCL_DEBUG=INFO"])


def test_the_command_looks_at_this_machine(capsys) -> None:
    """Without a name it is this machine; without a driver that is what is wrong."""
    code = main.main(["doctor"])
    out = capsys.readouterr().out
    assert code in (0, 1)
    assert "driver" in out
