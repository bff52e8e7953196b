"""`gpus size`: arguments and exit codes. Computes nothing itself."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from providers.catalog import names
from providers.cli import size_report
from providers.cli.arguments import Parser
from providers.cli.output import print_json
from providers.errors import Problem, SpecError
from providers.model.ask import ON_DEMAND, SPOT, gpu_text
from providers.workloads.sizing import architecture, gpus, rows, throughput
from providers.workloads.sizing.gpus import FITS, TIGHT, Serve, Sold, Train

if TYPE_CHECKING:
    from collections.abc import Sequence

OK, NOTHING = 0, 1


def run(arguments: Sequence[str]) -> int:
    """Runs `gpus size ARGUMENTS`: 0 where something holds it or a table was asked for, 1 where
    nothing does. SpecError for a wrong question.
    """
    options = parser().parse_args(arguments)
    if options.models:
        models = dict.fromkeys(architecture.bundled().values())
        if options.json:
            print_json([{"name": each.name, "parameters": each.parameters} for each in models])
            return OK
        for model in models:
            sys.stdout.write(f"{model.name:<38}{model.parameters / 1e9:>8.2f} B\n")
        return OK
    providers = tuple(options.provider or ())
    for provider in providers:
        from providers.catalog.offers import catalog

        if provider not in (priced := catalog().dates):
            raise SpecError(
                [
                    Problem(
                        "--provider",
                        f"one with bundled prices: {', '.join(priced)}",
                        repr(provider),
                    )
                ]
            )
    offers = gpus.sold(SPOT if options.spot else ON_DEMAND, providers)
    if options.hours is not None:
        found = gpus.measured(_hours(options.hours), offers)
        if options.json:
            print_json(
                [
                    {
                        "gpu": gpu,
                        "hours": hours,
                        "price_usd_per_hour": each.micro_usd / 1e6 if each else None,
                        "run_usd": cost / 1e6 if cost is not None else None,
                    }
                    for gpu, hours, each, cost in found
                ]
            )
        else:
            sys.stdout.write(size_report.measured_text(found, offers) + "\n")
        return OK
    if not options.model:
        raise SpecError(
            [
                Problem(
                    "model",
                    "a model such as meta-llama/Llama-3.1-70B or 7b",
                    "nothing",
                    "or --hours 'T4=5,A100=0.8', or --models",
                )
            ]
        )
    model = architecture.find(options.model, hub=not options.offline)
    work = _work(options, model)
    if options.on:
        shown = tuple(_placements(options.on, offers))
        sized = tuple(
            gpus.priced(gpus.judge(model, work, gpu, count, options.nodes), offer)
            for gpu, count, offer in shown
        )
    else:
        sized = gpus.sizes(model, work, offers, options.nodes)
    if options.json:
        print_json(size_report.as_json(model, work, sized, options.budget))
    else:
        sys.stdout.write(
            size_report.as_text(
                model,
                work,
                sized,
                budget=options.budget,
                everything=options.all or bool(options.on),
            )
            + "\n"
        )
    return OK if any(each.verdict.answer in (FITS, TIGHT) for each in sized) else NOTHING


def parser() -> Parser:
    """Its arguments."""
    made = Parser(
        prog="gpus size",
        description=(
            "Which GPUs hold a model, how many, split how, at which price, and why not the others."
            " Buys nothing."
        ),
    )
    made.add_argument(
        "model", nargs="?", help="a published name, a size such as 7b, or the path of a config.json"
    )
    kind = made.add_mutually_exclusive_group()
    kind.add_argument("--serve", action="store_true", help="for inference (the default)")
    kind.add_argument(
        "--train", choices=gpus.METHODS, help="for training: all weights, or adapters"
    )
    kind.add_argument(
        "--hours",
        metavar="TABLE",
        help=(
            "no model: hours measured on one GPU each, as in 'T4=5,A10G=1.7,A100=0.8', at the"
            " catalog's prices"
        ),
    )
    kind.add_argument("--models", action="store_true", help="the bundled models")
    made.add_argument(
        "--dtype", help="number format of the weights (default: the model's own; bf16 for training)"
    )
    made.add_argument(
        "--context",
        default=None,
        help="tokens in each sequence, as in 32k (default: 8k, or what the model knows)",
    )
    made.add_argument(
        "--concurrency", type=_positive, default=1, help="sequences at once (default: 1)"
    )
    made.add_argument(
        "--cache-dtype",
        choices=("bf16", "fp8"),
        default="bf16",
        help="number format of the KV cache",
    )
    made.add_argument(
        "--tokens", help="tokens to train on in all, as in 1B; gives hours and dollars"
    )
    made.add_argument(
        "--sequence", default="2k", help="tokens in one training sequence (default: 2k)"
    )
    made.add_argument(
        "--batch", type=_positive, default=1, help="sequences on each GPU at once (default: 1)"
    )
    made.add_argument(
        "--rank", type=_positive, default=16, help="rank of the adapters (default: 16)"
    )
    made.add_argument(
        "--no-recompute", action="store_true", help="keep all activations: faster, and more memory"
    )
    made.add_argument(
        "--efficiency",
        type=_part,
        default=throughput.EFFICIENCY,
        help=f"part of the achievable speed that training keeps (default: {throughput.EFFICIENCY})",
    )
    made.add_argument("--budget", type=float, help="dollars for the run; marks what costs more")
    made.add_argument("--nodes", type=_positive, default=1, help="machines (default: 1)")
    made.add_argument("--on", metavar="GPU:N,...", help="only these, as in A100:2,A100-80GB:4")
    made.add_argument(
        "--provider", action="append", help="prices of this provider only; repeatable"
    )
    made.add_argument("--spot", action="store_true", help="spot prices")
    made.add_argument("--all", action="store_true", help="every count of every card")
    made.add_argument(
        "--offline", action="store_true", help="do not ask the hub for a model that is not bundled"
    )
    made.add_argument(
        "--json", action="store_true", help="one JSON object; a list with --hours and --models"
    )
    return made


def _work(options: Any, model: architecture.Architecture) -> Serve | Train:
    if options.train:
        tokens = _amount("--tokens", options.tokens) if options.tokens else 0.0
        return rows.training(options.train, options.dtype, tokens, path="--dtype")._replace(
            sequence=round(_amount("--sequence", options.sequence)),
            batch=options.batch,
            recompute=not options.no_recompute,
            rank=options.rank,
            efficiency=options.efficiency,
        )
    context = round(_amount("--context", options.context)) if options.context else None
    return rows.serving(
        model, options.dtype, context, options.concurrency, path="--dtype"
    )._replace(cache_dtype=options.cache_dtype)


def _amount(name: str, text: str) -> float:
    """`32k` (of tokens in a sequence: 32768), `1B`, `8192`."""
    if text.isascii() and text.isdigit() and int(text) > 0:
        return float(text)
    if (found := architecture.count(text)) is not None and found > 0:
        binary = name in {"--context", "--sequence"} and text.strip().lower().endswith("k")
        return found / 1000 * 1024 if binary else float(found)
    raise SpecError([Problem(name, "a positive number such as 8192, 32k or 1B", repr(text))])


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"wanted a whole number from 1, found {text!r}")
    return int(text)


def _part(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"wanted more than 0 and at most 1, found {text!r}")
    return value


def _hours(text: str) -> dict[str, float]:
    """`T4=5,A10G=1.7` as hours by card."""
    found: dict[str, float] = {}
    for item in text.split(","):
        gpu, equals, hours = item.partition("=")
        try:
            value = float(hours)
        except ValueError:
            value = 0.0
        name = names.canonical(gpu.strip())
        if not equals or not 0 < value < float("inf"):
            raise SpecError([Problem("--hours", "GPU=HOURS, as in T4=5", repr(item))])
        if name is None:
            raise SpecError(
                [
                    Problem(
                        "--hours",
                        "a GPU that is known",
                        repr(gpu.strip()),
                        f"near: {', '.join(names.near(gpu))}" if names.near(gpu) else "",
                    )
                ]
            )
        found[name] = value
    return found


def _placements(text: str, offers: Sequence[Sold]) -> list[tuple[str, int, Sold | None]]:
    found = []
    for item in text.split(","):
        read = gpu_text(item.strip(), "--on")
        name = names.canonical(read.type)
        if name is None:
            near = names.near(read.type)
            raise SpecError(
                [
                    Problem(
                        "--on",
                        "a GPU that is known",
                        repr(read.type),
                        f"near: {', '.join(near)}" if near else "",
                    )
                ]
            )
        gpu = names.accepts(name)[0]
        count = read.gpu_count or 1
        found.append(
            (
                gpu,
                count,
                next(
                    (each for each in offers if each.gpu_type == gpu and each.gpu_count == count),
                    None,
                ),
            )
        )
    return found
