"""The program that is sent to a machine: run here for real, with a played `nvidia-smi`."""

import ast
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from providers.acceptance import on_node, program
from providers.acceptance.on_node import driver, host
from providers.acceptance.run import measured_here
from providers.errors import GpusError
from tests.unit.acceptance.recorded import XML

SENT = sorted(Path(on_node.__file__).parent.glob("*.py"))
SHELLS = [words for words in (("bash",), ("dash",), ("busybox", "sh")) if shutil.which(words[0])]
TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \tNV18\tPXB\t0-31\t0\nGPU1\tNV18\t X \tSYS\t32-63\t1\nNIC0\tPXB\tSYS\t X \n\n"
    "Legend:\n"
)
LINKS = (
    "GPU 0: NVIDIA H200 (UUID: GPU-0)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"
    "GPU 1: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """A machine whose driver is played: `nvidia-smi` prints what was recorded."""
    (tmp_path / "h200.xml").write_text(XML, encoding="utf-8")
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f'#!/bin/sh\n[ "$1" = -q ] && cat {tmp_path}/h200.xml\n', encoding="utf-8")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return smi


@pytest.mark.parametrize("path", SENT, ids=lambda path: path.stem)
def test_what_is_sent_runs_on_python_3_8_with_the_standard_library_alone(path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert modules - sys.stdlib_module_names <= {"providers", "torch"}


def test_every_module_of_the_program_is_sent() -> None:
    assert all(f"{path.stem}.py" == "__init__.py" or path.stem in program.text() for path in SENT)
    assert len(program.script("full")) < 100_000


@pytest.mark.parametrize("words", SHELLS, ids=lambda words: words[0])
def test_the_program_answers_in_json_from_any_shell(words, played) -> None:
    """Without PyTorch and without a driver's library here: the inventory, and what went wrong."""
    del played
    done = subprocess.run(
        [*words, "-c", program.script("quick")], capture_output=True, text=True, check=False
    )
    found = program.answer(done.stdout, done.returncode, done.stderr)
    assert found["gpus"][0]["name"] == "NVIDIA H200" and found["gpus"][0]["memory_mib"] == 143771
    assert found["host"]["cores"] >= 1 and "torch" not in found
    assert "libcuda.so.1" in " ".join(found["errors"].values())


def test_a_machine_without_python_is_one_clear_message(tmp_path, monkeypatch) -> None:
    for name in ("sh", "sed", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(GpusError, match=r"ended with 127: no Python 3\.8 or newer"):
        asyncio.run(measured_here("quick"))


def test_a_driver_that_hangs_is_named_and_ends_in_time(played) -> None:
    """What was found until then is printed, and the process does not stay."""
    played.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    text = program.text().replace('"quick": 90.0', '"quick": 0.5')
    assert text != program.text()
    done = subprocess.run(
        [sys.executable, "-c", text, "quick"], capture_output=True, text=True, check=False
    )
    found = program.answer(done.stdout, done.returncode, done.stderr)
    assert found["errors"] == {"driver": "did not finish within 0 s"} and found["host"]


@pytest.mark.parametrize(
    "output", ["", "gpus-acceptance {", "gpus-acceptance []", "gpus-acceptance " + "[" * 5000]
)
def test_what_is_no_answer_is_refused_with_what_the_machine_said(output) -> None:
    with pytest.raises(GpusError, match="it ended with 1: Killed"):
        program.answer(output, 1, "warning\nKilled\n")


def test_the_answer_is_found_among_what_a_login_prints() -> None:
    line = "gpus-acceptance " + json.dumps({"schema": 1})
    assert program.answer(f"Welcome!\n{line}\n", 0, "") == {"schema": 1}


def test_the_topology_of_two_gpus_is_read_without_their_network_cards() -> None:
    assert driver.links(TOPOLOGY, LINKS, (0, 1)) == {
        "matrix": [["X", "NV18"], ["NV18", "X"]],
        "nvlink_gb_s": [53.124, 26.562],
    }


def test_of_a_machine_with_other_cards_only_the_lent_ones_are_looked_at() -> None:
    """nvidia-smi shows all cards, whatever CUDA_VISIBLE_DEVICES says: seen on a machine with two
    H200s of which one was lent, where acceptance found "2 GPUs where 1 were sold".
    """
    start, end = XML.index("<gpu "), XML.index("</gpu>") + len("</gpu>")
    one = XML[start:end]
    (uuid,) = re.findall(r"<uuid>(.*?)</uuid>", one)
    both = XML[:end] + one.replace(uuid, "GPU-other") + XML[end:]
    assert len(driver.inventory(both)) == 2
    lent = driver.lent("GPU-other")
    (card,) = driver.inventory(both, lent)
    assert (card["uuid"], card["index"], driver.places(both, lent)) == ("GPU-other", 0, [1])
    assert driver.links(TOPOLOGY, LINKS, [1]) == {"matrix": [["X"]], "nvlink_gb_s": [26.562]}
    assert [each["uuid"] for each in driver.inventory(both, ("GPU-other", uuid))][1] == uuid
    assert driver.lent("") == driver.lent("0,1") == ()


def test_xids_of_the_kernels_log_are_read() -> None:
    log = "[1.0] NVRM: Xid (PCI:0000:04:00): 79, pid=1, GPU has fallen off the bus.\n[2.0] other\n"
    assert host.xids(log) == [{"pci": "0000:04:00", "xid": 79}]


def test_a_field_that_the_driver_does_not_have_stays_out() -> None:
    """A card without ECC and row remapping, in a container that shows no power."""
    xml = XML.replace("<current_ecc>Enabled", "<current_ecc>N/A").replace(">0</dram", ">N/A</dram")
    xml = xml.replace(">0</sram", ">N/A</sram").replace("700.00 W", "N/A")
    found = driver.inventory(xml)[0]
    assert not {"ecc", "ecc_uncorrected", "power_limit_w", "power_default_w"} & found.keys()
