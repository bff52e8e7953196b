"""A deletion never needs the journal, nor the home: it goes by the state and the labels, and says
what it could not write.
"""

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import pytest

from providers import errors
from providers.adhoc import rentals
from providers.engine import operations
from providers.engine.journal import database
from providers.engine.termination import garbage, inventory
from providers.engine.termination import verdicts as verdicts_
from providers.model.spec import read_cluster
from tests.engine.cases import ask as an_ask
from tests.engine.cases import run, wanted
from tests.present import present


@contextmanager
def full_disk(tmp_path):
    """A small file system of its own without a byte left. Needs root."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)],
        check=False,
        capture_output=True,
    ).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place) -> None:
    with (place / "filling").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass


def close(lab) -> None:
    for world in lab.worlds:
        world.close()


def scramble(path) -> None:
    for file in path.parent.glob(f"{path.name}-*"):
        file.unlink()
    path.write_bytes(random.Random(7).randbytes(9_000))


def truncate(path) -> None:
    """The beginning of a journal, as a full disk or a copy that was cut short leaves it."""
    path.write_bytes(path.read_bytes()[:5_000])


def make_newer(path) -> None:
    db = sqlite3.connect(path)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    db.execute(f"PRAGMA user_version={version + 1}")
    db.execute("ALTER TABLE orders RENAME COLUMN state TO condition")
    db.execute("DROP TABLE leases")
    db.commit()
    db.close()


def make_a_folder(path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.mkdir()


HARM = {
    "random bytes": (scramble, "restore it, or move it away"),
    "cut short": (truncate, "restore it, or move it away"),
    "newer, with other tables": (make_newer, "use the newer gpus that wrote it"),
    "a folder": (make_a_folder, "writable"),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_destroy_goes_by_the_state_and_the_labels_without_the_journal(lab, harm) -> None:
    """The machine of the state and a second one that only its labels name are deleted; one warning
    says what is wrong and what mends it.
    """
    record = run(operations.create(lab.world(), wanted(), "g1"))
    run(operations.create(lab.world(), wanted(name="orphan"), "g2"))
    close(lab)
    path = lab.home / "journal.db"
    HARM[harm][0](path)
    lab.lines.clear()
    run(operations.delete(lab.world(), record))
    assert [node.label.cluster for node in lab.alive] == ["orphan"]
    (said,) = lab.said("warning")
    assert (
        str(path) in said
        and HARM[harm][1] in said
        and "gpus sweep" in said
        and "nothing is bought" not in said
    )
    run(operations.settle(lab.world(), "own"))
    assert not lab.alive
    with pytest.raises(errors.GpusError):
        run(operations.create(lab.world(), wanted(), "g3"))
    assert lab.creates == 2


@pytest.mark.parametrize("when", ["before", "midway"])
def test_a_full_disk_stops_no_deletion_and_the_remedy_is_room(
    lab, tmp_path, monkeypatch, when
) -> None:
    """On a real file system without a byte left: deleted all the same; "make room", never "make it
    writable". Buying still refuses.
    """
    with full_disk(tmp_path) as small:
        monkeypatch.setenv("GPUS_HOME", str(small))
        record = run(operations.create(lab.world(), wanted(), "g1"))
        close(lab)
        if when == "before":
            fill(small)
        else:
            real = lab.alpha.delete

            def filling(handle):
                fill(small)
                return real(handle)

            monkeypatch.setattr(lab.alpha, "delete", filling)
        lab.lines.clear()
        run(operations.delete(lab.world(), record))
        run(operations.settle(lab.world(), "own"))
        assert not lab.alive
        said = lab.said("warning")
        assert said and all(
            "make room on its disk" in line and "writable" not in line for line in said
        ), lab.lines
        with pytest.raises(
            errors.GpusError, match="nothing is bought without it; make room on its disk"
        ):
            run(operations.create(lab.world(), wanted(), "g3"))
        assert lab.creates == 1
        close(lab)


def test_what_was_deleted_on_a_full_disk_is_put_right_by_a_sweep(
    lab, tmp_path, monkeypatch
) -> None:
    """With room again, the journal still has it as running: a sweep looks, and writes that it is
    gone.
    """
    with full_disk(tmp_path) as small:
        monkeypatch.setenv("GPUS_HOME", str(small))
        record = run(operations.create(lab.world(), wanted(), "g1"))
        close(lab)
        fill(small)
        run(operations.delete(lab.world(), record))
        (small / "filling").unlink()
        world = lab.world()
        assert world.journal.standing("rehearsal") and world.journal.orders("rehearsal", "own")
        assert run(inventory.survey(world, verdicts_.Claims())).found == ()
        assert not world.journal.standing("rehearsal") and not world.journal.orders(
            "rehearsal", "own"
        )
        close(lab)


def test_a_locked_journal_is_left_to_its_holder(lab, monkeypatch) -> None:
    """Another process has it locked: the deletion reads past the lock, and the line says to wait
    for that process or to stop it.
    """
    monkeypatch.setattr(database, "BUSY_S", 0.2)
    record = run(operations.create(lab.world(), wanted(), "g1"))
    close(lab)
    script = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        " db.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(lab.home / "journal.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert present(other.stdout).readline() == "locked\n"
        run(operations.delete(lab.world(), record))
        assert not lab.alive
        (said,) = lab.said("warning")
        assert "another process holds it" in said and "move it away" not in said
        present(other.stdin).close()


def test_a_copy_still_knows_what_only_the_journal_does(lab, tmp_path, monkeypatch) -> None:
    """Where the journal can be read and not written, the lease that another live process has there
    still holds.
    """
    with full_disk(tmp_path) as small:
        monkeypatch.setenv("GPUS_HOME", str(small))
        world = lab.world()
        record = run(operations.create(world, wanted(), "g1"))
        world.journal.take("rehearsal", "own", "train", "somebody", lab.clock.now())
        close(lab)
        fill(small)
        monkeypatch.setattr(operations, "CLEAN_PATIENCE_S", 1.0)
        with pytest.raises(errors.Busy):
            run(operations.delete(lab.world(), record))
        assert lab.alive
        close(lab)


@pytest.fixture(params=["a file", "gone", "read-only"])
def lost_home(request, lab, monkeypatch):
    """A home that could be used when the machine was bought, and cannot any more."""

    def lose() -> None:
        close(lab)
        if request.param == "read-only":
            real = os.access
            monkeypatch.setattr(
                os,
                "access",
                lambda path, mode: False if str(path) == str(lab.home) else real(path, mode),
            )
            return
        monkeypatch.setenv("GPUS_HOME", str(lab.home / "elsewhere" / "home"))
        if request.param == "a file":
            (lab.home / "elsewhere").write_text("")

    return lose


def test_a_destroy_needs_no_home(lab, lost_home) -> None:
    """The folder is read-only, gone, or no folder: what the state and the labels name is deleted."""
    record = run(operations.create(lab.world(), wanted(), "g1"))
    run(operations.create(lab.world(), wanted(name="orphan"), "g2"))
    lost_home()
    run(operations.delete(lab.world(), record))
    run(operations.settle(lab.world(), "own"))
    assert not lab.alive


@pytest.mark.parametrize("harm", HARM)
def test_a_sweep_without_the_journal_goes_by_the_states(lab, harm) -> None:
    """What a state's owner has and no cluster claims is deleted; an ad hoc machine may be in use,
    so it stays and says how it goes.
    """
    run(operations.create(lab.world(), wanted(), "g1"))
    run(operations.create(lab.world(), wanted(owner="adhoc", name="mine"), "g2"))
    close(lab)
    HARM[harm][0](lab.home / "journal.db")
    world = lab.world()
    claims = verdicts_.Claims(owners={"own": "dev"})
    survey = run(inventory.survey(world, claims, adhoc="adhoc"))
    verdicts = {found.label.cluster: found.verdict for found in survey.found}
    assert verdicts == {"train": verdicts_.UNCLAIMED, "mine": verdicts_.UNKNOWN}
    assert "gpus release mine" in next(
        found.why for found in survey.found if found.label.cluster == "mine"
    )
    swept = run(
        garbage.sweep(
            world, [found for found in survey.found if found.verdict == verdicts_.UNCLAIMED], claims
        )
    )
    assert [each.why for each in swept] == [""]
    assert [node.label.cluster for node in lab.alive] == ["mine"]


@pytest.mark.parametrize("harm", HARM)
def test_a_release_without_the_journal_goes_by_the_labels(lab, harm) -> None:
    """`gpus release NAME`: what has the name and this user's owner id is deleted."""
    from providers.adhoc import access

    spec = read_cluster("mine", {"gpu": "H100:8"})
    run(
        operations.create(lab.world(), wanted(an_ask(), owner=access.owner(), name=spec.name), "g1")
    )
    close(lab)
    HARM[harm][0](lab.home / "journal.db")
    assert asyncio.run(rentals.let_go(lab.world(), "mine"))
    assert not lab.alive


def test_what_cannot_be_deleted_is_still_named(lab) -> None:
    """Without a journal too, a cloud that does not answer is no success: the machine and its price
    are told.
    """
    record = run(operations.create(lab.world(), wanted(), "g1"))
    close(lab)
    scramble(lab.home / "journal.db")
    lab.alpha.fail("delete", errors.Transient("down", provider="alpha"), times=99)
    with pytest.raises(errors.HalfMade, match=r"may still cost \$10\.00/h") as told:
        run(operations.delete(lab.world(), record))
    assert record.handles[0].native_id in str(told.value)
