"""The folder of what is kept between runs: where it cannot be used, a look goes on with one line,
and nothing is bought.
"""

import os
import subprocess
import sys

import pytest

from providers import errors
from providers.engine import operations
from providers.engine.market import planning
from providers.home import home
from tests.engine.cases import Lab, ask, run, wanted

WORDS = "set GPUS_HOME to one that can be written"


@pytest.fixture(params=["a file", "below a file", "read-only"])
def unusable(request, tmp_path, monkeypatch):
    """GPUS_HOME at something that is no folder to write to."""
    place = tmp_path / "home"
    if request.param == "read-only":
        place.mkdir()
        real = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode: False if str(path) == str(place) else real(path, mode)
        )
    else:
        place.write_text("")
    chosen = place / "sub" if request.param == "below a file" else place
    monkeypatch.setenv("GPUS_HOME", str(chosen))
    return chosen


def test_a_home_that_cannot_be_used_is_one_line(unusable) -> None:
    """Wanted, found, what to do, on one line; for whoever only looks it is an OSError."""
    with pytest.raises(errors.NoHome) as caught:
        home()
    text = str(caught.value)
    assert isinstance(caught.value, OSError) and "\n" not in text and "Errno" not in text
    assert text.startswith(
        f"wanted a folder for what is kept between runs, found {unusable}: "
    ) and text.endswith(WORDS)


def test_a_preview_goes_on_with_one_line(unusable) -> None:
    """The plan of the bundled catalog is there, with one line about the folder however many things
    are missing for it.
    """
    plan = planning.plan(ask("L4"))
    assert plan.candidates or plan.rejected_by_rule
    assert sum(WORDS in line for line in plan.warnings) == 1, plan.warnings


def test_an_up_refuses_before_any_call(unusable) -> None:
    """Nothing is bought that cannot be written down first: one line, and no cloud was called."""
    lab = Lab()
    with pytest.raises(errors.GpusError) as caught:
        run(operations.create(lab.world(), wanted(), "g1"))
    assert WORDS in str(caught.value) and "\n" not in str(caught.value)
    assert not lab.alpha.calls and not lab.beta.calls


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
from providers.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [(("plan", "L4:1"), 0), (("run", "L4:1", "--", "true"), 2), (("rehearse",), 2)],
    ids=["plan", "run", "rehearse"],
)
def test_a_disk_without_room_is_a_line_and_nothing_is_bought(tmp_path, words, code) -> None:
    """No byte can be written: the plan is there all the same, what buys ends with what to do; never
    a traceback.
    """
    done = subprocess.run(
        [sys.executable, "-c", FULL, *words],
        check=False,
        env={**os.environ, "GPUS_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in said and code == done.returncode, said
    assert code == 0 or any(todo in said for todo in ("make room", "GPUS_HOME to a folder that")), (
        said
    )
    assert "acquired" not in said


def test_the_commands_say_what_to_do(tmp_path) -> None:
    """Each command that needs the folder ends with the one line."""
    (tmp_path / "file").write_text("")
    for words in (
        ("ps",),
        ("rehearse",),
        ("release", "x"),
        ("ssh", "x"),
        ("run", "L4:1", "--", "true"),
        ("check", "gcp"),
    ):
        env = {**os.environ, "GPUS_HOME": str(tmp_path / "file")}
        done = subprocess.run(
            [sys.executable, "-m", "providers.cli", *words],
            check=False,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        said = " ".join((done.stdout + done.stderr).split())
        assert (
            done.returncode != 0
            and WORDS in said
            and "Errno" not in said
            and "Traceback" not in said
        ), said
