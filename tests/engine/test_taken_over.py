"""Two homes, one stack: a run that slept while another took its cluster over ends with nothing of
its own, and the next one converges.
"""

import os

import pytest

from providers import errors
from providers.engine import operations
from providers.engine.journal.shared_lease import KEPT, Run, SharedLeases
from providers.model.machine import GONE, RUNNING
from tests.engine.cases import ask, run, wanted


class Homes:
    """The same stack from several homes. `share` is False where the backend is none that a lease
    can be written beside.
    """

    def __init__(self, lab, monkeypatch, *, share=True) -> None:
        self.lab, self._monkeypatch, self._share = lab, monkeypatch, share
        self._homes = 0

    def world(self, name=""):
        """A run of the CLI in a new home, or another process of the run of that name."""
        self._homes += 1
        name = name or f"run-{self._homes}"
        home = self.lab.home / name
        home.mkdir(mode=0o700, exist_ok=True)
        self._monkeypatch.setenv("GPUS_HOME", str(home))
        leases = (
            SharedLeases(self.lab.home / ".gpus", Run(name, 1, "then", "boot"))
            if self._share
            else None
        )
        opened = self.lab.world(share=lambda: leases)
        assert opened.journal.path.parent == home
        return opened

    def asleep(self, method, meanwhile, *, after=False) -> None:
        """While the next call of the cloud's method is under way (before its work, or after it),
        something happens elsewhere.
        """
        cloud = self.lab.alpha
        real = getattr(cloud, method)

        def call(*arguments):
            setattr(cloud, method, real)
            done = real(*arguments) if after else None
            meanwhile()
            return done if after else real(*arguments)

        setattr(cloud, method, call)


@pytest.fixture(params=["lease", "labels"])
def homes(request, lab, monkeypatch):
    return Homes(lab, monkeypatch, share=request.param == "lease")


@pytest.fixture
def leased_homes(lab, monkeypatch):
    return Homes(lab, monkeypatch)


def elsewhere(homes, work):
    """Something that a run in another home does to its end; its result is kept in the list."""
    done = []

    def happens() -> None:
        homes.lab.clock.advance(5)
        done.append(run(work(homes.world())))
        homes.lab.clock.advance(5)

    return happens, done


def create(generation, want=None):
    return lambda world: operations.create(world, want or wanted(), generation)


def test_what_a_sleeping_run_sent_is_released_where_another_has_bought(lab, homes) -> None:
    """The call was sent and not carried out when the run fell asleep: awake, it ends with nothing
    of its own.
    """
    happens, done = elsewhere(homes, create("g2"))
    first = homes.world()
    homes.asleep("submit", happens)
    with pytest.raises(
        errors.TakenOver,
        match=(
            r"train: taken over elsewhere: .*; nothing of this run is left; run `pulumi up` again"
        ),
    ):
        run(operations.create(first, wanted(), "g1"))
    assert [node.handle for node in lab.alive] == list(done[0].handles)
    assert lab.alive[0].label.generation == "g2"
    assert first.journal.orders("rehearsal", "own") == ()


def test_what_another_run_has_adopted_is_not_released_by_the_one_that_made_it(lab, homes) -> None:
    """The call was carried out and not answered: the other run takes the machine over, and the
    woken one leaves it alone.
    """
    happens, done = elsewhere(homes, create("g2"))
    homes.asleep("submit", happens, after=True)
    with pytest.raises(errors.TakenOver, match="taken over elsewhere"):
        run(operations.create(homes.world(), wanted(), "g1"))
    assert lab.creates == len(lab.alive) == 1
    assert [node.handle for node in lab.alive] == list(done[0].handles)


@pytest.mark.parametrize("labelled", [True, False], ids=["labels", "no labels"])
def test_the_next_up_adopts_what_the_state_no_longer_names(lab, leased_homes, labelled) -> None:
    """The woken CLI overwrites the state: whichever home runs next finds the machine again, and
    buys none.
    """
    lab.alpha.labelled = labelled
    happens, done = elsewhere(leased_homes, create("g2"))
    leased_homes.asleep("submit", happens)
    with pytest.raises(errors.TakenOver):
        run(operations.create(leased_homes.world("home-1"), wanted(), "g1"))
    creates = lab.creates
    record = run(operations.create(leased_homes.world("home-1-later"), wanted(), "g3"))
    assert (record.handles, lab.creates) == (done[0].handles, creates)
    assert [node.handle for node in lab.alive] == list(record.handles)


