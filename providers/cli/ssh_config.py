"""`gpus ssh-config`: what runs, as `Host` entries of OpenSSH's configuration, so that editors,
rsync and scp reach it by name.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from providers.cli.machines import running, say
from providers.cli.output import OK
from providers.engine.record import HEALTHY
from providers.errors import GpusError, Problem, SpecError
from providers.home import SSH_CONFIG_FILE, home
from providers.remote import ssh_config as files
from providers.remote.ssh import Ssh

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from providers.adhoc.machine import AsyncMachine
    from providers.adhoc.sync import Machine
    from providers.model.machine import Node


class _Entry(NamedTuple):
    cluster: str
    stack: str
    number: int
    line: Ssh


def ssh_config(options: argparse.Namespace) -> int:
    """Prints the entries, or with `--write` puts all of them into a file that `~/.ssh/config`
    includes; 0. What has no ssh is told on stderr.
    """
    narrowed = options.names or options.stack or options.world
    if options.write and narrowed:
        raise SpecError(
            [
                Problem(
                    "--write",
                    "every machine's entry: the file is replaced as a whole",
                    "a name, a stack or a world",
                    "leave those out, or --write",
                )
            ]
        )
    machines = running(options)
    try:
        blocks = [line.entry(name) for name, line in _named(_entries(machines))]
    finally:
        for machine in machines:
            machine.close()
    if not options.write:
        sys.stdout.write(files.text(blocks))
        return OK
    file, config = home() / SSH_CONFIG_FILE, Path.home() / ".ssh" / "config"
    files.write(file, blocks)
    say(f"{file} has {len(blocks)} entries")
    if files.include(config, file):
        say(f"{config} includes it now, by a line at its top")
    return OK


def _entries(machines: Sequence[Machine]) -> Iterator[_Entry]:
    for machine in machines:
        for number, node in enumerate(machine.record.machines):
            line = _line(machine.inner, number, node)
            if line is not None:
                yield _Entry(machine.name, machine.inner.stack, number, line)


def _line(machine: AsyncMachine, number: int, node: Node) -> Ssh | None:
    """The line to one of its machines; None, and why on stderr, where that is not ssh."""
    if node.status not in HEALTHY:
        say(f"{machine.name}: no entry for {node.name or number}: it is {node.status}")
        return None
    try:
        line = machine.line(number)
    except GpusError as error:
        say(str(error))
        return None
    if isinstance(line, Ssh):
        return line
    what = "a stand-in node" if line.stand_in else f"a machine of {node.handle.provider}"
    say(f"{machine.name}: no entry: {what} takes no ssh; `gpus ssh {machine.name}` reaches it")
    return None


def _named(entries: Iterator[_Entry]) -> Iterator[tuple[str, Ssh]]:
    """Each with a name of its own: `NAME` and `NAME-1`, or `NAME.STACK` where several stacks have
    the cluster's name. What is ad hoc comes first, as for every command, and so does a cluster's
    own name before the number of another's machine.
    """
    found = sorted(entries, key=lambda each: (each.number > 0, each.stack != ""))
    shared = Counter(cluster for cluster, _ in {(each.cluster, each.stack) for each in found})
    taken: set[str] = set()
    for each in found:
        shown = each.cluster
        if each.stack and shared[each.cluster] > 1:
            shown = f"{each.cluster}.{each.stack}"
        name = f"{shown}-{each.number}" if each.number else shown
        if name != each.cluster and not each.number:
            say(f"{each.cluster}: several have the name; that of stack {each.stack} is {name}")
        if name in taken:
            say(f"{each.cluster}: no entry for its machine {each.number}: {name} is another one")
            continue
        taken.add(name)
        yield name, each.line
