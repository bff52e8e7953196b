"""Arguments that several commands share: what is wanted, where, and in which world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.errors import Problem, SpecError
from providers.model.ask import BLOCK, RANKS
from providers.model.worlds import WORLDS

if TYPE_CHECKING:
    import argparse

_TERMS = ("lasts", "max_price")
"""What a block's terms cannot be without."""
BLOCK_WORDS = tuple(f"block_{name}" for name in (*_TERMS, "start_within"))


def add_spec(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what is wanted."""
    parser.add_argument(
        "gpu", nargs="?", help='"H100:8"; "H100!:8" for exactly this, no free upgrade'
    )
    parser.add_argument(
        "--fallback",
        action="append",
        default=[],
        metavar="GPU",
        help="what to take where the first GPU is sold out; may be repeated",
    )
    parser.add_argument("--nodes", type=int, help="machines in the cluster (default 1)")
    parser.add_argument(
        "--spot", choices=("never", "prefer", "only"), help="whether spot capacity is acceptable"
    )
    parser.add_argument(
        "--capacity",
        action="append",
        metavar="KIND",
        help="on-demand, spot, flex-start, block or reservation(NAME), in order; may be repeated",
    )
    parser.add_argument(
        "--max-price", type=float, metavar="USD", help="dollars per hour for all nodes together"
    )
    parser.add_argument("--rank", choices=RANKS, help=f"what is tried first (default: {RANKS[0]})")
    parser.add_argument(
        "--marketplaces",
        action="store_true",
        help="also rent strangers' hosts, at marketplaces that no --provider names",
    )
    parser.add_argument(
        "--accept-suspect-prices",
        action="store_true",
        help="buy even at a price that looks wrong",
    )
    add_places(parser)


def add_block(parser: argparse.ArgumentParser) -> None:
    """Adds what `--capacity block` may buy."""
    parser.add_argument(
        "--block-lasts", metavar="DURATION", help="with --capacity block: its length, as in 1d"
    )
    parser.add_argument(
        "--block-max-price",
        type=float,
        metavar="USD",
        help="with --capacity block: the most that all of it may cost, paid at once",
    )
    parser.add_argument(
        "--block-start-within",
        metavar="DURATION",
        help="with --capacity block: how far off its beginning may be (default 14d)",
    )


def block_of(options: argparse.Namespace) -> dict[str, Any] | None:
    """The terms of a block as a declaration has them; None where none is asked for. Raises
    SpecError where its length or its cap is missing.
    """
    given = {
        word.removeprefix("block_"): value
        for word in BLOCK_WORDS
        if (value := getattr(options, word)) is not None
    }
    asked = BLOCK in (options.capacity or ())
    if not (given or asked):
        return None
    missing = [f"--block-{name.replace('_', '-')}" for name in _TERMS if name not in given]
    if asked and not missing:
        return given
    if not asked:
        todo = f"add --capacity {BLOCK}, or leave them out"
        raise SpecError([Problem("--capacity", f"{BLOCK}, whose terms are given", "none", todo)])
    wanted = "a block's length and a cap of its own, since all of it is paid at once"
    todo = "as in --block-lasts 1d --block-max-price 900"
    raise SpecError([Problem(name, wanted, "none", todo) for name in missing])


def add_disk(parser: argparse.ArgumentParser) -> None:
    """Adds `--disk-gib`."""
    parser.add_argument("--disk-gib", type=int, metavar="GIB", help="size of the boot disk")


def add_places(parser: argparse.ArgumentParser) -> None:
    """Adds `--provider` and `--region`."""
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="P",
        help="only this provider; may be repeated",
    )
    parser.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="R",
        help="only this region; may be repeated",
    )


def add_world(parser: argparse.ArgumentParser) -> None:
    """Adds `--world`."""
    parser.add_argument(
        "--world", choices=WORLDS, help="rehearsal (default), or live for real money"
    )


def settings_of(options: argparse.Namespace) -> dict[str, dict[str, str]] | None:
    """`--set gcp:project=my-project`, as mappings; None without any. Raises SpecError."""
    out: dict[str, dict[str, str]] = {}
    for text in options.set:
        key, equals, value = text.partition("=")
        provider, colon, name = key.partition(":")
        if not (equals and colon and provider and name):
            raise SpecError(
                [Problem("--set", "PROVIDER:KEY=VALUE, as in gcp:project=my-project", repr(text))]
            )
        out.setdefault(provider, {})[name] = value
    return out or None