def test_two_runs_that_place_one_state_anew_leave_one_placement(lab, homes) -> None:
    """Under one generation too: what the other run has bought for the same id is never taken for
    one too many.
    """
    world = homes.world("before")
    record = run(operations.create(world, wanted(), "g1"))
    lab.alpha.preempt(record.handles[0], remains=True)
    happens, done = elsewhere(homes, lambda other: operations.update(other, record, wanted()))
    homes.asleep("submit", happens)
    with pytest.raises(errors.TakenOver, match="taken over elsewhere"):
        run(operations.update(homes.world("sleeper"), record, wanted()))
    assert [node.handle for node in lab.alive] == list(done[0].handles)


def test_a_run_that_lost_the_cluster_sends_no_further_creating_call(lab, leased_homes) -> None:
    """One place refuses while the other home takes over: the next place is not asked."""
    lab.alpha.stock = {("north-a", "spot"): 0, ("north-b", "spot"): 0}
    happens, done = elsewhere(leased_homes, create("g2"))
    leased_homes.asleep("submit", happens)
    with pytest.raises(errors.TakenOver):
        run(operations.create(leased_homes.world(), wanted(), "g1"))
    assert [node.handle for node in lab.alive] == list(done[0].handles)
    assert sum(order.label.generation == "g1" for order in lab.alpha.orders + lab.beta.orders) == 1


@pytest.mark.parametrize("step", ["create", "settle"])
def test_a_run_that_lost_the_cluster_never_takes_it_again(lab, leased_homes, step) -> None:
    """It deleted, and slept; the stack went on elsewhere: its own next step changes nothing, in
    another of its processes too.
    """
    record = run(operations.create(leased_homes.world("sleeper"), wanted(), "g1"))
    run(operations.delete(leased_homes.world("sleeper"), record))
    new = run(operations.create(leased_homes.world("other"), wanted(fingerprint="f2"), "g2"))
    woken = leased_homes.world("sleeper")
    with pytest.raises(errors.TakenOver, match="taken over elsewhere"):
        run(
            operations.create(woken, wanted(), "g3")
            if step == "create"
            else operations.settle(woken, "own")
        )
    assert [node.handle for node in lab.alive] == list(new.handles)
    run(operations.settle(leased_homes.world("third"), "own"))
    assert lab.alive == [] and not (lab.home / ".gpus" / "rehearsal" / "own").exists()


def test_what_another_run_left_is_named_at_a_look_and_released_by_the_next_up(lab, homes) -> None:
    """The state names one machine, and another of the same cluster exists under another generation:
    it is half-made until it is gone.
    """
    record = run(operations.create(homes.world(), wanted(), "g1"))
    stray = next(iter(lab.alpha.machines.values()))
    handle = stray.handle._replace(native_id="left-behind")
    lab.alpha.machines[handle] = stray._replace(
        handle=handle, name="train-00000000-0", label=stray.label._replace(generation="g0")
    )
    world = homes.world()
    seen = run(operations.read(world, record))
    assert (
        seen.leftovers == (handle,)
        and "train-00000000-0" in seen.reasons[0]
        and "not in its state" in seen.reasons[0]
    )
    after = run(operations.update(world, seen, wanted()))
    assert (after.handles, after.leftovers, after.reasons) == (record.handles, (), ())
    assert [node.handle for node in lab.alive] == list(record.handles)
    assert run(operations.read(world, after)).reasons == ()


def test_where_the_state_names_a_dead_machine_the_next_create_adopts_the_other(lab, homes) -> None:
    """What the state names is gone and another run's machine is there: the look says gone, and the
    create takes that one over.
    """
    record = run(operations.create(homes.world(), wanted(), "g1"))
    lab.alpha.machines[record.handles[0]] = lab.alpha.machines[record.handles[0]]._replace(
        status=GONE
    )
    lab.alpha.stock = {}
    other = run(operations.create(homes.world(), wanted(), "g2"))
    world, creates = homes.world(), lab.creates
    assert run(operations.read(world, record)) is None
    assert run(operations.create(world, wanted(), "g3")).handles == other.handles
    assert lab.creates == creates


