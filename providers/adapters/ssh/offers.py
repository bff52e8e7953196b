"""What machines of one's own have to offer: an offer a machine, or one of several machines together
where a cluster has several nodes. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.ssh.errors import PROVIDER
from providers.model.ask import ON_DEMAND
from providers.model.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from providers.adapters.ssh.agent import Card, Facts
    from providers.adapters.ssh.inventory import Machine
    from providers.model.ask import Ask

REGION = "own"
TOGETHER = "own-machines"
"""The machine type of several machines as one cluster: which ones, is seen when they are taken."""
SOURCE = "your inventory"


class Look(NamedTuple):
    """What one machine told, or why it told nothing."""

    machine: Machine
    facts: Facts | None
    why: str = ""


def usable(machine: Machine, facts: Facts) -> tuple[Card, ...]:
    """The cards that the inventory lets be used."""
    return tuple(card for card in facts.cards if not machine.gpus or card.number in machine.gpus)


def lacking(machine: Machine, facts: Facts) -> str:
    """What the inventory names and the machine does not have, with what to do; empty for none."""
    has = [card.number for card in facts.cards]
    absent = [number for number in machine.gpus if number not in has]
    if not absent:
        return ""
    return (
        f"{machine.name}: the inventory's gpus name {_numbers(absent)}, and nvidia-smi there shows"
        f" {_numbers(has) or 'none'}; name only cards that it has"
    )


def _numbers(given: Sequence[int]) -> str:
    return ", ".join(map(str, given))


def free(machine: Machine, facts: Facts, gpu_type: str) -> tuple[str, ...]:
    """Of those, the ones of a model that nobody uses."""
    taken = facts.lent | facts.used
    return tuple(
        card.uuid
        for card in usable(machine, facts)
        if card.model == gpu_type and card.uuid not in taken
    )


TOOLS = {
    "docker": (
        "Docker, which an image needs",
        "add the user to the group docker there, or run Docker rootless",
    ),
    "mount-s3": ("mount-s3, by which s3:// is mounted", "install it there"),
    "allow-other": (
        "leave to show a mount to Docker",
        "put user_allow_other into /etc/fuse.conf there",
    ),
    "rsync": ("rsync, by which a folder is sent", "install it there"),
}
"""What a workload may need of a machine beside its cards: what that is, and how to get it. Nothing
is installed on a machine of one's own.
"""


def needs(ask: Ask) -> tuple[str, ...]:
    """Which of those a declaration needs."""
    workload = ask.workload
    image = ask.image or (workload.image if workload is not None else "")
    mounts = workload is not None and workload.mounts
    return tuple(
        tool
        for tool, needed in {
            "docker": image,
            "mount-s3": mounts,
            "allow-other": image and mounts,
            "rsync": workload is not None and workload.workdir,
        }.items()
        if needed
    )


def folders(ask: Ask) -> tuple[str, ...]:
    """The folders of the machine itself that a declaration mounts something at: an image has its
    own.
    """
    workload = ask.workload
    if workload is None or ask.image or workload.image:
        return ()
    return tuple(mount.path.rstrip("/") for mount in workload.mounts)


def without(facts: Facts, needed: Sequence[str]) -> str:
    """What of that its user does not have there, with what to do; empty for nothing."""
    user = facts.user or "its user"
    missing = next((tool for tool in needed if tool not in facts.tools), "")
    if missing:
        what, todo = TOOLS[missing]
        return f"{user} has not {what}; {todo}"
    if facts.unfit:
        folder, why = facts.unfit[0]
        todo = f"make it a free folder of {user}'s own, mount elsewhere, or declare an image"
        return f"{user} can mount nothing at {folder}: {why}; {todo}"
    return ""


def fits(machine: Machine, section: Mapping[str, object]) -> bool:
    """Whether the options let this machine be used."""
    names, labels = section.get("machines"), section.get("labels")
    if isinstance(names, (list, tuple)) and machine.name not in names:
        return False
    if isinstance(labels, dict):
        own = dict(machine.labels)
        return all(own.get(str(name)) == str(word) for name, word in labels.items())
    return True


def listed(
    looks: Sequence[Look],
    day: str,
    counts: Collection[int],
    needed: Sequence[str],
    *,
    alone: bool,
    together: bool,
) -> list[Offer]:
    """The offers, for so many cards a node and what is `needed` there: of each machine `alone`, and
    of all `together`.
    """
    found: list[Offer] = []
    shared: dict[tuple[str, int], Offer] = {}
    for offer in _each(looks, day, counts, needed):
        if alone:
            found.append(offer)
        if not together or offer.restriction:
            continue
        key = (offer.gpu_type, int(offer.gpu_count))
        pool = offer._replace(zone="", machine_type=TOGETHER)
        other = shared.get(key)
        if other is not None:
            prices = (other.node_micro_usd, pool.node_micro_usd)
            # Of several prices the highest: the cluster costs at most that.
            most = None if None in prices else max(price or 0 for price in prices)
            pool = other._replace(node_micro_usd=most)
        shared[key] = pool
    return [*found, *shared.values()]


def _each(
    looks: Sequence[Look], day: str, counts: Collection[int], needed: Sequence[str]
) -> Iterator[Offer]:
    for machine, facts, _ in looks:
        if facts is None:
            continue
        cards, lacks = usable(machine, facts), without(facts, needed)
        for gpu_type in sorted({card.model for card in cards if card.model}):
            own = [card for card in cards if card.model == gpu_type]
            left = len(free(machine, facts, gpu_type))
            for count in sorted(counts or {*(1 << n for n in range(5)), len(own)}):
                if count > len(own):
                    continue
                why = f"{left} of its {len(own)} {gpu_type} are free" if left < count else lacks
                yield Offer(
                    PROVIDER,
                    REGION,
                    machine.name,
                    machine.name,
                    gpu_type,
                    count,
                    ON_DEMAND,
                    None if machine.micro_usd is None else machine.micro_usd * count,
                    day,
                    SOURCE,
                    gpu_memory_gib=min(card.mib for card in own) / 1024,
                    parts="your own machine",
                    restriction=why,
                )
