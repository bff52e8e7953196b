"""How a claim of the project's first documents is judged: by the sizing, the catalog, the adapters
and the launchers, never by hand.

Owns the record of a row and the ways to check one. A price is stale when it is off by more than
STALE_ABOVE; a placement does not fit when the sizing says no. What only a program's documentation
can say is `documented`, with its source and date, and no more than that.
"""

import ast
import builtins
import subprocess
from collections.abc import Callable
from typing import NamedTuple

from providers.catalog import offers
from providers.catalog.hardware import hardware
from providers.errors import SpecError
from providers.model.money import usd
from providers.model.workload import Task, Workload
from providers.workloads.launch.compile import program
from providers.workloads.launch.recipes import RECIPES
from providers.workloads.sizing import gpus
from providers.workloads.sizing.architecture import find
from providers.workloads.sizing.gpus import FITS, TIGHT, Serve, Train, judge

RIGHT, WRONG, STALE, NO_FIT = "right", "wrong", "stale", "does not fit"
VERDICTS = (RIGHT, WRONG, STALE, NO_FIT)
STALE_ABOVE = 1.10
"""A claimed price that differs from the catalog's by more than this factor, up or down, is stale.
"""


class Found(NamedTuple):
    """What a check says: the verdict, its reason in one line, and what said so."""

    verdict: str
    reason: str
    by: str


class Row(NamedTuple):
    """One command or table row: the document, the claim in English, the verdict that stands in the
    table, and the check that must agree.
    """

    seed: str
    claim: str
    verdict: str
    check: Callable[[], Found]


def holds(seed, claim, verdict, condition, reason, by):
    """A row whose claim is a condition: right exactly where it holds; where it does not, the
    verdict is the one given.
    """

    def check():
        said = condition()
        return Found(
            RIGHT if said else verdict if verdict != RIGHT else WRONG,
            reason() if callable(reason) else reason,
            by,
        )

    return Row(seed, claim, verdict, check)


def documented(seed, claim, verdict, reason, source):
    """A row that the program's own documentation decides. `source` has its date."""
    return Row(seed, claim, verdict, lambda: Found(verdict, reason, f"documentation: {source}"))


def fits(seed, claim, verdict, model, dtype, gpu, count, *, context=8192, more=""):
    """A row that the serving of a model on so many GPUs decides: right where it fits, if only just."""
    return Row(
        seed,
        claim,
        verdict,
        lambda: _sized(
            judge(find(model), Serve(dtype, context), gpu, count),
            f"{dtype}, {context:,} tokens",
            more,
        ),
    )


def trains(seed, claim, verdict, model, method, gpu, count, *, more=""):
    """A row that the training of a model on so many GPUs decides."""
    return Row(
        seed,
        claim,
        verdict,
        lambda: _sized(judge(find(model), Train(method), gpu, count), method, more),
    )


def _sized(found, how, more):
    verdict = RIGHT if found.answer in (FITS, TIGHT) else NO_FIT
    split = f", {found.split}" if found.split and found.split not in how else ""
    return Found(
        verdict,
        f"{how}{split}: {found.answer}, {found.reason}{f'; {more}' if more else ''}",
        "sizing",
    )


def serves(model, dtype, gpu, count, context=8192):
    """Whether so many of a card hold a model for serving."""
    return judge(find(model), Serve(dtype, context), gpu, count).answer in (FITS, TIGHT)


def priced(seed, claim, verdict, gpu, count, claimed, *, hours=1.0, providers=()):
    """A row that today's catalog price decides, for a machine or for a run of so many hours. A card
    without a price is stale: nothing dates it.
    """

    def check():
        offer = next(
            (
                each
                for each in gpus.sold(providers=providers)
                if each.gpu_type == gpu and each.gpu_count == count
            ),
            None,
        )
        if offer is None:
            return Found(
                STALE,
                f"an undated figure of a marketplace; no bundled price of {gpu} x {count}: `gpus"
                " plan` asks the market itself",
                "catalog",
            )
        now = usd(offer.micro_usd) * hours
        off = max(now / claimed, claimed / now)
        what = (
            f"{hours:g} h x ${usd(offer.micro_usd):.2f} = ${now:.2f}"
            if hours != 1.0
            else f"${now:.2f}"
        )
        reason = (
            f"{what} at {offer.provider} ({offer.machine_type}, price of {offer.as_of}); the claim"
            f" is off by a factor of {off:.2f}"
        )
        return Found(RIGHT if off <= STALE_ABOVE else STALE, reason, "catalog")

    return Row(seed, claim, verdict, check)


def modal_runs(hours):
    """The cards of a table of measured hours, the cheapest run at Modal first."""
    return [gpu for gpu, *_ in gpus.measured(hours, gpus.sold(providers=("modal",)))]


def counts(provider, gpu):
    """The counts of a model that a provider lists."""
    table = offers.load()
    return {
        int(o.gpu_count)
        for o in map(table.offer, table.by_gpu.get(gpu, ()))
        if o.provider == provider
    }


def sold_as(provider, machine_type):
    """The ways in which a machine type is sold: (capacity, restriction)."""
    table = offers.load()
    found = [table.offer(row) for rows in table.by_gpu.values() for row in rows]
    return {
        (o.capacity, o.restriction)
        for o in found
        if o.provider == provider and o.machine_type == machine_type
    }


def machine(machine_type):
    """(GPU, count) of one of Google's machine types."""
    table = offers.load()
    found = {
        (o.gpu_type, int(o.gpu_count))
        for rows in table.by_gpu.values()
        for o in map(table.offer, rows)
        if o.provider == "gcp" and o.machine_type == machine_type
    }
    (only,) = found
    return only


def line(launcher, gpu="A100-80GB", count=2, expose="private", **task):
    """The command line that a launcher gets on so many of a card. Raises SpecError where it
    refuses.
    """
    given = (
        {"command": "train.py"}
        if not RECIPES[launcher].port
        else {"model": "meta-llama/Llama-3.1-70B"}
    )
    kind = "service" if RECIPES[launcher].port else "job"
    return (
        program(
            Workload((Task(launcher=launcher, **{**given, **task}),)),
            kind,
            gpu,
            count,
            expose=expose,
        )
        .processes[0]
        .line
    )


def refused(launcher, **task):
    """Why a launcher refuses its flags; nothing where it does not."""
    try:
        line(launcher, **task)
    except SpecError as error:
        return str(error)
    return ""


def unbound(code):
    """The names whose attributes a snippet uses without having imported or bound them, such as
    `os`.
    """
    tree = ast.parse(code)
    bound = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    bound |= {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    used = {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return used - bound - set(dir(builtins))


def words_of(command, name):
    """The arguments with which a shell line calls a program, once for each call, by running it
    against a stand-in that records them. Runs bash.
    """
    script = (
        f"{name}() {{ printf '<%s>' \"$@\"; echo; }}\ncommand_not_found_handle() {{ return 0;"
        f" }}\n{command}\n"
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=20
    )
    return [call[1:-1].split("><") for call in done.stdout.splitlines()]


def ratio(gpu, field, base="T4"):
    """How many times the base's figure a card has."""
    return getattr(hardware(gpu), field) / getattr(hardware(base), field)
