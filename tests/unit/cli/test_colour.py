"""Colours and columns of answers: on a terminal that has them, and nowhere else."""

import io
import sys

import pytest

from providers.cli import output, ps
from providers.cli.colour import coloured, show


class Terminal(io.StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        return True


TEXT = """buys        gcp a-1 H100:8 spot
price       $9.72/h, $194.48 if it runs 20h (ttl)
warning     \x1b[31mred"""


@pytest.mark.parametrize(
    ("environ", "seen"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
    ],
)
def test_colours_are_for_terminals_that_have_them(environ, seen) -> None:
    assert coloured(Terminal(), environ) is seen
    assert not coloured(io.StringIO(), environ)


def test_the_text_is_the_same_with_colours(monkeypatch) -> None:
    """Nothing is added, cut or broken, and what others wrote is no escape of ours."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn = Terminal()
    monkeypatch.setattr(sys, "stdout", drawn)
    show(TEXT)
    assert "\x1b[1;36mbuys" in drawn.getvalue() and "\x1b[32m$9.72/h\x1b[0m" in drawn.getvalue()
    assert "\x1b[31mred" not in drawn.getvalue() and "\\x1b[31mred" in drawn.getvalue()
    plain = drawn.getvalue()
    for style in ("\x1b[0m", "\x1b[1;36m", "\x1b[1;33m", "\x1b[32m", "\x1b[33m"):
        plain = plain.replace(style, "")
    assert plain == TEXT.replace("\x1b", "\\x1b") + "\n"


def test_a_narrow_table_loses_nothing(monkeypatch) -> None:
    """At 80 columns long cells go on below, and a name that is cut stands whole there: it can be
    copied.
    """
    rows = [("place", "machine", "$/h"), ("northamerica-northeast2-c", "m" * 70, "9.72")]
    monkeypatch.setenv("COLUMNS", "80")
    lines = list(output.table(rows, right={2}, gives=(1, 0)))
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines[2:]] == [["m" * 70]]
    zones = [("place", "x"), ("us-east-1 use1-az1,use1-az2", "y" * 65)]
    assert [line[:13] for line in output.table(zones, gives=(0,))][1:] == [
        "us-east-1    ",
        "use1-az1,",
        "use1-az2",
    ]


def test_what_runs_fits_80_columns(monkeypatch, capsys) -> None:
    """On a terminal, with long names of stacks and places, and an end that is only known at the
    latest.
    """
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    money = ("2 x L4:1 on-demand", "11.57", "1h05m", "$12.53")
    latest = "2026-11-30 20:49 UTC at the latest"
    place = "aws us-east-1 use1-az6"
    ps.show_rows(
        [ps.OF_STACKS, ("train", "training-dev", "live", "degraded", place, *money, latest)],
        ps.STACKS_GIVE,
    )
    ps.show_rows(
        [ps.AD_HOC, ("adhoc-c2bd9d", "live", "running", place, *money, "12345", latest[:20])],
        ps.AD_HOC_GIVES,
    )
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
