"""A cluster that waits for capacity, through the plugin's calls: from an `up` that finds nothing to
the machine.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from providers.cli.main import main
from providers.rehearsal.scenario import ANY
from providers.rehearsal.store import Store
from tests.crash.engine import Engine, Failed
from tests.crash.record import SPEC
from tests.crash.test_engine import experiment

__all__ = ["experiment"]

WAITS = {**SPEC, "acquire": {"within": "12h"}}
HOUR_S = 3_600.0


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
    assert main(["ps"]) == 0 and capsys.readouterr().out.startswith("nothing is held")


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
