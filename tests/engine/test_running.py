"""What else an owner runs, from the journal alone."""

from providers.engine import operations
from providers.plugin.running import running_of
from tests.engine.cases import run, wanted


def test_what_an_owner_runs_is_told_without_asking_a_cloud(lab, tmp_path) -> None:
    """A preview learns from the journal what the owner runs under any name, and where there is no
    journal none is made.
    """
    world = lab.world()
    assert running_of(world, "own") == () and not (tmp_path / "journal.db").exists()
    record = run(operations.create(world, wanted(), "g1"))
    asked = lab.alpha.calls.total()
    (found,) = running_of(world, "own")
    assert (found.cluster, found.where, found.gpu, found.nodes, found.micro_usd) == (
        "train",
        "north-a",
        "H100:8",
        1,
        10_000_000,
    )
    assert running_of(world, "other") == () and lab.alpha.calls.total() == asked
    run(operations.delete(world, record))
    assert running_of(world, "own") == ()
