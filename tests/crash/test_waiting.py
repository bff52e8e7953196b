"""A cluster that waits for capacity, through the plugin's calls: from an `up` that finds nothing to
the machine.
"""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from providers.adhoc import searches
from providers.cli.main import main
from providers.engine.record import ClusterRecord
from providers.engine.runtime.world import open_world
from providers.rehearsal.scenario import ANY
from providers.rehearsal.store import Store
from tests.crash.engine import Engine, Failed
from tests.crash.record import SPEC
from tests.crash.test_engine import experiment

__all__ = ["experiment"]

WAITS = {**SPEC, "acquire": {"within": "12h"}}
HOUR_S = 3_600.0
REPOSITORY = Path(__file__).parents[2]


def stock(store: Store, count: int) -> None:
    store.set_stock("gcp", ANY, ANY, ANY, count, ANY)


def orders(store: Store) -> int:
    """How often a machine was asked for."""
    return len([each for each in store.requests("*nsert*") if each.provider == "gcp"])


def outputs(engine: Engine) -> dict[str, Any]:
    from providers.plugin.properties import decode

    return decode(engine.state["train"].outputs).values


@pytest.fixture
def up(experiment: Store) -> Callable[..., Engine]:
    """An `up` of one cluster; the engine whose state it left."""
    engine = Engine()

    def upped(spec: dict[str, Any]) -> Engine:
        engine.said.clear()
        asyncio.run(engine.up({"train": spec}))
        return engine

    return upped


def test_what_is_sold_out_is_waited_for_and_bought_once(
    experiment: Store, up: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first `up` succeeds and says so; a second one at once asks nobody; one after an hour buys;
    `gpus ps` lists it; destroy leaves nothing.
    """
    stock(experiment, 0)
    engine = up(WAITS)
    assert outputs(engine)["status"] == "waiting" and engine.state["train"].reasons == ()
    assert any("goes on looking, and so does" in line for line in engine.said)
    tried = orders(experiment)
    assert main(["ps"]) == 0 and "gives up " in capsys.readouterr().out
    asyncio.run(engine.refresh())
    assert outputs(up(WAITS))["status"] == "waiting" and orders(experiment) == tried
    assert any("still looking: next look" in line for line in engine.said)
    stock(experiment, 1)
    experiment.advance(HOUR_S)
    bought = outputs(up(WAITS))
    assert bought["status"] == "running" and orders(experiment) == tried + 1
    up(WAITS)
    assert len(bought["handles"]) == 1 and orders(experiment) == tried + 1
    asyncio.run(engine.destroy())
    assert engine.state == {}
    assert main(["ps"]) == 0 and capsys.readouterr().out.startswith("nothing runs")


def test_commands_of_a_cluster_that_waits_say_since_when(
    experiment: Store, up: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`gpus ssh` refuses with that; `gpus wait` waits, as long as it may, until it is acquired."""
    stock(experiment, 0)
    up(WAITS)
    for words in (["ssh", "train"], ["wait", "train", "--timeout", "1m"]):
        capsys.readouterr()
        assert main(words) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "train: still looking since 20" in said and ", until 20" in said
    said_of: list[str] = []

    def buys(text: str) -> None:
        said_of.append(text)
        stock(experiment, 1)
        experiment.advance(HOUR_S)
        thread = threading.Thread(target=up, args=(WAITS,))
        thread.start()
        thread.join()

    left_s = asyncio.run(searches.acquired("train", timeout_s=9 * HOUR_S, say=buys))
    assert left_s is not None and 0 < left_s < 8 * HOUR_S and len(said_of) == 1
    assert asyncio.run(searches.acquired("train", say=buys)) is None and len(said_of) == 1


KILLED = """
import asyncio, os, pickle, signal
from pathlib import Path
from providers.engine import operations
from tests.crash.engine import Engine
from tests.crash.test_waiting import WAITS

engine, written = Engine(), operations.note_wait
asyncio.run(engine.up({}))
Path("state").write_bytes(pickle.dumps(engine.state))

def killed(*given):
    written(*given)
    os.kill(os.getpid(), signal.SIGKILL)

operations.note_wait = killed
asyncio.run(engine.up({"train": WAITS}))
"""


@pytest.mark.long
def test_kill_before_the_state_was_written_begins_no_new_time(
    experiment: Store, tmp_path: Path
) -> None:
    """The state has nothing of the cluster; the journal knows since when it is looked for."""
    stock(experiment, 0)
    experiment.set_latency("gcp", "stockout", 0.05)
    begun = experiment.now()
    path = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=path, check=False)
    assert done.returncode == -signal.SIGKILL
    engine = Engine()
    engine.state = pickle.loads((tmp_path / "state").read_bytes())  # noqa: S301  # our own
    assert "train" not in engine.state
    experiment.advance(5 * HOUR_S)
    asyncio.run(engine.up({"train": WAITS}))
    until = ClusterRecord.from_dict(open_world("rehearsal").journal.waiting("rehearsal")[0].record)
    assert until.search is not None and until.search.until < begun + 13 * HOUR_S
    assert outputs(engine)["status"] == "waiting"


def test_what_was_given_up_fails_until_it_is_edited(experiment: Store, up: Any) -> None:
    """And a destroy of what waits has nothing to release."""
    stock(experiment, 0)
    engine = up(WAITS)
    experiment.advance(13 * HOUR_S)
    tried = orders(experiment)
    for _ in range(2):
        with pytest.raises(Failed, match="gave up: looked for 12h"):
            up(WAITS)
    assert outputs(engine)["status"] == "gave-up" and orders(experiment) == tried
    up({**WAITS, "labels": {"team": "vision"}})
    assert outputs(engine)["status"] == "waiting" and orders(experiment) > tried
    asyncio.run(engine.destroy())
    assert engine.state == {}
