"""The model of the engine that drives the plugin makes the calls that the real one was recorded to
make.
"""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.rehearsal.scenario import ANY
from providers.rehearsal.store import Store
from tests.crash.engine import Engine, Failed
from tests.crash.record import FILE, SPEC

RECORDED = json.loads(FILE.read_text())
EDITED = {**SPEC, "labels": {"team": "vision"}, "ttl": "30h"}
OTHER = {**SPEC, "gpu": "L4:2"}
SPOT = {**OTHER, "spot": "only"}


def shown(calls: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Calls as (name, resource). Those of the refresh go out side by side, so that their order is
    chance; everything later waits for what is before it.
    """
    out = [(call["call"], call["resource"]) for call in calls]
    size = next(
        (number for number, (name, _) in enumerate(out) if name not in ("Read", "Diff")), len(out)
    )
    return [*sorted(out[:size]), *out[size:]]


class Run:
    """The model, step by step beside the recording."""

    def __init__(self) -> None:
        self.engine, self.said = Engine(), 0

    def like(self, name: str, command: Coroutine[Any, Any, Any], *, fails: bool = False) -> None:
        """The command makes the recorded calls."""
        begins = len(self.engine.log)
        try:
            asyncio.run(command)
        except Failed:
            assert fails
        else:
            assert not fails
        made = [
            {"call": call.method, "resource": call.resource} for call in self.engine.log[begins:]
        ]
        assert shown(made) == shown(RECORDED[name]), name

    def up(self, name: str, spec: dict[str, Any], *, fails: bool = False, **how: Any) -> None:
        self.like(name, self.engine.up({"train": spec}, **how), fails=fails)


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    from providers.engine.runtime.clock import RehearsalClock
    from providers.rehearsal import start
    from providers.rehearsal.store import open_store

    async def jump(self: Any, seconds: float) -> None:
        await asyncio.sleep(0)
        self._store.advance(max(0.0, seconds))

    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    monkeypatch.setattr(RehearsalClock, "sleep", jump)
    store = open_store()
    store.hold_at_most(0.0)
    yield store
    start.stop(tmp_path / "rehearsal.db")


def test_the_model_of_the_engine_makes_the_recorded_calls(experiment: Store) -> None:
    """Up, refresh, update, replacement by edit, by request and after a loss, and destroy: call by
    call as the real engine.
    """
    from providers.rehearsal.clouds.gcp import console

    run = Run()
    run.up("up", SPEC)
    run.up("unchanged", SPEC)
    run.like("refresh", run.engine.refresh())
    run.up("update", EDITED)
    run.up("replace-edit", OTHER)
    run.up("replace-asked", OTHER, replace=True)
    run.up("replace-taint", OTHER, replace=True)
    experiment.advance(31 * 3600)
    run.up("ended", OTHER)
    run.up("run-again", {**OTHER, "triggers": {"rerun": 1}})
    run.up("to-spot", SPOT)
    assert console.preempt(experiment, console.running(experiment)[0].name) == 1
    experiment.advance(3600)
    run.up("preempted", SPOT)
    run.like("destroy", run.engine.destroy())


def test_the_model_of_the_engine_goes_on_with_what_is_half_made_as_recorded(
    experiment: Store,
) -> None:
    """A create that ends half-made keeps the resource, and the next up calls Update, whatever the
    difference says.
    """
    run = Run()
    for call in ("instances.get", "instances.list", "instances.aggregatedList", "instances.delete"):
        experiment.add_fault("gcp", call, "unavailable", None)
    run.up("half-made", SPEC, fails=True)
    run.up("half-made-still", SPEC, fails=True)
    experiment.clear_faults()
    run.up("healed", SPEC)
    asyncio.run(run.engine.destroy())


def test_the_model_of_the_engine_updates_what_waits_for_capacity_as_recorded(
    experiment: Store,
) -> None:
    """A create that succeeds without machines, and an update at each `up` until there are some."""
    run, waits = Run(), {**SPEC, "acquire": {"within": "12h"}}
    experiment.set_stock("gcp", ANY, ANY, ANY, 0, ANY)
    run.up("waits", waits)
    run.up("waits-still", waits)
    experiment.set_stock("gcp", ANY, ANY, ANY, 1, ANY)
    experiment.advance(3600)
    run.up("acquired", waits)
    asyncio.run(run.engine.destroy())
