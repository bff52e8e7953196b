"""Mutated replies through each adapter's real client: an error of the tree or a correct result, no
purchase counted wrong, nothing left behind.
"""

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.adapters.guard import Cloud
from providers.engine import operations
from providers.errors import GpusError, HalfMade, OutcomeUnknown, Unclassified
from providers.home import JOURNAL_FILE
from providers.model.machine import GONE
from providers.rehearsal.store import open_store
from providers.testing.bench import CLUSTER, GENERATION, LATER, OWNER, Bench, environment
from providers.testing.harness import Harness
from tests.contract.test_aws import HARNESS as AWS
from tests.contract.test_clore import HARNESS as CLORE
from tests.contract.test_gcp import HARNESS as GCP
from tests.contract.test_modal import HARNESS as MODAL
from tests.contract.test_vertex import HARNESS as VERTEX
from tests.hostile.conftest import many
from tests.hostile.mutations import KINDS, TAPS, Mutator

pytestmark = pytest.mark.long

HARNESSES = {harness.name: harness for harness in (GCP, AWS, CLORE, MODAL, VERTEX)}
UNKNOWN = (OutcomeUnknown, Unclassified, HalfMade)
"""The classes that leave open whether something was made."""


class Crash(AssertionError):
    """Something that is no error of the tree came out of an adapter."""


class Watched:
    """An adapter of which every call ends in a result or an error of the tree."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found) or name.startswith("_"):
            return found

        def call(*arguments: Any) -> Any:
            try:
                return found(*arguments)
            except GpusError:
                raise
            except Exception as error:
                crashes.append(f"{name}: {error!r}\n{traceback.format_exc()}")
                raise

        return call


Scenario = Callable[[Bench], None]

crashes: list[str] = []
mutator = Mutator()
SEEN: Counter[str] = Counter()


class Tried:
    """One adapter on a cloud of its own folder, its replies tapped."""

    def __init__(self, harness: Harness, folder: Path) -> None:
        self.harness = harness._replace(
            manifest=harness.manifest._replace(
                connect=lambda *given: Watched(Cloud(harness.manifest.connect(*given)))
            )
        )
        self.folder = folder
        self.lengths: dict[Scenario, int] = {}

    def bench(self) -> Bench:
        for file in self.folder.glob(f"{JOURNAL_FILE}*"):
            file.unlink()
        self.store = open_store()
        self.store.reset()
        crashes.clear()
        mutator.rest()
        return Bench(self.harness, self.store)

    def length(self, scenario: Scenario) -> int:
        """How many replies the scenario has when all goes well."""
        if scenario not in self.lengths:
            bench = self.bench()
            try:
                mutator.arm(-1, "", 0)
                scenario(bench)
                mutator.rest()
                self.lengths[scenario] = len(mutator.log)
                bench.clean()
            finally:
                bench.close()
        return self.lengths[scenario]

    def run(self, scenario: Scenario, where: float, kind: str, seed: int) -> None:
        length = self.length(scenario)
        bench = self.bench()
        try:
            mutator.arm(int(where * length), kind, seed)
            scenario(bench)
            mutator.rest()
            SEEN[f"{bench.name} {'changed' if mutator.fired else 'not reached'}"] += 1
            assert not crashes, f"after {mutator.fired}: {crashes[0]}"
            recovered(bench)
        except AssertionError as error:
            raise AssertionError(
                f"{bench.name}, changed: {mutator.fired or 'nothing'}, reply {mutator.at} of"
                f" {mutator.log[:40]}\n{error}"
            ) from error
        finally:
            mutator.rest()
            bench.close()


def tolerated(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result, or the error of the tree that came instead."""
    try:
        return call(*arguments)
    except GpusError as error:
        if not str(error):
            raise Crash(f"{error!r} has no text") from error
        return error
    except Exception as error:
        raise Crash(f"{error!r}\n{traceback.format_exc()}") from error


