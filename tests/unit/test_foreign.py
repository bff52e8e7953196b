"""Numbers that others send: bounds first, conversion after, in constant time."""

import json
import time
from typing import Any

import pytest

from providers.model import foreign
from providers.model.duration import seconds
from providers.model.money import micro_usd

HUGE = (
    "1e5000",
    "1e99999",
    "-1e99999",
    "1e-99999",
    "1e400",
    "9" * 400,
    "9" * 100_000,
    "inf",
    "-Infinity",
    "nan",
    "sNaN",
    1e300,
    float("inf"),
    float("nan"),
)
NONE: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    "x16",
    "1_000",
    "٣",
    "½",
    {},
    [],
    [1],
    {"1": 1},
    "0x10",
    b"1",
)


@pytest.mark.parametrize(
    "value", [*HUGE, 10**4_000, -(2**200)], ids=lambda value: str(type(value).__name__)
)
def test_a_number_out_of_bounds_is_none_at_once(value) -> None:
    """No text and no number costs more than another, and none becomes an int before its size is
    known.
    """
    begun = time.process_time()
    for bounds in (
        foreign.ANY,
        foreign.COUNT,
        foreign.ID,
        foreign.PORT,
        foreign.MONEY,
        foreign.SECONDS,
    ):
        assert (
            foreign.number(value, bounds),
            foreign.whole(value, bounds),
            foreign.real(value, bounds),
        ) == (None, None, None)
        assert foreign.impossible(value, bounds)
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize("value", NONE, ids=repr)
def test_what_is_no_number_is_unknown_and_not_impossible(value) -> None:
    """A word, nothing, a truth value, a mapping: unknown, as when nothing was said."""
    assert foreign.number(value) is None
    assert not foreign.impossible(value, foreign.ANY)


def test_a_number_keeps_its_value_and_its_bounds() -> None:
    """Texts and numbers alike; a zero of any exponent is zero; a fraction is no whole number."""
    assert foreign.real(" 12.5 ") == 12.5
    assert foreign.number("0e999999999") == 0
    assert (
        foreign.whole("22", foreign.PORT),
        foreign.whole(22.0, foreign.PORT),
        foreign.whole("22.5", foreign.PORT),
    ) == (22, 22, None)
    assert tuple(foreign.whole(value, foreign.PORT) for value in (0, 65_535, 65_536)) == (
        None,
        65_535,
        None,
    )


def test_json_with_a_huge_number_or_a_deep_nest_is_read_or_refused() -> None:
    """One number of a row never costs the whole reply; a nest that no reader follows is malformed,
    not a crash.
    """
    digits = "9" * 10_000
    assert {"a": digits, "b": 5} == foreign.loads(f'{{"a": {digits}, "b": 5}}')
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, "", "nothing"):
        with pytest.raises((json.JSONDecodeError, foreign.TooDeepError)):
            foreign.loads(text)
    assert json.dumps({"a": [1.5, None]}) == json.dumps(foreign.loads('{"a": [1.5, null]}'))


@pytest.mark.parametrize("value", [*HUGE, "x", None])
def test_an_amount_that_nobody_pays_is_refused(value) -> None:
    """Dollars have bounds, too."""
    with pytest.raises(ValueError, match="is no amount of dollars"):
        micro_usd(value)


@pytest.mark.parametrize(
    "value", ["9" * 400 + "h", "9" * 5_000, "9" * 400, 1e300, float("inf"), float("nan"), "1e99999"]
)
def test_a_duration_without_a_date_is_refused(value) -> None:
    """Longer than anything lasts: a ValueError, never an overflow."""
    with pytest.raises(ValueError, match=r"is too long|is no duration"):
        seconds(value)
