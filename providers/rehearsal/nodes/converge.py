"""Brings the containers to what the rehearsal clouds say runs: each machine that is up has one, and
no other has. Owns what was last done with each, which the store keeps.
"""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from providers.home import private
from providers.rehearsal.nodes import disks, docker, image, machine, mode, network, owned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from providers.rehearsal.nodes.machine import Booted
    from providers.rehearsal.store import Store

_RUNS = ("running", "restarting", "paused")


class CloudNodes(Protocol):
    """What a cloud's `nodes` module offers: the keys of all machines that it has, stopped ones too;
    the machines that are up; what becomes of one that powered itself off; and the keys of the disks
    that outlive machines.
    """

    def existing(self, store: Store) -> frozenset[str]: ...
    def booted(self, store: Store) -> tuple[Booted, ...]: ...
    def powered_off(self, store: Store, key: str) -> None: ...
    def disks(self, store: Store) -> frozenset[str]: ...


def nodes_of(provider: str) -> CloudNodes:
    """That module of a provider."""
    return cast("CloudNodes", import_module(f"providers.rehearsal.clouds.{provider}.nodes"))


def begin(store: Store) -> None:
    """Makes what all machines need: their network, their image, the volume of their disks. What
    Docker still has of an earlier rehearsal in the same place goes. Raises DockerError.
    """
    with _alone(store):
        if mode.of(store) == mode.DOCKER:
            _prepare(store)
            return
        _clear(store, data=False)
        try:
            network.make(store)
            network.check(store)
            _prepare(store)
        except docker.DockerError:
            with suppress(docker.DockerError):
                _clear(store, data=False)
            raise
        mode.choose(store, mode.DOCKER)


def end(store: Store, *, data: bool) -> str:
    """Removes what Docker has of a store; from now on machines are played. With `data` the data of
    disks goes too. What could not be removed, with the reason; empty for nothing.
    """
    if mode.of(store) != mode.DOCKER and not (data and disks.known(store)):
        return ""
    with _alone(store):
        mode.choose(store, mode.PLAYED)
        mode.refuse(store, "")
        try:
            _clear(store, data=data)
        except docker.DockerError as error:
            return f"what Docker has of it goes with the next `gpus rehearse nodes docker`: {error}"
    return ""


def _clear(store: Store, *, data: bool) -> None:
    for key in _found(store):
        _forget(store, key)
    disks.remove(store, data=data)
    network.remove(store)
    image.remove()


def _found(store: Store) -> Mapping[str, str]:
    return docker.containers(owned.label(store), owned.KEY_LABEL)


def _prepare(store: Store) -> None:
    network.make(store)
    image.built()
    disks.make(store)


def converge(store: Store) -> None:
    """Makes, boots and removes containers until they are what runs now. Nothing where machines are
    played. What Docker refuses is kept for those who wait for such a machine: it never answers.
    """
    if mode.of(store) != mode.DOCKER:
        return
    with _alone(store):
        if mode.of(store) != mode.DOCKER:
            return
        refused = _converged(store)
        if refused != mode.refused(store):
            mode.refuse(store, refused)


def _converged(store: Store) -> str:
    """Why Docker refused the first machine that it refused; the others come up all the same."""
    clouds = [nodes_of(provider) for provider in mode.clouds()]
    up = {each.key: (cloud, each) for cloud in clouds for each in cloud.booted(store)}
    kept = frozenset[str]().union(*(cloud.existing(store) for cloud in clouds))
    refused = []
    try:
        found = _found(store)
    except docker.DockerError as error:
        return str(error)
    for key in sorted(found.keys() | up.keys()):
        try:
            if key in up:
                _bring(store, *up[key], found.get(key, ""))
            elif key not in kept:
                _forget(store, key)
            elif found[key] in _RUNS:
                machine.stop(store, key)
        except docker.DockerError as error:
            refused.append(str(error))
    with suppress(docker.DockerError):  # Nobody waits for that; the next call tries it again.
        disks.sweep(store, frozenset[str]().union(*(cloud.disks(store) for cloud in clouds)))
    return refused[0] if refused else ""


def _forget(store: Store, key: str) -> None:
    machine.remove(store, key)
    store.set_value(f"node {key}", "")


def _bring(store: Store, cloud: CloudNodes, booted: Booted, state: str) -> None:
    kept = store.value(f"node {booted.key}")
    since, digest = json.loads(kept) if kept else (0.0, "")
    # What was done is kept before the boot: one that was interrupted is not taken for done.
    done = json.dumps([booted.since, booted.digest])
    if not state:
        _prepare(
            store
        )  # Another version of this package has another image; others remove networks.
        machine.create(store, booted)
        store.set_value(f"node {booted.key}", done)
        machine.start(store, booted.key)
    elif state == docker.ENDED and booted.since == since and machine.powered_off(store, booted.key):
        machine.keep_console(store, booted.key)
        cloud.powered_off(store, booted.key)
    elif booted.since != since or state not in _RUNS:
        # Started again by its cloud or itself; or Docker or its host went down, not the machine.
        network.make(store)
        machine.tell(store, booted)
        store.set_value(f"node {booted.key}", done)
        machine.restart(store, booted, running=state in _RUNS)
    elif digest != booted.digest:
        machine.tell(store, booted, now=True)
        store.set_value(f"node {booted.key}", done)


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """One process at a time, of all that use this store."""
    path = private(store.path.with_name("nodes.lock"))
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
