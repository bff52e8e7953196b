"""Brings the containers to what the rehearsal clouds say runs: each machine that is up has one, and
no other has. Owns what was last done with each, which the store keeps.
"""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from providers.home import private
from providers.rehearsal.nodes import docker, image, machine, mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.rehearsal.nodes.machine import Booted
    from providers.rehearsal.store import Store

_RUNS = ("running", "restarting", "paused")


class CloudNodes(Protocol):
    """What a cloud's `nodes` module offers: the keys of all machines that it has, stopped ones too;
    the machines that are up; and what becomes of one that powered itself off.
    """

    def existing(self, store: Store) -> frozenset[str]: ...
    def booted(self, store: Store) -> tuple[Booted, ...]: ...
    def powered_off(self, store: Store, key: str) -> None: ...


def nodes_of(provider: str) -> CloudNodes:
    """That module of a provider."""
    return cast("CloudNodes", import_module(f"providers.rehearsal.clouds.{provider}.nodes"))


def begin(store: Store) -> None:
    """Makes the image and the network that all machines need. Raises DockerError."""
    image.built()
    networks = docker.call("network", "ls", "--format", "{{.Name}}").split()
    if machine.NETWORK not in networks:
        docker.call("network", "create", "--subnet", machine.RANGE, machine.NETWORK)
    mode.choose(store, mode.DOCKER)


def end(store: Store) -> None:
    """Removes all containers of a store; from now on machines are played."""
    if mode.of(store) == mode.DOCKER:
        with _alone(store):
            for key in docker.containers(machine.label(store), machine.KEY_LABEL):
                machine.remove(store, key)
            mode.choose(store, mode.PLAYED)


def converge(store: Store) -> None:
    """Makes, boots and removes containers until they are what runs now. Nothing where machines are
    played. What Docker refuses is kept for those who wait for such a machine: it never answers.
    """
    if mode.of(store) != mode.DOCKER:
        return
    with _alone(store):
        try:
            found = docker.containers(machine.label(store), machine.KEY_LABEL)
            up = {
                each.key: (nodes_of(provider), each)
                for provider in mode.clouds()
                for each in nodes_of(provider).booted(store)
            }
            kept = frozenset[str]().union(
                *(nodes_of(provider).existing(store) for provider in mode.clouds())
            )
            for key in found.keys() - up.keys():
                if key not in kept:
                    machine.remove(store, key)
                    store.set_value(f"node {key}", "")
                elif found[key] in _RUNS:
                    machine.stop(store, key)
            for key, (cloud, booted) in up.items():
                _bring(store, cloud, booted, found.get(key, ""))
        except docker.DockerError as error:
            refused = str(error)
        else:
            refused = ""
        if refused != mode.refused(store):
            mode.refuse(store, refused)


def _bring(store: Store, cloud: CloudNodes, booted: Booted, state: str) -> None:
    kept = store.value(f"node {booted.key}")
    since, digest = json.loads(kept) if kept else (0.0, "")
    if not state:
        image.built()  # Another version of this package has another one.
        machine.create(store, booted)
    elif state == docker.OFF and booted.since == since:
        machine.keep_console(store, booted.key)
        cloud.powered_off(store, booted.key)
        return
    elif booted.since != since or state not in _RUNS:
        # Started again by its cloud; or Docker or its host went down, not the machine.
        machine.tell(store, booted)
        machine.restart(store, booted)
    elif digest != booted.digest:
        machine.tell(store, booted, now=True)
    else:
        return
    store.set_value(f"node {booted.key}", json.dumps([booted.since, booted.digest]))


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """One process at a time, of all that use this store."""
    path = private(store.path.with_name("nodes.lock"))
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
