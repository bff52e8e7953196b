"""A declaration's acceptable choices, in order: what its GPUs, fallbacks and times compile to."""

from __future__ import annotations

from providers.errors import Problem, SpecError, in_words
from providers.model import ask as asks
from providers.model.ask import Capacity, Choice
from providers.model.duration import seconds_of
from providers.model.spec_fields import ClusterFields, Fallback, Gpu


def choices_of(cluster: ClusterFields) -> tuple[list[Choice], list[Problem]]:
    """Every acceptable choice in order, and what is wrong with them."""
    problems: list[Problem] = []
    wait_s = seconds_of(cluster.wait, "wait", problems)
    ttl_s = seconds_of(cluster.ttl, "ttl", problems, asks.TTL_LEAST_S)
    listed = cluster.gpu if isinstance(cluster.gpu, tuple) else (cluster.gpu,)
    if not listed:
        problems.append(Problem("gpu", 'a GPU such as "H100:8"', "an empty list"))
    spot, ordered = cluster.spot, cluster.capacity
    choices: list[tuple[str, str | Gpu | Fallback]] = []
    for index, item in enumerate(listed):
        path = f"gpu[{index}]" if isinstance(cluster.gpu, tuple) else "gpu"
        choices.append((path, item))
        if isinstance(item, Gpu):
            choices.extend((f"{path}.fallback[{i}]", more) for i, more in enumerate(item.fallback))
            if item.spot is not None and cluster.spot is not None and item.spot != cluster.spot:
                problems.append(
                    Problem(
                        f"{path}.spot",
                        f"{cluster.spot}, as the cluster says",
                        item.spot,
                        "say it once",
                    )
                )
            elif item.spot is not None and spot is None and ordered is None:
                spot = item.spot
    choices.extend((f"fallback[{index}]", item) for index, item in enumerate(cluster.fallback))
    try:
        default = asks.capacities(spot, ordered)
    except SpecError as error:
        problems.extend(error.problems)
        default = (Capacity(asks.ON_DEMAND),)
    entries = [
        entry
        for path, item in choices
        if (entry := _choice(path, item, cluster, default, wait_s, ttl_s, problems)) is not None
    ]
    places: dict[tuple[object, ...], str] = {}
    for entry in entries:
        key = (
            entry.gpu.casefold(),
            entry.gpu_count,
            entry.exact,
            entry.min_memory_gib,
            entry.nodes,
            entry.capacity,
        )
        if key in places:
            problems.append(
                Problem(
                    entry.path,
                    "a choice that is not listed yet",
                    f"the same as {in_words(places[key])}",
                    "remove it",
                )
            )
        places.setdefault(key, entry.path)
    return entries, problems


def _choice(
    path: str,
    item: str | Gpu | Fallback,
    cluster: ClusterFields,
    default: tuple[Capacity, ...],
    wait_s: int | None,
    ttl_s: int | None,
    problems: list[Problem],
) -> Choice | None:
    text = item if isinstance(item, str) else item.type if isinstance(item, Gpu) else item.gpu or ""
    memory = None if isinstance(item, str) else item.min_memory_gib
    name, exact, count = "", False, None
    try:
        if text:
            name, exact, count = asks.gpu_text(text, path)
        elif memory is None:
            raise SpecError(
                [Problem(path, 'a GPU such as "H100:8"', repr(text) if text else "nothing")]
            )
        if isinstance(item, Gpu):
            problems.extend(
                problem._replace(path=f"{path}.{problem.path}")
                for problem in item.semantic()
                if problem.path in {"count", "fallback"}
            )
            count = item.count if count is None else count
        kinds = default
        if isinstance(item, Fallback) and (item.spot is not None or item.capacity is not None):
            kinds = asks.capacities(item.spot, item.capacity, path)
    except SpecError as error:
        problems.extend(error.problems)
        return None
    nodes = item.nodes if isinstance(item, Fallback) and item.nodes is not None else cluster.nodes
    if isinstance(item, Fallback):
        wait_s = (
            seconds_of(item.wait, f"{path}.wait", problems) if item.wait is not None else wait_s
        )
        ttl_s = (
            seconds_of(item.ttl, f"{path}.ttl", problems, asks.TTL_LEAST_S)
            if item.ttl is not None
            else ttl_s
        )
    return Choice(
        gpu=name,
        gpu_count=count or 1,
        path=path,
        exact=exact,
        min_memory_gib=memory,
        nodes=cluster.replicas or nodes,
        capacity=kinds,
        wait_s=asks.DEFAULT_WAIT_S if wait_s is None else wait_s,
        ttl_s=ttl_s,
        override=item.override() if isinstance(item, Fallback) else None,
        replicas=cluster.replicas is not None,
    )
