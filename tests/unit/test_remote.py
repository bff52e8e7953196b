"""What a driver's answer means, where a port answers, and what ssh is told."""

import shutil
import subprocess

import pytest

from providers.adapters.base import keep_status
from providers.catalog.names import nominal_memory_gib
from providers.errors import GpusError
from providers.model.machine import Handle, Node
from providers.model.offer import Candidate, Offer
from providers.remote import driver
from providers.remote.line import endpoint, user
from providers.remote.probe import NO_DRIVER, WRONG_GPUS
from providers.remote.ssh import Ssh
from tests.present import present


def ordered(gpu="H100", count=8):
    return Candidate(1, 0, Offer("gcp", "r", "r-a", "m", gpu, count, "spot", 1), 1)


def cards(count, name="NVIDIA H100 80GB HBM3", memory="81559 MiB"):
    return f"{name}, {memory}\n" * count


@pytest.mark.parametrize(
    ("wanted", "answer", "stage", "words"),
    [
        (ordered(), (0, cards(8), ""), "", ""),
        (ordered("H100-MEGA"), (0, cards(8), ""), "", ""),
        (ordered("T4", 1), (0, cards(1, "Tesla T4", "15360 MiB"), ""), "", ""),
        (ordered("A100", 1), (0, cards(1, "NVIDIA A100-SXM4-40GB", "40960 MiB"), ""), "", ""),
        (ordered("RTX-4090", 2), (0, cards(2, "NVIDIA GeForce RTX 4090", "24564 MiB"), ""), "", ""),
        (ordered("L4", 1), (0, cards(1, "Some new name", "23034 MiB"), ""), "", ""),
        (ordered("GB200", 1), (0, cards(1, "NVIDIA GB200", "[N/A]"), ""), "", ""),
        (
            ordered(),
            (0, cards(7), ""),
            WRONG_GPUS,
            "7 of 8 GPUs answer (7 x NVIDIA H100 80GB HBM3)",
        ),
        (ordered(count=1), (0, cards(2), ""), WRONG_GPUS, "2 of 1"),
        (
            ordered("A100-80GB", 1),
            (0, cards(1, "NVIDIA A100-SXM4-40GB", "40960 MiB"), ""),
            WRONG_GPUS,
            "40960 MiB where A100-80GB:1",
        ),
        (
            ordered("RTX-4090", 1),
            (0, cards(1, "NVIDIA GeForce RTX 3090", "24576 MiB"), ""),
            WRONG_GPUS,
            "RTX 3090",
        ),
        (ordered(count=1), (0, cards(1, "NVIDIA H100 PCIe"), ""), WRONG_GPUS, "H100 PCIe"),
        (ordered(), (127, "", "sh: 1: nvidia-smi: not found\n"), NO_DRIVER, "not found"),
        (
            ordered(),
            (9, "NVIDIA-SMI has failed\n", ""),
            NO_DRIVER,
            "ended with 9, NVIDIA-SMI has failed",
        ),
        (ordered(), (0, "No devices were found\n", ""), NO_DRIVER, "lists no GPU"),
        (ordered(), (0, "", ""), NO_DRIVER, "lists no GPU"),
    ],
)
def test_b32_what_the_driver_says_is_compared_with_the_order(wanted, answer, stage, words) -> None:
    """Count, memory and model are as ordered, or the reason says what was found; a driver that is
    silent may still come, other GPUs never.
    """
    exit_code, output, errors = answer
    found = driver.look(exit_code, output, errors, wanted)
    assert (found.stage, found.final) == (stage, stage == WRONG_GPUS) and words in found.detail


