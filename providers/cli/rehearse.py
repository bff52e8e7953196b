"""`gpus rehearse`: shows the rehearsal world and edits its scenario. Owns the command's words and
the text it prints; thin over the store.

What a cloud has and runs comes from its stand-in's `console` module, found by folder, so a new
rehearsal cloud needs no edit here.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from providers.cli.arguments import Parser
from providers.cli.rehearse_state import NEVER, clock_text, shown, state
from providers.cli.rehearse_words import (
    EVERYTHING,
    LONGEST_S,
    clouds,
    console,
    known,
    seconds,
    setting,
    unplaced,
    whole,
    wrong,
)
from providers.engine.journal.journal import Journal
from providers.errors import GpusError
from providers.home import JOURNAL_FILE, home, remedy
from providers.model.ask import BLOCK, CAPACITIES
from providers.model.duration import text as duration_text
from providers.model.worlds import REHEARSAL
from providers.rehearsal.nodes import converge, mode
from providers.rehearsal.scenario import (
    ANY,
    FAULTS,
    JOB_FAILS,
    LATENCIES_S,
    NODE_LOOK,
    NODE_LOOKS,
    NODE_WORK,
)
from providers.rehearsal.store import AHEAD_MAX_S, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.rehearsal.store import Store

KINDS = (*CAPACITIES, BLOCK)
"""The kinds of capacity that a place can have some of."""


def run(argv: Sequence[str]) -> int:
    """Carries out one `gpus rehearse` command and prints the outcome; 0. Raises GpusError, worth
    one line, for everything a user can get wrong.
    """
    options = parser().parse_args(list(argv))
    import sqlite3

    try:
        store = open_store()
        said = options.do(store, options) if options.do else ""
        converge.converge(store)
        found = state(store) if options.json or not said else {}
    except sqlite3.Error as error:
        todo = remedy(error, f"move {home() / 'rehearsal.db'} away to start over")
        raise GpusError(f"the rehearsal store cannot be used ({error}); {todo}") from error
    if options.json:
        import json

        print(json.dumps(found, indent=2))
    else:
        print(said or "\n".join(shown(found)))
    return 0


def _kind(name: str) -> str:
    """A kind of failure with its meaning, as the end of a help text has it."""
    import textwrap

    return textwrap.fill(
        f"{name:<16}{FAULTS[name]}", 79, initial_indent="  ", subsequent_indent=" " * 18
    )


def parser() -> Parser:
    """Its arguments."""
    shared = Parser(add_help=False)
    shared.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print the whole state as JSON afterwards",
    )
    made = Parser(
        prog="gpus rehearse",
        description="Show the rehearsal clouds, or change what they will do next.",
    )
    made.add_argument("--json", action="store_true", help="print the whole state as JSON")
    made.set_defaults(do=None)
    commands = made.add_subparsers(metavar="COMMAND", parser_class=Parser)

    def command(name: str, do: Any, text: str, /, **names: str) -> argparse.ArgumentParser:
        found: argparse.ArgumentParser = commands.add_parser(
            name, help=text.partition(";")[0], description=text, parents=[shared]
        )
        for key, meaning in names.items():
            found.add_argument(key, help=meaning)
        found.set_defaults(do=do)
        return found

    command(
        *("stock", _stock, "how many machines a place has"),
        provider=", ".join(clouds()),
        place="a zone, a region, or '*'",
        what="a machine type, a GPU, or '*'",
        capacity=f"{', '.join(KINDS)}, or '*'",
        count="how many exist, those that run included; or unlimited",
    )
    command(
        "latency",
        _latency,
        "how long a step takes",
        provider=", ".join(clouds()),
        step=", ".join(LATENCIES_S),
        duration="such as 2s, 0.5s, 10m",
    )
    command(
        "quota",
        _quota,
        "the account's limit",
        provider=", ".join(clouds()),
        place="a region, or '*' for the whole account",
        metric="the cloud's name",
        count="the limit",
    )
    fault = command("fault", _fault, "plan a failure")
    fault.formatter_class = argparse.RawDescriptionHelpFormatter
    fault.epilog = "\n".join(["kinds:", *map(_kind, FAULTS)])
    fault.add_argument("provider", nargs="?", help=", ".join(clouds()))
    fault.add_argument(
        "method", nargs="?", help="a call such as instances.delete; * matches any part"
    )
    fault.add_argument("kind", nargs="?", help="what happens, as listed below")
    fault.add_argument("--times", default="1", help="how often; or always")
    fault.add_argument("--place", default=EVERYTHING, help="only in this zone or region")
    fault.add_argument("--machine-type", default=EVERYTHING, help="only for this machine type")
    fault.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the kind, such as code=QUOTA_EXCEEDED",
    )
    fault.add_argument("--clear", action="store_true", help="drop every planned failure")
    command(
        "preempt",
        _preempt,
        "take machines back now that may be taken back: Spot ones,"
        " and containers that a cloud moves",
        name="a machine's name, or all",
    )
    command(
        *(
            "edit",
            _edit,
            "change a running machine behind the stack's back, as by hand at its cloud",
        ),
        name="a machine's name",
        what="another machine type, or GPU:COUNT, as far as the cloud can change it",
    )
    command(
        "idle",
        _idle,
        "from now on a machine's GPUs have nothing to do",
        name="a machine's name, or all",
    )
    nodes = command("nodes", _nodes, "how machines run")
    nodes.add_argument(
        "kind", nargs="?", help="; ".join(f"{kind}: {text}" for kind, text in mode.MODES.items())
    )
    command("advance", _advance, "move the world's clock ahead", duration="such as 10m, 20h, 7d")
    reset = command("reset", _reset, "forget everything and begin again with the default scenario")
    reset.add_argument("--yes", action="store_true", help="also when machines exist")
    return made


# What a cloud knows


# Commands


def _stock(store: Store, options: argparse.Namespace) -> str:
    cloud = console(options.provider)
    place = known("place", options.place, cloud.places(), f"a zone or region of {options.provider}")
    machine_type = gpu = ANY
    if options.what in cloud.machine_types():
        machine_type = options.what
    else:
        gpu = known(
            "what", options.what, cloud.gpus() | cloud.machine_types(), "a machine type or GPU"
        )
    capacity = known("capacity", options.capacity, KINDS, f"one of {', '.join(KINDS)}")
    count = None if options.count == "unlimited" else whole("count", options.count)
    # A queued request is served by what was there until now, before that changes.
    cloud.running(store)
    with store.transaction():
        dropped = store.drop_covered(options.provider, place, machine_type, capacity, gpu)
        store.set_stock(options.provider, place, machine_type, capacity, count, gpu)
    much = (
        "no end of machines"
        if count is None
        else "sold out"
        if count == 0
        else f"{count} machine{'s' if count > 1 else ''}"
    )
    instead = f"; replaces {dropped} earlier line{'s' if dropped > 1 else ''}" if dropped else ""
    kinds = unplaced(options.provider).get(place, frozenset()) if count != 0 else frozenset()
    none = (
        f"; {NEVER}"
        if any(machine_type == name or (gpu and gpu == card) for name, card in kinds)
        else ""
    )
    return (
        f"{options.provider} {place or 'all places'} {machine_type or gpu or 'all machines'}"
        f" {capacity or 'any capacity'}: {much}{instead}{none}"
    )


def _latency(store: Store, options: argparse.Namespace) -> str:
    console(options.provider)
    step = known("step", options.step, LATENCIES_S, f"one of {', '.join(LATENCIES_S)}")
    if not step:
        raise wrong("step", f"one of {', '.join(LATENCIES_S)}", options.step)
    took = seconds("duration", options.duration, LONGEST_S)
    store.set_latency(options.provider, step, took)
    return f"{options.provider} {step}: {took:g}s"


def _quota(store: Store, options: argparse.Namespace) -> str:
    place = known(
        "place",
        options.place,
        console(options.provider).places(),
        f"a region of {options.provider}",
    )
    limit = whole("count", options.count)
    store.set_quota(options.provider, place, options.metric, limit)
    _forget(lambda journal: journal.forget_closures(REHEARSAL, options.provider))
    return f"{options.provider} {place or 'everywhere'} {options.metric}: {limit}"


def _fault(store: Store, options: argparse.Namespace) -> str:
    from fnmatch import fnmatchcase

    if options.clear:
        store.clear_faults()
        return "no planned failures"
    if not options.kind:
        raise GpusError(
            "gpus rehearse fault: wanted PROVIDER METHOD KIND, or --clear; see `gpus rehearse fault"
            " --help`"
        )
    cloud = console(options.provider)
    # What happens on a node is no call of the cloud's, and can fail all the same.
    calls = cloud.methods() | {*NODE_LOOKS, NODE_WORK}
    if not any(fnmatchcase(name, options.method) for name in calls):
        known("method", options.method, calls, f"a call of {options.provider}, with * for any part")
    if options.method in {NODE_LOOK, NODE_WORK} and mode.runs(store, options.provider):
        raise wrong("method", "a call of the cloud's: machines really run here", options.method)
    if options.kind not in FAULTS:
        known("kind", options.kind, FAULTS, f"one of {', '.join(FAULTS)}")
    times = None if options.times == "always" else whole("times", options.times)
    if times == 0:
        raise wrong("times", "a number from 1, or always", options.times)
    place = known("place", options.place, cloud.places(), f"a zone or region of {options.provider}")
    machine_type = known(
        "machine-type", options.machine_type, cloud.machine_types(), "a machine type"
    )
    settings: dict[str, object] = {}
    for item in options.set:
        key, separator, value = item.partition("=")
        if (
            not separator
            or not key.isidentifier()
            or key in {"place", "machine_type", "provider", "method", "kind", "times", "self"}
        ):
            raise wrong("set", "NAME=VALUE", item)
        settings[key] = setting(options.provider, key, value)
    if options.kind == JOB_FAILS:
        # What a machine's work ends with is settled as it is made, and looking does not use it up.
        times = None
    number = store.add_fault(
        options.provider,
        options.method,
        options.kind,
        times,
        place=place,
        machine_type=machine_type,
        **settings,
    )
    often = "always" if times is None else "once" if times == 1 else f"{times} times"
    return f"planned failure {number}: {options.provider} {options.method}: {options.kind}, {often}"


def _preempt(store: Store, options: argparse.Namespace) -> str:
    existing = [machine for cloud in clouds() for machine in console(cloud).running(store)]
    able = [
        machine
        for machine in existing
        if machine.capacity in console(machine.provider).preemptible()
        and machine.status in {"STAGING", "RUNNING"}
    ]
    chosen = (
        able
        if options.name == "all"
        else [machine for machine in able if machine.name == options.name]
    )
    if options.name != "all" and not chosen:
        other = next((machine for machine in existing if machine.name == options.name), None)
        found = f"{options.name} ({other.capacity}, {other.status})" if other else options.name
        raise wrong(
            "name",
            "a running machine that can be taken back",
            found,
            f"running: {', '.join(machine.name for machine in able) or 'none'}",
        )
    taken = [
        machine.name for machine in chosen if console(machine.provider).preempt(store, machine.name)
    ]
    return (
        f"preempted: {', '.join(taken)}"
        if taken
        else "no Spot machine runs, nor another that can be taken back"
    )


def _edit(store: Store, options: argparse.Namespace) -> str:
    existing = [machine for cloud in clouds() for machine in console(cloud).running(store)]
    machine = next((machine for machine in existing if machine.name == options.name), None)
    if machine is None:
        raise wrong(
            "name",
            "a machine",
            options.name,
            f"there are: {', '.join(machine.name for machine in existing) or 'none'}",
        )
    cloud = console(machine.provider)
    change = getattr(cloud, "edit", None)
    if change is None:
        raise wrong(
            "name",
            "a machine that can be changed",
            options.name,
            f"{machine.provider} lets nobody edit one",
        )
    machine_type, gpu, count = (
        (options.what, "", 0)
        if options.what in cloud.machine_types()
        else ("", *_cards(options.what))
    )
    if not change(store, machine.name, machine_type, gpu, count):
        wanted = "GPU:COUNT" if machine_type else "a machine type: its GPUs come with it"
        raise wrong(
            "what", f"what {machine.provider} can change of {machine.name}, {wanted}", options.what
        )
    return f"{machine.name}: {machine_type or f'{gpu}:{count}'} from now on"


def _cards(text: str) -> tuple[str, int]:
    """(GPU, count) of `T4:1`."""
    from providers.catalog.names import canonical
    from providers.model.ask import gpu_text

    read = gpu_text(text, "what")
    return canonical(read.type) or read.type, read.gpu_count or 1


def _idle(store: Store, options: argparse.Namespace) -> str:
    from datetime import UTC, datetime

    running = [
        machine
        for cloud in clouds()
        for machine in console(cloud).running(store)
        if machine.status.casefold() == "running"
    ]
    chosen = (
        running
        if options.name == "all"
        else [machine for machine in running if machine.name == options.name]
    )
    if not chosen:
        raise wrong(
            "name",
            "a running machine",
            options.name,
            f"running: {', '.join(machine.name for machine in running) or 'none'}",
        )
    said = []
    for machine in chosen:
        store.go_idle(machine.name)
        ends = getattr(console(machine.provider), "idle", None)
        moment = ends(store, machine.name) if ends is not None else 0.0
        at = (
            "ends itself at"
            f" {datetime.fromtimestamp(moment, UTC).strftime('%Y-%m-%d %H:%M:%S UTC')}"
            if moment
            else "has no timer of its own"
        )
        said.append(f"{machine.name}: idle, {at}")
    return "\n".join(said)


def _advance(store: Store, options: argparse.Namespace) -> str:
    left = max(0.0, AHEAD_MAX_S - store.offset())
    moved = seconds("duration", options.duration, left)
    store.advance(moved)
    return f"{duration_text(moved)} later: {clock_text(store)}"


def _nodes(store: Store, options: argparse.Namespace) -> str:
    if options.kind is None:
        return f"{mode.of(store)}: {mode.MODES[mode.of(store)]}"
    kind = known("kind", options.kind, mode.MODES, f"one of {', '.join(mode.MODES)}")
    existing = [machine.name for cloud in clouds() for machine in console(cloud).running(store)]
    if existing and kind != mode.of(store):
        raise GpusError(
            f"nodes: wanted no machine while this changes, found {len(existing)}"
            f" ({', '.join(existing[:3])}); destroy them first, or: gpus rehearse reset --yes"
        )
    if kind == mode.DOCKER:
        converge.begin(store)
    left = "" if kind == mode.DOCKER else converge.end(store, data=False)
    which = f", at {' and '.join(mode.clouds())}" if kind == mode.DOCKER else ""
    return f"{kind}{which}: {mode.MODES[kind]}{f'; {left}' if left else ''}"


def _reset(store: Store, options: argparse.Namespace) -> str:
    existing = [machine.name for cloud in clouds() for machine in console(cloud).running(store)]
    if existing and not options.yes:
        raise GpusError(
            f"reset: {len(existing)} of the machines here would vanish unseen"
            f" ({', '.join(existing[:3])}); destroy first, or add --yes"
        )
    ran, ahead, now = mode.of(store) == mode.DOCKER, store.offset(), store.now()
    left = converge.end(store, data=True)
    store.reset()
    # What was sold out in the world that is forgotten says nothing about the new one.
    _forget(lambda journal: journal.unblock(REHEARSAL))
    _forget(lambda journal: journal.forget_closures(REHEARSAL))
    _forget(lambda journal: journal.forget_tries(REHEARSAL))
    _forget(lambda journal: journal.forget_volumes(REHEARSAL, now))
    _forget(lambda journal: journal.set_back(REHEARSAL, ahead))
    said = ["the rehearsal begins again with the default scenario"]
    said += [f"machines are {mode.PLAYED}; for containers: gpus rehearse nodes docker"] * ran
    return "; ".join([*said, *([left] if left else [])])


def _forget(what: Callable[[Journal], object]) -> None:
    """Takes something out of the journal, where there is one."""
    if (home() / JOURNAL_FILE).exists():
        journal = Journal(home() / JOURNAL_FILE)
        try:
            what(journal)
        finally:
            journal.close()


# Showing
