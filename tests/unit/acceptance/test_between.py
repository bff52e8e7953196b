"""What is between several machines: NCCL's own lines, the verdict, and the program run for real."""

import asyncio
import os

import pytest

from providers.acceptance.between import judge
from providers.acceptance.on_node import between
from providers.acceptance.program import script, told
from providers.acceptance.run import measured_between
from providers.errors import GpusError
from providers.model.fabric import Fabric, between_nodes
from providers.remote.line import LocalCommand

EFA = Fabric("EFA", 3200)
SOCKET = """\
n0:7:7 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
n0:7:7 [0] NCCL INFO NET/IB : No device found.
n0:7:7 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.4.51<0>
n0:7:7 [0] NCCL INFO Using network Socket
n0:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
"""
LIBFABRIC = """\
n0:17:17 [0] NCCL INFO NET/OFI Selected provider is {provider} (found 32 nics)
n0:17:17 [0] NCCL INFO Using network Libfabric
n0:17:19 [0] NCCL INFO Channel 07/0 : 1[1] -> 0[0] [send] via NET/Libfabric/1/GDRDMA
"""


def lines(network):
    return (
        f"vm-0:606:642 [6] NCCL INFO Using network {network}\n"
        f"vm-0:606:643 [6] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/{network}/3(1)\n"
    )


def answers(log, rate=370.0, errors=(), size=256 << 20):
    """What two machines print of whose NCCL wrote this."""
    each = {"all_reduce": [{"bytes": size, "bus_gb_s": rate}], **between.networks(log)}
    return [{"errors": dict(errors), "between": {"rank": rank, **each}} for rank in range(2)]


@pytest.mark.parametrize(
    ("log", "went"),
    [
        (SOCKET, "Socket"),
        (LIBFABRIC.format(provider="efa, fabric is efa"), "Libfabric"),
        (lines("AWS Libfabric"), "AWS Libfabric"),
        (lines("IB"), "IB"),
        (lines("gIB"), "gIB"),
        (lines("FasTrak"), "FasTrak"),
        (lines("GPUDirectTCPX_v7"), "GPUDirectTCPX_v7"),
    ],
)
def test_the_network_is_read_from_what_nccl_says(log, went) -> None:
    found = between.networks(log)
    assert found["went"] == [went] and found["chose"] == went
    assert found["direct"] is True if "GDRDMA" in log else "direct" not in found


@pytest.mark.parametrize(
    ("log", "rate", "fabric", "word", "reason"),
    [
        (LIBFABRIC.format(provider="efa"), 370.0, EFA, "pass", ""),
        (SOCKET, 11.0, EFA, "not what was sold", "over TCP where EFA 3200 Gbit/s was paid for"),
        (LIBFABRIC.format(provider="tcp;ofi_rxm"), 11.0, EFA, "not what was sold", "over TCP"),
        (lines("FastSocket"), 20.0, EFA, "not what was sold", "over TCP"),
        (
            LIBFABRIC.format(provider="efa"),
            90.0,
            EFA,
            "degraded",
            "at 90.0 GB/s on the bus, of 400",
        ),
        ("", 90.0, EFA, "degraded", "at 90.0 GB/s on the bus, of 400"),
        (SOCKET, 1.2, None, "pass", ""),
        (SOCKET, 1.2, EFA._replace(missing="options.aws.efa is false"), "pass", ""),
        (SOCKET, 1.2, EFA._replace(needs="aws-ofi-nccl"), "pass", ""),
        (SOCKET, 4.0, Fabric("EFA"), "not what was sold", "where EFA was paid for"),
    ],
)
def test_tcp_where_a_fabric_was_promised_is_not_what_was_sold(
    log, rate, fabric, word, reason
) -> None:
    """What the plan did not promise is shown and not held against the machines."""
    verdict = judge(answers(log, rate), fabric)
    assert verdict.word == word and reason in "; ".join(verdict.reasons)


def test_machines_that_do_not_reach_each_other_are_degraded_with_nccls_warning() -> None:
    hangs = {between.ALL_REDUCE: "did not finish within 60 s"}
    found = answers(f"{SOCKET}n0:7:9 [0] NCCL WARN socketPollConnect: No route to host\n")
    for answer in found:
        answer["errors"] = hangs
        del answer["between"]["all_reduce"]
    assert judge(found, None).word == "degraded"
    assert "No route to host" in judge(found, EFA).reasons[0]


@pytest.mark.parametrize(
    "answer", [{}, {"between": []}, {"between": {"went": 7, "all_reduce": [{"bytes": "x"}]}}]
)
def test_a_strangers_answer_is_unknown_and_not_believed(answer) -> None:
    verdict = judge([answer, answer], EFA)
    assert verdict.word == "pass" and len(verdict.unknown) >= 2


class Here:
    """The line to a machine that is this one."""

    stand_in, shown = False, "here"

    def path(self, path: str) -> str:
        return path

    def command(self, text: str) -> LocalCommand:
        return LocalCommand(("sh", "-c", text), dict(os.environ))

    def login(self) -> LocalCommand:
        return LocalCommand(("sh",))

    def tunnel(self, local: int, remote: int) -> LocalCommand | None:
        raise NotImplementedError


def test_all_machines_answer_where_there_is_no_nccl(monkeypatch) -> None:
    """The first one tells nothing then, and nobody waits for the others."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = asyncio.run(measured_between([Here(), Here()], ["127.0.0.1", "127.0.0.1"], "quick"))
    assert [answer["between"]["rank"] for answer in found] == [0]
    assert found[0]["between"]["interface"] == "lo"
    verdict = judge(found, EFA)
    assert verdict.word == "pass" and any("libnccl" in text for text in verdict.unknown)


def test_the_first_machine_tells_an_id_and_nothing_else() -> None:
    key = "0f" * 128
    assert (told(f"gpus-between {key}"), told("Welcome!")) == (key, "")
    with pytest.raises(GpusError, match="NCCL's id"):
        told("gpus-between $(reboot)")
    with pytest.raises(ValueError, match=r"found '10\.0\.0\.1;reboot'"):
        script("quick", "0", "2", "10.0.0.1;reboot", "-")


@pytest.mark.parametrize(
    ("fabric", "line"),
    [
        (None, "between nodes: TCP only"),
        (Fabric(), "between nodes: not known; `gpus accept` measures it"),
        (Fabric(missing="why"), "between nodes: not known: why"),
        (EFA, "between nodes: EFA 3200 Gbit/s"),
        (Fabric("EFA"), "between nodes: EFA"),
        (Fabric("EFA", 400, missing="why"), "between nodes: TCP only: why"),
        (Fabric("EFA", 400, needs="it"), "between nodes: EFA 400 Gbit/s, if your image has it"),
    ],
)
def test_a_plan_says_what_is_between_the_nodes(fabric, line) -> None:
    assert between_nodes(fabric) == line
