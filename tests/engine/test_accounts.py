"""Settings that name another account: what was ordered in the old one is found, settled and deleted
there.
"""

import pytest

from providers.engine import operations
from providers.engine.runtime.world import open_world
from providers.errors import BadCredentials, GpusError, HalfMade, NotConfigured, OutcomeUnknown
from providers.testing.fake_adapter import FakeCloud
from tests.engine.cases import Killed, Lab, run, wanted


class Accounts(Lab):
    """One provider with two projects: what is made in one cannot be seen in the other."""

    def __init__(self) -> None:
        super().__init__()
        self.projects = {name: FakeCloud("alpha", self.clock) for name in ("old", "new")}
        self.closed: dict[str, BaseException] = {}

    def at(self, project, **more):
        def connect(_world, config):
            if config["project"] in self.closed:
                raise self.closed[config["project"]]
            return self.projects[config["project"]]

        manifests = {"alpha": self.alpha.manifest()._replace(connect=connect)}
        opened = open_world(
            "rehearsal",
            {"alpha": {"project": project, "endpoint": "http://127.0.0.1:1/"}},
            lambda severity, text: self.lines.append(f"{severity}: {text}"),
            manifests=manifests,
            offers=self.offers,
            clock=self.clock,
            **more,
        )
        self.worlds.append(opened)
        return opened

    def running(self, project):
        return len(self.projects[project].alive)


@pytest.fixture
def two(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))
    made = Accounts()
    yield made
    for world in made.worlds:
        world.close()


def killed_while_ordering(two) -> None:
    """A run that ended between the creating call and its answer."""
    two.projects["old"].fail("submit", Killed(), after=True)
    with pytest.raises(Killed):
        run(operations.create(two.at("old"), wanted(), "g1"))
    assert two.running("old") == 1


def test_b26_an_order_is_settled_in_the_account_it_was_placed_in(two) -> None:
    """After a crash and a change of project, the machine in the old project is found and deleted
    before one is bought in the new.
    """
    killed_while_ordering(two)
    record = run(operations.create(two.at("new"), wanted(), "g2"))
    assert (two.running("old"), two.running("new")) == (0, 1)
    assert dict(record.account) == {"project": "new"}


def test_b26_destroy_covers_every_account_that_was_used(two) -> None:
    """Settling the owner under other settings deletes what an order made in the old account, and
    what only the state knows of.
    """
    killed_while_ordering(two)
    run(operations.settle(two.at("new"), "own"))
    assert two.running("old") == 0
    run(operations.create(two.at("old"), wanted(owner="lost"), "g1"))
    (two.worlds[-1].journal.path).unlink()
    fresh = two.at("new")
    run(operations.settle(fresh, "lost"))
    assert two.running("old") == 1
    run(operations.settle(fresh, "lost", [{"alpha": {"project": "old"}}]))
    assert two.running("old") == 0


def test_what_is_held_is_read_and_deleted_where_it_is(two) -> None:
    """A cluster that runs stays where it is when the project changes: looked at, edited and deleted
    in its own account.
    """
    record = run(operations.create(two.at("old"), wanted(), "g1"))
    moved_on = two.at("new")
    bare = record._replace(account=None)
    assert run(operations.read(moved_on, bare)).status == "running"
    assert run(operations.update(moved_on, bare, wanted())).handles == record.handles
    assert two.running("new") == 0
    run(operations.delete(moved_on, bare))
    assert two.running("old") == 0


def test_an_old_account_that_cannot_be_asked_stops_what_depends_on_it(two) -> None:
    """While an order in the old account is open and that account cannot be asked, nothing is bought
    and nothing counts as destroyed.
    """
    killed_while_ordering(two)
    two.closed["old"] = BadCredentials("no rights any more", provider="alpha")
    with pytest.raises((BadCredentials, OutcomeUnknown)):
        run(operations.create(two.at("new"), wanted(), "g2"))
    with pytest.raises(HalfMade, match="old"):
        run(operations.settle(two.at("new"), "own"))
    with pytest.raises(GpusError, match=r"project old.*not settled"):
        run(operations.leave(two.at("new"), "own"))
    assert two.running("new") == 0


def test_a_change_of_account_settles_what_was_cut_short(two) -> None:
    """When settings move on, an order of a killed run in the old account is ended there, and what
    it made is deleted.
    """
    killed_while_ordering(two)
    run(operations.leave(two.at("old"), "own"))
    assert two.running("old") == 1
    run(operations.leave(two.at("new"), "own"))
    assert two.running("old") == 0


def test_an_account_whose_purchases_are_all_gone_is_no_obstacle(two) -> None:
    """An old account that can't be asked any more, with nothing open in it, is a warning at
    destroy.
    """
    world = two.at("old")
    run(operations.delete(world, run(operations.create(world, wanted(), "g1"))))
    two.closed["old"] = BadCredentials("no rights any more", provider="alpha")
    assert run(operations.settle(two.at("new"), "own")) == ()
    assert two.said("could not be searched")


def test_strays_are_looked_for_in_every_account(two) -> None:
    """A machine in an account that the settings no longer name is still told."""
    record = run(operations.create(two.at("old"), wanted(), "g1"))
    assert [node.handle for node in run(operations.orphans(two.at("new"), "own", ()))] == list(
        record.handles
    )
    two.closed["new"] = NotConfigured("no keys", provider="alpha")
    assert [node.handle for node in run(operations.orphans(two.at("new"), "own", ()))] == list(
        record.handles
    )