def adapters_life(bench: Bench) -> None:
    """An order, followed, seen, found, relabelled and ended, straight through the adapter."""
    adapter = bench.adapter
    order = bench.order()
    ticket = tolerated(adapter.submit, order)
    if isinstance(ticket, GpusError):
        SEEN[f"submit {type(ticket).__name__}"] += 1
        if not isinstance(ticket, UNKNOWN):
            bench.exist(0, f"refused by {type(ticket).__name__} ({ticket}), so nothing was made")
    else:
        passed = 0.0
        while ticket.state != "done" and passed < 900:
            again = tolerated(adapter.poll, ticket)
            if isinstance(again, GpusError):
                SEEN[f"poll {type(again).__name__}"] += 1
            else:
                ticket = again
            bench.wait(10.0)
            passed += 10.0
        if ticket.state == "done":
            bench.exist(1, "the order is done")
            seen = tolerated(bench.connect().observe, ticket.handles)
            if not isinstance(seen, GpusError):
                assert [node.handle for node in seen] == list(ticket.handles)
                assert all(node.status != GONE for node in seen), (
                    f"a machine that runs is called gone: {seen}"
                )
    for which in ((OWNER,), (OWNER, CLUSTER, GENERATION), ("",)):
        tolerated(adapter.find, *which)
    assert bench.knobs.creates() <= 1, "one order is one creating call"
    tolerated(adapter.check)
    if not isinstance(ticket, GpusError) and ticket.state == "done":
        tolerated(adapter.relabel, ticket.handles[0], LATER)
        tolerated(adapter.observe, ticket.handles)
        tolerated(adapter.delete, ticket.handles[0])
        for _ in range(4):
            bench.wait(60.0)
            seen = tolerated(adapter.observe, ticket.handles)
            if (
                not isinstance(seen, GpusError)
                and all(node.status == GONE for node in seen)
                and not mutator.fired
            ):
                break


def engines_life(bench: Bench) -> None:
    """A cluster created, read and deleted by the engine."""
    world, wanted = bench.world, bench.spec()
    record = tolerated(bench.run, operations.create(world, wanted, GENERATION))
    if isinstance(record, GpusError):
        SEEN[f"create {type(record).__name__}"] += 1
        if not isinstance(record, UNKNOWN):
            alive(bench, 0, f"create ended with {type(record).__name__}: {record}")
        return
    if record.reasons:
        SEEN["create with reasons"] += 1
    else:
        bench.exist(1, "the engine says that it has one")
        seen = tolerated(bench.run, operations.read(world, record))
        if not isinstance(seen, GpusError):
            assert seen is not None, "a machine that runs is called gone"
    ended = tolerated(bench.run, operations.delete(world, record))
    if not isinstance(ended, GpusError):
        alive(bench, 0, "the engine says that all is gone")


def alive(bench: Bench, count: int, why: str) -> None:
    """So many machines that are not on their way out."""
    found = [
        machine
        for machine in bench.knobs.running()
        if machine.status.lower() not in {"stopping", "shutting-down", "terminated", "deleting"}
    ]
    assert len(found) == count, (
        f"{bench.name}: {why}: wanted {count}, found"
        f" {[(machine.name, machine.status) for machine in found]}"
    )


def recovered(bench: Bench) -> None:
    """With the cloud well again, another process finds whatever was made and ends it: nothing is
    left.
    """
    bench.wait(700.0)
    other = bench.connect()
    for node in other.find(OWNER):
        other.delete(node.handle)
    asyncio.run(operations.settle(bench.another_world(), OWNER))
    bench.clean()


@pytest.fixture(scope="module", params=sorted(HARNESSES))
def tried(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tried]:
    folder = tmp_path_factory.mktemp(request.param)
    patch = pytest.MonkeyPatch()
    TAPS[request.param](mutator, patch)
    with environment({"GPUS_HOME": str(folder)}):
        yield Tried(HARNESSES[request.param], folder)
    patch.undo()


MUTATION = {
    "where": st.floats(0, 0.999),
    "kind": st.sampled_from(KINDS),
    "draw": st.integers(0, 2**20),
}


@many(250, 6)
@given(**MUTATION)
def test_the_adapter_with_a_changed_reply(tried: Tried, where: float, kind: str, draw: int) -> None:
    """Submit, poll, observe, find, relabel and delete over one changed reply."""
    tried.run(adapters_life, where, kind, draw)


@many(250, 6)
@given(**MUTATION)
def test_the_engine_with_a_changed_reply(tried: Tried, where: float, kind: str, draw: int) -> None:
    """Create, read and delete over one changed reply."""
    tried.run(engines_life, where, kind, draw)


def test_most_changes_were_met() -> None:
    """The changed reply is nearly always one that was asked for. Runs last in this file."""
    print(dict(SEEN))
    met = sum(count for name, count in SEEN.items() if name.endswith(" changed"))
    missed = sum(count for name, count in SEEN.items() if name.endswith(" not reached"))
    assert met >= missed * 4
