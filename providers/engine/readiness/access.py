"""Connections to a declared cluster's machines: a key pair made for it on this machine, its pinned
host keys, and the probe that uses them.

Owns the folder `home()/keys/<world>/<owner>/<cluster>`, only for this user: there before anything
is bought, gone once the delete is confirmed. What is in it never leaves this machine, nor is it in
a state; the public half goes onto the machines beside the user's own key. Another machine that
works on the same stack has no such folder: what it adopts is ready when the cloud says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.engine.keys import ClusterKeys, folder, make, opened
from providers.engine.record import works
from providers.engine.runtime.accounts import account_of
from providers.errors import GpusError
from providers.model.machine import Setup
from providers.model.worlds import REHEARSAL
from providers.rehearsal.node import StandInProbe
from providers.remote.probe import REACH, ProbeResult
from providers.remote.ssh import NoOpenSsh, SshProbe

if TYPE_CHECKING:
    from pathlib import Path

    from providers.engine.desired import ClusterSpec
    from providers.engine.record import Account, ClusterRecord
    from providers.engine.runtime.world import World
    from providers.model.ask import Ask
    from providers.model.machine import Handle, Node
    from providers.remote.probe import Ordered, Probe
    from providers.remote.ssh import Key

CHECKED = "checked"
DEFAULT_USER = Setup().ssh_user
ELSEWHERE = "it was not made from this machine, so the key to it is not here"
HINT = "`ready: running` is for networks where this machine cannot reach it by ssh"
OWN_HINT = "`ready: running` is for images in which no shell can be run"


def key_probe(
    world: World, owner: str, cluster: str, provider: str, *, pinned: bool = False
) -> SshProbe | StandInProbe | None:
    """What leads into a cluster's machines by the key that is kept here; None without one. Played
    machines need none, nor does a provider whose own program leads there. Reads the cluster's
    folder.
    """
    way = kept_or_none(world, owner, cluster)
    keyless = world.name == REHEARSAL or world.manifests[provider].console.program is not None
    if way.key is None and not keyless:
        return None
    return probe(world, way.key, way.known_hosts, way.nodes, pinned=pinned)


def kept_or_none(world: World, owner: str, cluster: str) -> ClusterKeys:
    """What is kept of a cluster here, or what would be, without a key. Reads the folder."""
    return opened(world.name, owner, cluster) or ClusterKeys(
        folder(world.name, owner, cluster), None
    )


def takes_key(world: World, ask: Ask) -> bool:
    """Whether any machine that may come of this takes a key: one's own have their users' keys."""
    able = {name: manifest.capabilities for name, manifest in world.manifests.items()}
    return any(
        each.ssh and ask.allows(name, marketplace=each.marketplace) for name, each in able.items()
    )


def probe(
    world: World,
    key: Key | None,
    known_hosts: Path,
    nodes: Path,
    *,
    pinned: bool = False,
    account: Account | None = None,
) -> SshProbe | StandInProbe:
    """How a cluster's machines are looked at: over ssh or by their provider's own program, or
    through their stand-ins in a rehearsal. Without a key only the program leads there.

    `account` is that of machines that are there already; without it they will be in that of the
    settings.
    """
    mapped = frozenset(
        name for name, manifest in world.manifests.items() if manifest.capabilities.maps_ports
    )
    own = {
        name: (manifest, {**world.settings.get(name, {}), **dict(account or ())})
        for name, manifest in world.manifests.items()
        if manifest.console.program is not None
        and (
            world.name != REHEARSAL
            or (manifest.capabilities.owned and not world.is_played(name, account))
        )
    }
    ssh = SshProbe(key, known_hosts, DEFAULT_USER, mapped, pinned, own)
    if world.name == REHEARSAL:
        from providers.rehearsal.store import open_store

        return StandInProbe(nodes, open_store(), ssh)
    return ssh


async def equipped(world: World, spec: ClusterSpec) -> ClusterSpec:
    """What is wanted, with the cluster's own key where a machine may take one, and a probe where
    readiness is to be checked.

    Raises GpusError where that needs OpenSSH and there is none; nothing was bought then.
    """
    if not spec.ready or spec.probe is not None:
        return spec
    checked = spec.ready == CHECKED
    way = kept_or_none(world, spec.owner, spec.cluster)
    if takes_key(world, spec.ask):
        try:
            way = await world.call("", make, world.name, spec.owner, spec.cluster)
        except NoOpenSsh as error:
            # A rehearsal's machines ask for no key, and nobody logs in to have one looked at that
            # is only to run.
            if checked and world.name != REHEARSAL:
                raise GpusError(
                    f"{spec.cluster}: nothing is bought: {error}; or set ready: running"
                ) from None
    if way.key is not None:
        spec = spec._replace(setup=spec.setup._replace(own_public_key=way.key.public))
    if not checked:
        return spec
    return spec._replace(
        probe=CheckedProbe(world, spec, way, probe(world, way.key, way.known_hosts, way.nodes))
    )


class CheckedProbe:
    """Looks into the machines of a declared cluster wherever the cluster's own key opens them;
    elsewhere their cloud's word will do, said once.
    """

    def __init__(self, world: World, spec: ClusterSpec, way: ClusterKeys, inner: Probe) -> None:
        self._world, self._wanted, self._way, self._inner = world, spec, way, inner
        self._told: set[str] = set()
        self._bearing: set[Handle] = set()

    async def __call__(self, node: Node, placed: Ordered) -> ProbeResult:
        why = self._closed(node, placed)
        if not why:
            look = await self._inner(node, placed)
            hint = (
                HINT
                if self._world.manifests[node.handle.provider].console.program is None
                else OWN_HINT
            )
            return look._replace(note=hint) if look.stage in REACH else look
        if why not in self._told:
            self._told.add(why)
            self._world.report(
                "info",
                f"{self._wanted.cluster}: ready as {placed.provider} reports it, its GPUs not"
                f" looked at: {why}",
            )
        return ProbeResult()

    def way(self, node: Node, placed: Ordered) -> Probe:
        """What leads into this machine. Raises GpusError where nothing here does."""
        if why := self._closed(node, placed):
            raise GpusError(why)
        return self._inner

    def _closed(self, node: Node, placed: Ordered) -> str:
        """Why nothing here leads into this machine; empty where the key does, or its provider's own
        program with the credentials.
        """
        section = dict(self._wanted.setup.options).get(node.handle.provider)
        setup = self._wanted.setup._replace(
            options=tuple(sorted(section.items())) if isinstance(section, dict) else ()
        )
        if why := why_unreachable(self._world, node.handle.provider, placed, setup):
            return why
        own = self._world.manifests[node.handle.provider].console.program is not None
        return "" if own or self._bears(node.handle) else ELSEWHERE

    def _bears(self, handle: Handle) -> bool:
        """True when this machine's journal says that it was ordered with the key
        that is kept here.
        """
        if handle not in self._bearing:
            for entry in self._world.journal.orders(
                self._world.name, self._wanted.owner, self._wanted.cluster
            ):
                if entry.order.setup.own_public_key == self._way.public:
                    self._bearing.update(entry.handles)
        return handle in self._bearing


def why_unreachable(world: World, provider: str, placed: Ordered, setup: Setup) -> str:
    """Why this provider's machines of that setup take no login from here, neither with an own key
    nor by its program; empty where they do. Pure.
    """
    manifest = world.manifests[provider]
    if manifest.console.program is not None:
        own = placed.kind != "machine" and placed.kind in manifest.capabilities.kinds
        return f"a {placed.kind} at {provider} takes no commands" if own else ""
    if not manifest.capabilities.ssh:
        return f"{provider} takes no ssh"
    return (
        manifest.limits.unreachable(placed.placement, setup)
        if manifest.limits.unreachable is not None
        else ""
    )


def connection(world: World, record: ClusterRecord) -> SshProbe | StandInProbe | str:
    """How the machines of a declared cluster are logged into from here, or why they are not. Reads
    the journal and the cluster's folder.
    """
    if record.kind != "machine" and not works(record):
        return (
            f"it is a {record.kind} of {record.provider}'s own, in which nobody logs in; `gpus logs"
            f" {record.cluster}` shows what it writes"
        )
    if world.manifests[record.provider].console.program is not None:
        if why := why_unreachable(world, record.provider, record, Setup()):
            return why
        # The account's credentials open it, also what another machine bought.
        place = ClusterKeys(folder(world.name, record.owner, record.cluster), None)
        return probe(world, None, place.known_hosts, place.nodes, account=account_of(world, record))
    entries = world.journal.orders(world.name, record.owner, record.cluster)
    order = next(
        (entry.order for entry in entries if set(entry.handles) & set(record.handles)), None
    )
    if order is None:
        return ELSEWHERE
    if why := why_unreachable(world, record.provider, record, order.setup):
        return why
    way = opened(world.name, record.owner, record.cluster)
    key = way.key if way is not None else None
    if world.name != REHEARSAL and (key is None or key.public != order.setup.own_public_key):
        return "the key that it was ordered with is not here"
    place = ClusterKeys(folder(world.name, record.owner, record.cluster), key)
    return probe(world, key, place.known_hosts, place.nodes)
