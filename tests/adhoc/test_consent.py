"""`gpus run` in the live world buys nothing unasked: what is shown, and who may say yes."""

import pytest

from providers.adhoc import consent, provision
from providers.cli import main
from providers.engine.market import planning
from providers.errors import GpusError
from tests.present import present


@pytest.fixture
def live(monkeypatch) -> None:
    """The live world's plan is the rehearsal's: prices and places of the catalog, no cloud asked."""
    walked = planning.walked
    monkeypatch.setattr(
        planning, "walked", lambda ask, **more: walked(ask, **{**more, "world": "rehearsal"})
    )


def spec(gpu="L4:1", **fields):
    return provision.declared(gpu, {"name": "box", "providers": ["gcp"], **fields})


@pytest.mark.parametrize(
    ("answer", "bought"), [("yes", True), ("y", False), ("", False), (EOFError, False)]
)
def test_live_purchase_on_a_terminal_is_asked_for_with_the_most_it_can_cost(
    live, monkeypatch, capsys, answer, bought
) -> None:
    """The dearest accepted place until the ttl; only a whole `yes` buys."""

    def said(_question):
        if answer is EOFError:
            raise EOFError
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", said)
    assert consent.given(spec(ttl="2h", max_price_per_hour=1), "live", None, yes=False) is bought
    shown = capsys.readouterr().err
    worst = present(planning.walked(spec(max_price_per_hour=1).ask()).worst_micro_usd)
    assert "L4:1 on-demand at $" in shown and f"at most ${2 * worst / 1e6:,.2f}, 2h at " in shown


def test_live_purchase_without_a_terminal_needs_yes(live, monkeypatch) -> None:
    """A script is told of --yes, with the cost; with it nothing is asked."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(
        GpusError, match=r"at most \$.*there is no terminal to ask at: --yes buys without asking"
    ):
        consent.given(spec(), "live", None, yes=False)
    assert consent.given(spec(), "live", None, yes=True)


def test_place_that_ends_nothing_at_a_ttl_has_no_limit(monkeypatch) -> None:
    """A market that keeps no ttl: what it can cost is a price, not a sum."""
    made = planning.walked(spec("RTX-4090:2", providers=["clore"]).ask())
    assert "no limit: up to $" in consent.most(
        made, 7_200
    ) and "(clore ends nothing by itself)" in consent.most(made, 7_200)


def test_rehearsal_never_asks(monkeypatch) -> None:
    """Nothing is bought there."""
    monkeypatch.setattr("builtins.input", lambda _question: pytest.fail("asked"))
    assert consent.given(spec(), "rehearsal", None, yes=False)


@pytest.fixture
def never_bought(monkeypatch) -> None:
    monkeypatch.setattr(provision, "launched", lambda *_, **__: pytest.fail("bought"))


@pytest.mark.parametrize(
    "words",
    [
        "L4:1 --world live -- true",
        "L4:1 --keep --name box --world live",
        "-s train-ddp-2x8 --on L4:1 --world live",
    ],
)
@pytest.mark.parametrize(("answer", "code"), [(None, 2), ("no", 1)])
def test_live_purchase_that_is_not_agreed_to_ends_with_an_exit_code(
    live, never_bought, monkeypatch, capsys, tmp_path, words, answer, code
) -> None:
    """2 where nobody could be asked (use it otherwise), 1 where the answer was no; a stack that
    `--on` overlays asks as well.
    """
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin.isatty", lambda: answer is not None, raising=False)
    monkeypatch.setattr("builtins.input", lambda _question: answer)
    assert main.main(["run", *words.split()]) == code
    said = capsys.readouterr().err
    assert "buys in the live world: " in said and "nothing was bought" in said
    assert ("--yes buys without asking" in said) == (answer is None)