def test_an_imported_machine_is_no_orphan_of_the_cluster_that_it_bears_the_label_of(
    lab, homes
) -> None:
    """Another resource of the state names it: nothing releases it."""
    world = homes.world()
    record = run(operations.create(world, wanted(), "g1"))
    stray = next(iter(lab.alpha.machines.values()))
    handle = stray.handle._replace(native_id="imported")
    lab.alpha.machines[handle] = stray._replace(
        handle=handle, label=stray.label._replace(generation="g0")
    )
    world.journal.look("rehearsal", "own")
    world.journal.claim("rehearsal", "own", "train", "g0", (handle,))
    after = run(operations.update(world, run(operations.read(world, record)), wanted()))
    assert (after.leftovers, after.reasons) == ((), ()) and len(lab.alive) == 2


def test_a_machine_of_the_state_that_bears_another_label_gets_its_own_back(lab, homes) -> None:
    """Two runs labelled one machine in turn: what the state names is deleted with it, not left for
    another's.
    """
    world = homes.world()
    record = run(operations.create(world, wanted(), "g1"))
    lab.alpha.relabel(record.handles[0], "g2")
    seen = run(operations.read(world, record))
    assert "half-made" in seen.reasons[0] and "took" in seen.reasons[0]
    after = run(operations.update(world, seen, wanted()))
    assert after.reasons == () and lab.alive[0].label.generation == "g1"
    run(operations.delete(world, after))
    assert lab.alive == []


def test_a_preview_says_nothing_of_what_a_live_run_on_this_machine_is_at(lab, leased_homes) -> None:
    """What is there beside the state while another process works on it is that one's business."""
    record = run(operations.create(leased_homes.world(), wanted(), "g1"))
    stray = next(iter(lab.alpha.machines.values()))
    handle = stray.handle._replace(native_id="in-the-making")
    lab.alpha.machines[handle] = stray._replace(
        handle=handle, label=stray.label._replace(generation="g2")
    )
    from providers.engine.journal import process

    me = Run("here", *process.current())
    SharedLeases(lab.home / ".gpus", me).take("rehearsal", "own", "train", "g2")
    looks = lab.world(
        share=lambda: SharedLeases(lab.home / ".gpus", Run("here", 1, "then", "boot"))
    )
    assert run(operations.read(looks, record)).reasons == ()
    assert run(operations.read(leased_homes.world(), record)).reasons != ()


def test_a_lease_file_that_was_cut_short_blocks_nobody_and_says_that_somebody_took_it(
    tmp_path,
) -> None:
    """A crash in the middle of the write leaves an empty file: the run before has lost the cluster,
    and the next one takes it.
    """
    leases = SharedLeases(tmp_path / ".gpus", Run("one", 1, "", ""))
    mine = leases.take("live", "own", "train", "g1")
    assert not mine.lost
    (tmp_path / ".gpus/live/own/train/2.json").touch()
    assert mine.lost and leases.last("live", "own", "train").by == "another run"
    with pytest.raises(errors.TakenOver):
        leases.take("live", "own", "train", "g2")
    assert (
        not SharedLeases(tmp_path / ".gpus", Run("two", 1, "", ""))
        .take("live", "own", "train", "g3")
        .lost
    )


def test_the_leases_are_their_owners_alone_and_do_not_pile_up(tmp_path) -> None:
    """0700 and 0600; of previous holders so many are kept as a sleeping run may be."""
    before = os.umask(0)
    try:
        for number in range(KEPT + 5):
            SharedLeases(tmp_path / ".gpus", Run(f"run-{number}", 1, "", "")).take(
                "live", "own", "train", f"g{number}"
            )
    finally:
        os.umask(before)
    every = list((tmp_path / ".gpus").rglob("*"))
    assert {oct(each.stat().st_mode & 0o777) for each in every if each.is_dir()} == {"0o700"}
    assert {oct(each.stat().st_mode & 0o777) for each in every if each.is_file()} == {"0o600"}
    assert sum(each.is_file() for each in every) == KEPT


def test_a_backend_that_cannot_be_written_buys_nothing_and_deletes_all_the_same(
    lab, leased_homes
) -> None:
    """Without the lease nothing is bought; what costs money is deleted whatever can be written."""
    record = run(operations.create(leased_homes.world(), wanted(ask()), "g1"))
    import shutil

    shutil.rmtree(lab.home / ".gpus")
    (lab.home / ".gpus").write_text("in the way")
    with pytest.raises(errors.GpusError, match="wanted to write down in the backend"):
        run(operations.create(leased_homes.world(), wanted(name="more"), "g2"))
    assert lab.alive[0].status == RUNNING and len(lab.alive) == 1
    run(operations.delete(leased_homes.world(), record))
    assert lab.alive == []
