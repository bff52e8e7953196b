"""Whose machines a state names: a copy, a renamed stack, or one that moved to another backend."""

import gzip
from types import SimpleNamespace

import pytest

from providers.engine.journal import backend
from providers.engine.journal.owners import OwnerRow
from providers.errors import GpusError
from providers.plugin import copies

OWNER, ID = "0123456789ab", '"rehearsal/0123456789ab"'
URN = "urn:pulumi:{}::gpus::gpu:index:Ownership::ownership"


class Journal:
    def __init__(self):
        self.rows = {}

    def owners(self, _world):
        return tuple(self.rows.values())

    def owned(self, _world, owner, project, stack):
        self.rows[owner] = OwnerRow(owner, project, stack, backend.current())


@pytest.fixture
def world():
    return SimpleNamespace(name="rehearsal", has_journal=True, journal=Journal())


def states(folder, *stacks):
    """A file backend whose stacks have these names, all of which name the owner; its URL."""
    place = folder / ".pulumi" / "stacks" / "gpus"
    place.mkdir(parents=True, exist_ok=True)
    for number, stack in enumerate(stacks):
        if number % 2:
            (place / f"{stack}.json.gz").write_bytes(gzip.compress(ID.encode()))
        else:
            (place / f"{stack}.json").write_text(ID)
    return f"file://{folder}"


def known(world, stack, url):
    world.journal.rows[OWNER] = OwnerRow(OWNER, "gpus", stack, url)


def asked(world, stack):
    """Whom the question names; empty where none is asked."""
    try:
        copies.refuse(world, OWNER, URN.format(stack))
    except GpusError as error:
        said = str(error)
    else:
        return ""
    assert "nothing was changed" in said
    assert said.isprintable()
    return said.rpartition(f"{copies.TAKE_OVER}=gpus/")[2]


@pytest.mark.parametrize(
    ("here", "first", "urn", "want"),
    [
        (["train"], "train", "train", ""),
        (["renamed"], "train", "renamed", ""),
        (["train", "copy"], "train", "train", ""),
        (["train", "copy"], "train", "copy", "train"),
        (["train", "copy"], "", "copy", "train"),
        (["train", "copy"], "", "train", "copy"),
        (["renamed", "copy"], "train", "copy", "renamed"),
        (["a", "b", "c"], "c", "a", "c"),
    ],
)
def test_another_state_of_this_backend_is_asked_about(
    world, tmp_path, monkeypatch, here, first, urn, want
):
    """By the journal where it knows the owner; where nothing tells, both are asked."""
    monkeypatch.setenv("PULUMI_BACKEND_URL", states(tmp_path, *here))
    if first:
        known(world, first, f"file://{tmp_path}")
    assert asked(world, urn) == want


@pytest.mark.parametrize(
    ("first", "want"),
    [("there", "train"), ("gone", ""), ("other", ""), ("s3://bucket", "train"), ("link", "")],
)
def test_a_state_of_another_backend_is_asked_about(world, tmp_path, monkeypatch, first, want):
    """The journal says where the stack was: there it still is, is no more, or cannot be read. The
    same folder by another path is no other backend.
    """
    monkeypatch.setenv("PULUMI_BACKEND_URL", states(tmp_path / "here", "train"))
    urls = {
        "there": states(tmp_path / "there", "train"),
        "gone": f"file://{tmp_path}/nowhere",
        "other": states(tmp_path / "empty"),
        "link": f"file://{tmp_path}/link",
    }
    (tmp_path / "link").symlink_to(tmp_path / "here")
    known(world, "train", urls.get(first, first))
    assert asked(world, "train") == want


def test_who_took_over_is_asked_no_more(world, tmp_path, monkeypatch):
    """It is written down: from then on the other one is the copy."""
    first, second = states(tmp_path / "a", "train"), states(tmp_path / "b", "train")
    known(world, "train", first)
    monkeypatch.setenv("PULUMI_BACKEND_URL", second)
    assert asked(world, "train") == "train"
    monkeypatch.setenv(copies.TAKE_OVER, "gpus/other")
    assert asked(world, "train") == "train"
    monkeypatch.setenv(copies.TAKE_OVER, "gpus/train")
    assert asked(world, "train") == ""
    monkeypatch.delenv(copies.TAKE_OVER)
    assert asked(world, "train") == ""
    monkeypatch.setenv("PULUMI_BACKEND_URL", first)
    assert asked(world, "train") == "train"


@pytest.mark.parametrize("spelling", ["file://{}?no_tmp_dir=true", "file://{}/", "file://state"])
def test_one_backend_has_one_name(world, tmp_path, monkeypatch, spelling):
    """Settings of a `file://` URL, a slash, a relative path from a folder below."""
    states(tmp_path / "state", "train", "copy")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setenv("PULUMI_BACKEND_URL", spelling.format(tmp_path / "state"))
    assert backend.current() == f"file://{tmp_path}/state"
    assert backend.folder() == tmp_path / "state"
    known(world, "train", f"file://{tmp_path}/state")
    assert (asked(world, "copy"), asked(world, "train")) == ("train", "")
