"""What `gpus rehearse` can see and do here: orders, servers, outbidding.
Owns no rows of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.rehearsal.clouds.clore import inventory
from providers.rehearsal.clouds.clore.state import PROVIDER, State, gpu_names
from providers.rehearsal.scenario import RehearsedMachine

if TYPE_CHECKING:
    from providers.rehearsal.store import Store

OVER = 2
"""A preemption is somebody's bid at this many times ours."""


def places() -> frozenset[str]:
    """Every country that a server stands in."""
    return frozenset(
        server["specs"]["net"]["cc"] for server in inventory.servers() if "specs" in server
    )


def machine_types() -> frozenset[str]:
    """Every server."""
    return frozenset(f"server-{server['id']}" for server in inventory.servers())


def gpus() -> frozenset[str]:
    """Every GPU, as the market writes it with blanks as dashes."""
    return frozenset(name for server in inventory.servers() for name in gpu_names(server))


def methods() -> frozenset[str]:
    """Every call that the stand-in answers."""
    from providers.rehearsal.clouds.clore.server import ROUTES

    return frozenset(name for _, name in ROUTES)


def preemptible() -> frozenset[str]:
    """The kinds of capacity that can be taken back."""
    return frozenset({"spot"})


def running(store: Store) -> tuple[RehearsedMachine, ...]:
    """Every order that stands now, whoever made it."""
    state, now = State(store), store.now()
    listed = {server["id"]: server for server in inventory.servers()}
    found = []
    for made in state.orders():
        if state.ends_at(made) is not None:
            continue
        server = listed[made.si]
        beaten = state.beaten_at(made) is not None
        status = "OUTBID" if beaten else "RUNNING" if made.up_at <= now else "STAGING"
        gpu = gpu_names(server)[0]
        country, capacity = server["specs"]["net"]["cc"], "spot" if made.spot else "on-demand"
        labels: dict[str, str] = {}
        found.append(
            RehearsedMachine(
                PROVIDER,
                f"order-{made.id}",
                status,
                country,
                f"server-{made.si}",
                gpu,
                len(server["gpu_array"]),
                capacity,
                labels,
                made.ct,
            )
        )
    return tuple(found)


def edit(store: Store, name: str, machine_type: str, gpu: str, count: int) -> int:
    """The host of the standing order of this name reports other GPUs from now on; how many orders
    that were.
    """
    del machine_type
    state = State(store)
    chosen = (
        [
            made
            for made in state.orders()
            if f"order-{made.id}" == name and state.ends_at(made) is None
        ]
        if gpu
        else []
    )
    for made in chosen:
        words = gpu.replace("-", " ")
        state.deliver(made.si, gpu_array=[words] * count, specs={"gpu": f"{count}x {words}"})
    return len(chosen)


def preempt(store: Store, name: str) -> int:
    """Outbids the standing spot order of this name; how many that were."""
    state = State(store)
    made = next(
        (
            made
            for made in state.orders()
            if f"order-{made.id}" == name and made.spot and state.ends_at(made) is None
        ),
        None,
    )
    if made is None or state.beaten_at(made) is not None:
        return 0
    state.bid(made.si, made.coin, made.per_day * OVER)
    return 1
