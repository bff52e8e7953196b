"""Asks, candidates and prices in a few words. Pure; knows no plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.catalog import names
from providers.model import duration
from providers.model.ask import PREFERENCE
from providers.model.money import HOURS_PER_MONTH, per_hour, usd
from providers.model.offer import dated
from providers.model.stack import argument
from providers.planner import rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.ask import Ask, Choice
    from providers.model.offer import Candidate, Offer
    from providers.model.workload import Task

_RANKS = {
    "price": "cheapest first",
    "performance_per_dollar": "most work per dollar first",
    "expected": "least cost and wait first",
}
_OWN = "the image's own command"


def ask_text(ask: Ask) -> str:
    """`H100:8, else A100-80GB:8; spot, then on-demand; at most $60.00/h`: the whole ask in one
    line.
    """
    same = len({(entry.capacity, entry.nodes) for entry in ask.entries}) == 1
    texts = [
        f"{rules.title(entry)}:{entry.gpu_count}" + ("" if same else f" ({_terms(entry)})")
        for entry in ask.entries
    ]
    parts = [", else ".join(texts), *([_terms(ask.entries[0])] if same else [])]
    if ask.max_price_micro_usd is not None:
        parts.append(f"at most {per_hour(ask.max_price_micro_usd)}")
    if ask.providers:
        parts.append("at " + (", then " if ask.rank == PREFERENCE else " or ").join(ask.providers))
    if ask.marketplaces and not ask.providers:
        parts.append("strangers' hosts too")
    if ask.regions:
        parts.append("in " + " or ".join(ask.regions))
    if ask.rank in _RANKS:
        parts.append(_RANKS[ask.rank])
    return "; ".join(parts)


def _terms(entry: Choice) -> str:
    what = "replicas" if entry.replicas else "nodes"
    nodes = f"{entry.nodes} {what}, " if entry.nodes > 1 else ""
    return f"{nodes}{', then '.join(map(str, entry.capacity))}"


def with_name(text: str, cluster: str) -> str:
    """A note with the command that it tells ready to copy, where the cluster is known."""
    return text.replace("ssh NAME", f"ssh {cluster} {argument()}") if cluster else text


def work_text(ask: Ask, most: int) -> str:
    """What is started there, in at most so many characters: `vllm: openai/gpt-oss-120b, port 8000`,
    or `python train.py, in pytorch/pytorch:2.8.0`; empty where nothing is.
    """
    work = ask.workload
    if work is None:
        return ""
    tasks = [_task_text(task) for task in work.tasks] or [(_OWN, "")]
    first, port = tasks[0]
    more = len(tasks) - 1
    port += f", and {more} more program{'s' if more > 1 else ''}" if more else ""
    name = work.image.partition("@")[0].rpartition("/")[2]
    if len(first + port + name) + 5 > most:
        name = name.partition(":")[0]
    image = f", in {name}" if name else ""
    room = max(most - len(port + image), 1)
    return f"{first if len(first) <= room else f'{first[: room - 1]}…'}{port}{image}"


def _task_text(task: Task) -> tuple[str, str]:
    """`vllm: openai/gpt-oss-120b` and `, port 8000`."""
    lines = [line.strip() for line in (task.command or task.model).strip().splitlines()]
    what = " ".join("; ".join(filter(None, lines)).split())
    text = ": ".join(filter(None, (task.launcher, what))) or _OWN
    return text, f", port {task.port}" if task.port else ""


def meanings(ask: Ask) -> list[str]:
    """What the bare names of an ask mean, one line each;
    none for names that speak for themselves.
    """
    asked = (names.canonical(entry.gpu) for entry in ask.entries if entry.gpu and not entry.exact)
    return [text for name in dict.fromkeys(asked) if name and (text := names.meaning(name))]


def place_text(candidate: Candidate) -> str:
    """`gcp us-central1-a 2 x a3-highgpu-8g H100:8 spot`."""
    return " ".join(
        part
        for part in (
            candidate.provider,
            candidate.placement.where,
            machine_text(candidate),
            gpu_text(candidate),
            capacity_text(candidate),
        )
        if part
    )


def machine_text(candidate: Candidate) -> str:
    """`2 x a3-highgpu-8g`."""
    return f"{candidate.placement.times}{candidate.placement.machine}"


def size_text(offer: Offer) -> str:
    """`208 vCPUs and 1,872 GiB`: of one node, besides its GPUs."""
    return f"{offer.vcpus:g} vCPUs and {offer.memory_gib:,g} GiB"


def gpu_text(candidate: Candidate) -> str:
    """`H100:8`, per node."""
    return f"{candidate.gpu_type}:{candidate.offer.gpu_count:g}"


def capacity_text(candidate: Candidate) -> str:
    """`spot`, or `reservation(NAME)`."""
    return (
        f"{candidate.capacity}({candidate.reservation})"
        if candidate.reservation
        else candidate.capacity
    )


def price_text(candidate: Candidate) -> str:
    """`2026-07-30: vCPU + RAM + 8 x H100; not in it: boot disk, egress`: the price's date, its
    parts and what is left out.
    """
    offer = candidate.offer
    if offer.price_source == rules.OVERRIDE_SOURCE:
        text = "your own price (prices.overrides)"
    else:
        date = dated(offer.price_as_of) or "no date"
        text = f"{date}: {_each(candidate)}{offer.parts or 'whole machine'}"
    return f"{text}; not in it: {offer.left_out.replace('; ', ', ')}" if offer.left_out else text


def _each(candidate: Candidate) -> str:
    """`each node $1.41/h, `: of several, what one costs."""
    one = candidate.offer.node_micro_usd
    return f"each node {per_hour(one)}, " if candidate.nodes > 1 else ""


def change_line(now_micro: int | None, new_micro: int | None, what: str = "") -> str:
    """The change per hour: `+$26.11/h; nothing runs now`. `now_micro` is 0 when nothing runs, None
    when its price is unknown.
    """
    runs = f"{what} runs now at {per_hour(now_micro)}" if what else f"{per_hour(now_micro)} now"
    if now_micro == 0:
        runs = "nothing runs now"
    if new_micro is None:
        return f"none: there is nothing to change to; {runs}"
    if now_micro is None:
        return f"unknown: {what or 'what runs now'} has no known price; then {per_hour(new_micro)}"
    step = new_micro - now_micro
    return f"{'-' if step < 0 else '+'}{per_hour(abs(step))}; {runs}" if step else f"none; {runs}"


def run_text(ask: Ask, candidate: Candidate, *, short: bool = False) -> str:
    """`$194.15 if it runs 20h (ttl)`, `$64,598/month` where nothing ends it; empty for a job
    without a limit, which ends when its work is done.
    """
    if candidate.offer.term is not None:
        if candidate.offer.term.paid:
            return "paid already" if short else "$0 more: the block is paid already"
        whole = usd(candidate.offer.term.upfront_micro_usd)
        return f"${whole:,.2f}" + ("" if short else " for the block")
    ttl_s, micro = ask.entries[candidate.entry].ttl_s, candidate.micro_usd
    if not ttl_s:
        busy = " if always busy" if candidate.offer.by_use else ""
        return "" if ask.kind == "job" else f"{per_month(micro)}{busy}"
    if micro is None:
        return "no price"
    limit = "" if short else f" if it runs {duration.text(ttl_s)} (ttl)"
    return f"${usd(micro) * ttl_s / 3_600:,.2f}{limit}"


def run_cells(ask: Ask, candidates: Sequence[Candidate]) -> tuple[str, list[str]]:
    """(head, cell of each): dollars until its `ttl`, of a month where nothing ends it; all empty
    for jobs without a limit.
    """
    limited = any(entry.ttl_s for entry in ask.entries) or any(
        each.offer.term for each in candidates
    )
    if not limited and ask.kind == "job":
        return "", [""] * len(candidates)
    cells = [
        run_text(ask, each, short=True)
        if ask.entries[each.entry].ttl_s or each.offer.term or not limited
        else "no limit"
        for each in candidates
    ]
    return (
        "$/run" if limited else "$/month",
        [text.partition("/month")[0].removeprefix("$") for text in cells],
    )


def month_usd(micro: int | None) -> float | None:
    """Dollars for a month of 730 hours."""
    return None if micro is None else usd(micro * HOURS_PER_MONTH)


def per_month(micro: int | None) -> str:
    """`$64,598/month`, cents under a thousand dollars."""
    if micro is None:
        return "no price"
    month = micro * HOURS_PER_MONTH / 1_000_000
    return f"${month:,.0f}/month" if month >= 1_000 else f"${month:,.2f}/month"