def test_b32_what_a_start_up_script_ended_with_is_told_and_is_no_reason_for_another_machine() -> (
    None
):
    """A failed script is a note on a ready machine, and part of the reason where the driver is
    missing; 0, or anything but a status, is nothing.
    """
    told = driver.look(0, cards(8) + "gpus-start-up 3\n", "", ordered())
    assert (told.stage, told.note) == (
        "",
        "its start-up script ended with 3; `gpus logs` shows what it wrote",
    )
    missing = driver.look(127, "gpus-start-up 3\n", "sh: 1: nvidia-smi: not found\n", ordered())
    assert (
        missing.stage == NO_DRIVER
        and missing.detail.endswith("not found; its start-up script ended with 3")
        and not missing.final
    )
    for text in ("0", "", "; rm"):
        assert driver.look(0, cards(8) + f"gpus-start-up {text}\n", "", ordered()).note == ""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("true", "0"),
        ("exit 7", "7"),
        ("set -e\nfalse\ntrue", "1"),
        ("trap 'gpus_failed=$?' ERR\n(exit 5)\ntrue", "5"),
    ],
)
def test_b32_a_start_up_script_leaves_its_exit_status(tmp_path, body, status) -> None:
    """What the head of a script keeps is what it ended with, also where it went on after a failure;
    while it runs there is none.
    """
    file = tmp_path / "gpus" / "start-up"
    head = f"{keep_status(str(file))}keep_status"
    for _ in range(2):
        subprocess.run(["bash", "-c", f"{head}\n[ ! -e {file} ] || exit 99\n{body}"], check=False)
        assert file.read_text().strip() == status
    environ = {"PATH": "/usr/bin:/bin", "GPUS_START_UP": str(file)}
    for shell in (["sh"], ["bash"], *([["busybox", "sh"]] if shutil.which("busybox") else [])):
        found = subprocess.run(
            [*shell, "-c", driver.QUERY], check=False, env=environ, capture_output=True, text=True
        )
        assert found.returncode == 127 and f"gpus-start-up {status}" in found.stdout


def test_cards_the_catalog_knows_are_named() -> None:
    """The table of cards that the driver cannot tell apart names models that exist, of one memory."""
    for model, card in driver.SAME_CARD.items():
        assert nominal_memory_gib(model) == nominal_memory_gib(card) is not None


def node(**more):
    return Node(Handle("clore", "1"), "n", "running", **more)


@pytest.mark.parametrize(
    ("found", "maps_ports", "port", "answer"),
    [
        (node(external_ip="192.0.2.1"), False, 22, ("192.0.2.1", 22)),
        (node(internal_ip="10.0.0.1"), False, 8000, ("10.0.0.1", 8000)),
        (node(external_ip="n1.x", ports=((22, 10000), (8000, 10001))), True, 22, ("n1.x", 10000)),
        (node(external_ip="n1.x", ports=((22, 10000), (8000, 10001))), True, 8000, ("n1.x", 10001)),
        (node(external_ip="n1.x", ports=((22, 10000),)), False, 8000, None),
        (node(external_ip="n1.x"), True, 22, None),
        (node(), False, 22, None),
    ],
)
def test_b31_where_a_port_answers(found, maps_ports, port, answer) -> None:
    """A mapped port is the one outside; without an entry there is none yet, and it is never taken
    for itself.
    """
    assert endpoint(found, port, maps_ports=maps_ports) == answer


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "a b", "x;id", "$(id)", "a\nb", "[::1"])
def test_an_address_that_is_none_never_reaches_a_command(host) -> None:
    """What a cloud tells as an address is checked before it is used; so are user names."""
    with pytest.raises(GpusError, match="wanted an address"):
        endpoint(node(external_ip=host), 22, maps_ports=False)
    with pytest.raises(GpusError, match="wanted a user name"):
        user(node(ssh_user=host), "gpus")


def test_ssh_is_told_to_trust_nothing_else(tmp_path) -> None:
    """No configuration file, no agent, no forwarding, only this key, only this host key; strict
    once pinned.
    """
    line = Ssh("192.0.2.1", 2222, "root", tmp_path / "key", tmp_path / "known hosts", "gpus-x")
    argv = line.command("nvidia-smi").argv
    settings = [argv[at + 1] for at, word in enumerate(argv) if word == "-o"]
    assert argv[1:3] == ("-F", "none") and argv[-3:] == ("--", "root@192.0.2.1", "nvidia-smi")
    assert {
        "ForwardAgent=no",
        "IdentityAgent=none",
        "IdentitiesOnly=yes",
        "StrictHostKeyChecking=yes",
        "BatchMode=yes",
        "ForwardX11=no",
    } <= set(settings)
    assert "StrictHostKeyChecking=accept-new" in line._replace(pinned=False).command("x").argv
    assert not {"-A", "-X", "-Y"} & set(argv)
    assert (
        "-L" in present(line.tunnel(9999, 8888)).argv
        and "127.0.0.1:9999:localhost:8888" in present(line.tunnel(9999, 8888)).argv
    )
