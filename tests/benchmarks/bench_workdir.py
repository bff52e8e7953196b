"""A project folder of 1 GB in 10,000 files to four machines, against plain rsync to the same number
side by side; and a second time after an edit of one line. The machines are folders behind a real
ssh server here, so that all ends of all transfers share this machine's processors.

Plain rsync to one machine is no measure of that: four of them take 3 to 5 times the processor time
of one (200 MB in 2,000 files: 9.1 s against 1.6 to 3.1 s; ours 9.2 to 10.5 s), and four ends of
their own are what a cluster has. Of ours, the sending side of all four is 1.8 s of processor time,
where plain rsync to one took 2.8 s in all (2026-11-29, a busy machine). After an edit (10,000
files) four plain ones take 0.6 s of processor time and ours 1.5 s: the names that are sent are
written down there, and only names that were sent are ever removed.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from providers.model import regular
from providers.remote.rsync import There, sent
from providers.remote.ssh import Ssh
from providers.remote.tree import scanned
from tests.benchmarks.timing import Figures, Line

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES, SIZE, MACHINES, RUNS = 10_000, 100_000, 4, 3
FIRST_LIMIT, SECOND_LIMIT_S = 1.3, 2.0
LONGEST_S = 300.0
"""No further run is begun once so much has passed: on a busy machine one alone takes minutes."""


@contextmanager
def _server(folder: Path) -> Iterator[Ssh]:
    """The line to an ssh server of this host."""
    for key in ("host", "user"):
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(made, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = {
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "user.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        # As on a machine of its own: nothing that this user's shell reads at each login.
        "SetEnv": f"HOME={folder}",
    }
    config = folder / "sshd_config"
    config.write_text("".join(f"{key} {value}\n" for key, value in words.items()))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "sshd"
    with subprocess.Popen([program, "-D", "-f", str(config)]) as server:
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            known = folder / "known_hosts"
            yield Ssh(
                "127.0.0.1", port, getpass.getuser(), folder / "user", known, "here", pinned=False
            )
        finally:
            server.terminate()


def _plain(line: Ssh, project: Path, there: list[Path]) -> float:
    """Seconds of rsync as a person would call it, to all of them at once."""
    began = time.perf_counter()
    ssh = (
        f"ssh -p {line.port} -i {line.key} -o UserKnownHostsFile={line.known_hosts}"
        " -o StrictHostKeyChecking=accept-new"
    )
    words = ["rsync", "-a", "-e", ssh, f"{project}/"]
    running = [subprocess.Popen([*words, f"{line.host}:{each}/"]) for each in there]
    try:
        codes = [each.wait() for each in running]
    finally:
        for each in running:
            each.terminate()
    if any(codes):
        raise RuntimeError("wanted a plain rsync that ends well, found one that failed")
    return time.perf_counter() - began


def _ours(line: Ssh, project: Path, there: list[Path]) -> float:
    """Seconds of looking at the folder and sending it to all machines."""

    async def all_of_them() -> None:
        tree = scanned(project, 10 << 30)
        await asyncio.gather(*(sent(line, tree, There(str(each))) for each in there))

    began = time.perf_counter()
    asyncio.run(all_of_them())
    return time.perf_counter() - began


def _processors_s() -> float:
    """Processor time of this process and of what it ran, which is the sending side of a transfer:
    the ssh server is nobody's child here that has ended.
    """
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


def lines(files: int = FILES, size: int = SIZE, machines: int = MACHINES) -> list[Line]:
    """Each side in turn, both from nothing. `size` is bytes a file."""
    single: list[float] = []
    plain, ours, plain_again, ours_again = [], [], [], []
    sending: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["GPUS_HOME"] = str(folder / "home")
        project = folder / "project"
        for number in range(files):
            path = project / f"d{number % 100}" / f"f{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(size))
        theirs, here = (
            [folder / side / str(each) for each in range(machines)] for side in ("plain", "ours")
        )
        with _server(folder) as line:
            began = time.perf_counter()
            _plain(line, project, [folder / "warm"])
            shutil.rmtree(folder / "warm")
            for number in range(RUNS):
                if single and time.perf_counter() - began > LONGEST_S:
                    break
                single.append(_plain(line, project, [folder / "warm"]))
                shutil.rmtree(folder / "warm")
                for each in (*theirs, *here):
                    shutil.rmtree(each, ignore_errors=True)
                    each.mkdir(parents=True)
                plain.append(_plain(line, project, theirs))
                before = _processors_s()
                ours.append(_ours(line, project, here))
                sending.append(_processors_s() - before)
                (project / "d1" / "f1").write_text(f"edit {number}\n")
                plain_again.append(_plain(line, project, theirs))
                ours_again.append(_ours(line, project, here))
    first, beside = Figures(tuple(ours)), Figures(tuple(plain))
    again, beside_again = Figures(tuple(ours_again)), Figures(tuple(plain_again))
    total = regular.size(files * size)
    one = Figures(tuple(single))
    detail = (
        f"{files:,} files, {total}, {len(single)} of {RUNS} runs:"
        f" ours {first.p50:.1f} s, plain {beside.p50:.1f} s"
    )
    second = f"plain rsync to {machines}: {beside_again.p50:.2f} s"
    return [
        Line(
            f"workdir to {machines} machines over plain rsync to {machines}",
            first.p50 / beside.p50,
            FIRST_LIMIT,
            " x",
            detail,
        ),
        Line(
            "  the same over plain rsync to one",
            first.p50 / one.p50,
            None,
            " x",
            f"plain to one {one.p50:.1f} s, to {machines} {beside.p50 / one.p50:.1f} x that;"
            f" of ours {Figures(tuple(sending)).p50:.1f} s of processors send",
        ),
        Line(
            f"workdir to {machines} machines after an edit of one line",
            again.p50,
            SECOND_LIMIT_S,
            " s",
            second,
        ),
    ]
