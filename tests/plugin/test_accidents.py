"""`pulumi destroy` after an accident: the journal broken or newer, the folder's disk full, the state copied into another stack."""

import sqlite3

import pytest


def scramble(path):
    path.write_bytes(bytes(range(256)) * 40)


def make_newer(path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=4")
    db.close()


@pytest.mark.parametrize(("harm", "todo"), [(scramble, "restore it, or move it away"), (make_newer, "use the newer gpus that wrote it")])
@pytest.mark.parametrize("words", [(), ("--refresh",)])
def test_a_destroy_needs_no_journal(project, harm, todo, words):
    """The machine goes, one line says what is wrong with the journal and what mends it, and the command succeeds; after a refresh too."""
    made = project()
    made.up()
    assert made.machines()
    harm(made.folder / "home" / "journal.db")
    said = " ".join(made.destroy(*words).split())
    assert not made.machines()
    assert "journal.db" in said and todo in said and "gpus sweep" in said
    assert todo in " ".join(made.up(fails=True).split())
    assert not made.machines()


@pytest.mark.parametrize("proxy", ["http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_preview_behind_a_proxy_works_with_what_the_activation_sets(project, proxy):
    """C16: the parts of Pulumi meet on loopback though the proxy does not exist."""
    made = project("serve-l4")
    made.env |= {proxy: "http://127.0.0.1:9", "no_proxy": "127.0.0.1,localhost", "NO_PROXY": "127.0.0.1,localhost"}
    assert "$" in made.preview()
