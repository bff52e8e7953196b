"""Machines that are the user's own, reached by ssh. Owns the manifest; importing this starts
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.base import Console, Credentials, Limits, Manifest, Programs, given
from providers.errors import NotConfigured, Problem, SpecError
from providers.model.capability import Capabilities
from providers.model.fabric import Fabric
from providers.model.host import Host
from providers.model.worlds import LIVE, REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.adapters.base import Adapter
    from providers.model.machine import Node, Setup
    from providers.model.placement import Placement
    from providers.model.worlds import RehearsedCloud

NAME = "ssh"
ENTER = '. "${GPUS_AGENT_ROOT:-/var/tmp/gpus}/leases/%s/own/env" || exit 255; '
"""What precedes a command on a machine: it runs in its lease."""

DONE = 'env -u GPUS_LEASE_FOLDER GPUS_VERB=done sh "$GPUS_LEASE_FOLDER/agent"'
"""How what runs in a lease ends it."""

_PORTS = "PORTS"

CAPABILITIES = Capabilities(
    provider=NAME,
    kinds=frozenset({"machine"}),
    workload_kinds=frozenset({"job", "service"}),
    capacities=frozenset({"on-demand"}),
    max_nodes=64,
    in_place=frozenset({"labels", "ttl"}),
    live_offers=True,
    # The machines have their users' keys already.
    ssh=False,
    login=True,
    # By the order's token, on the machine itself.
    deduplicates=True,
    keyed_buckets=frozenset({"s3"}),
    mounts=frozenset({"s3"}),
    owned=True,
)


def connect(
    world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None
) -> Adapter:
    """The adapter. `config`: `inventory`, the path of the file that lists the machines, which are
    real in every world: then the adapter's world is the live one. In a rehearsal the word
    `rehearsal` there stands for made-up machines. No calls; the file is read when a call is made.
    """
    import time

    from providers.adapters.ssh import inventory
    from providers.adapters.ssh.adapter import Ssh

    path = config.get("inventory", "")
    if not path:
        return Ssh(world, None, time.time)
    if path == REHEARSAL:
        if world != REHEARSAL:
            raise NotConfigured(
                f"ssh: wanted the path of your inventory, found `{REHEARSAL}`, whose machines are"
                " made up; set ssh:inventory",
                provider=NAME,
                code="world",
            )
        cloud = given(NAME, rehearsed)
        return Ssh(world, lambda: inventory.loads(cloud.endpoint()), cloud.now, cloud.untouched)

    def read() -> inventory.Inventory:
        try:
            return inventory.load(path)
        except SpecError as error:
            raise NotConfigured(f"ssh: {error}", provider=NAME, code="inventory") from None

    return Ssh(LIVE, read, time.time)


def check_options(section: Mapping[str, object]) -> Sequence[Problem]:
    """Every problem of a spec's `options.ssh`, with paths relative to it. Pure."""
    found = [
        Problem(key, "machines or labels", repr(key))
        for key in section.keys() - {"machines", "labels"}
    ]
    machines, labels = section.get("machines", []), section.get("labels", {})
    if not isinstance(machines, (list, tuple)) or not all(isinstance(x, str) for x in machines):
        found.append(Problem("machines", "names of the inventory, as in [box-1]", repr(machines)))
    if not isinstance(labels, dict):
        found.append(Problem("labels", "a mapping of names to words", repr(labels)))
    return found


def reference(text: str) -> str:
    """What a secret's text must be: a variable of the environment that pulumi runs in, read when
    cards are taken; it stands in no state.
    """
    import re

    return (
        ""
        if re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*", text)
        else "env:VARIABLE, read where pulumi runs"
    )


def _words(
    node: Node, config: Mapping[str, str], *more: str, shared: str = "no"
) -> tuple[tuple[str, ...], str]:
    """The program that runs its next word on a lease's machine, and what the word begins with."""
    from providers.adapters.ssh import inventory, transport

    known = inventory.load(config.get("inventory", ""))
    name, _, token = node.handle.native_id.partition("/")
    machine = known.named(name)
    if machine is None:
        raise NotConfigured(
            f"ssh: wanted the machine {name}, found it no longer in the inventory; put it back",
            provider=NAME,
        )
    return transport.words(known, machine, *more, shared=shared), ENTER % token


def program(node: Node, config: Mapping[str, str]) -> Sequence[str]:
    """The program that runs a command in a lease."""
    words, enter = _words(node, config, "-T")
    if words[:2] == ("sh", "-c"):
        return (*words, f'{enter}eval "$0"')
    return (*words, enter)


def shell(node: Node, config: Mapping[str, str]) -> Sequence[str]:
    """The program that gives this terminal a shell in a lease."""
    words, enter = _words(node, config, "-t")
    return (*words, f'{enter}exec "${{SHELL:-sh}}"')


def port(node: Node, config: Mapping[str, str]) -> Sequence[str]:
    """The program that carries a port here by a connection of its own; nothing for this machine
    itself, whose ports are here.
    """
    import shlex

    options = ("-N", "-T", "-o", "ExitOnForwardFailure=yes", "-L", _PORTS)
    words, _ = _words(node, config, *options, shared="never")
    if words[:2] == ("sh", "-c"):
        return ()
    carried = (
        '"127.0.0.1:$0:localhost:$1"' if each == _PORTS else shlex.quote(each) for each in words
    )
    return ("sh", "-c", f"exec {' '.join(carried)}")


def host_of(_machine_type: str, _section: Mapping[str, object]) -> Host:
    """Its disk is what the machine has."""
    return Host(disk="the machine's own")


def fabric_of(_placed: Placement, _setup: Setup) -> Fabric:
    """What is between the user's own machines, nobody has said."""
    return Fabric()


MANIFEST = Manifest(
    name=NAME,
    capabilities=CAPABILITIES,
    connect=connect,
    check_options=check_options,
    credentials=Credentials(
        environment=("GPUS_SSH_INVENTORY",),
        settings=("inventory",),
        reference=reference,
        from_environment=(("inventory", "GPUS_SSH_INVENTORY"),),
    ),
    limits=Limits(host=host_of, fabric=fabric_of),
    console=Console(program=program, shell=shell, port=port, folder=".."),
    programs=Programs(ends_itself=DONE),
)
