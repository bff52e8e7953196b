"""`pulumi destroy` after an accident: the journal broken or newer, the folder's disk full, the
state copied into another stack.
"""

import sqlite3

import pytest


def scramble(path) -> None:
    path.write_bytes(bytes(range(256)) * 40)


def make_newer(path) -> None:
    db = sqlite3.connect(path)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    db.execute(f"PRAGMA user_version={version + 1}")
    db.close()


@pytest.mark.parametrize(
    ("harm", "todo"),
    [(scramble, "restore it, or move it away"), (make_newer, "use the newer gpus that wrote it")],
)
@pytest.mark.parametrize("words", [(), ("--refresh",)])
def test_a_destroy_needs_no_journal(project, harm, todo, words) -> None:
    """The machine goes, one line says what is wrong with the journal and what mends it, and the
    command succeeds; after a refresh too.
    """
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
def test_a_preview_behind_a_proxy_works_with_what_the_activation_sets(project, proxy) -> None:
    """C16: the parts of Pulumi meet on loopback though the proxy does not exist."""
    made = project("serve-l4")
    made.env |= {
        proxy: "http://127.0.0.1:9",
        "no_proxy": "127.0.0.1,localhost",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    assert "$" in made.preview()


@pytest.mark.parametrize("way", ["import --force", "names edited"])
def test_a_copied_state_never_deletes_the_originals_machine_unasked(project, way) -> None:
    """The copy's destroy is refused with whose it is and what to do; said explicitly it deletes,
    and the original's own destroy always works.
    """
    made = project()
    made.up()
    file = made.folder / "exported.json"
    made.run("stack", "export", "-s", made.stack, "--file", str(file))
    made.run("stack", "init", "copy", "--no-select")
    if way != "import --force":
        file.write_text(
            file.read_text()
            .replace("urn:pulumi:train-h100x8::", "urn:pulumi:copy::")
            .replace("gpus-train-h100x8", "gpus-copy")
        )
    made.run(
        "stack",
        "import",
        "-s",
        "copy",
        "--file",
        str(file),
        *(["--force"] if way == "import --force" else []),
    )
    said = " ".join(
        made.run("destroy", "-s", "copy", "--yes", "--skip-preview", fails=True).split()
    )
    assert (
        "belongs to gpus/train-h100x8 in file://" in said
        and "pulumi destroy -s train-h100x8" in said
    ), said
    assert made.machines()
    made.run("destroy", "-s", "copy", "--yes", "--skip-preview", fails=True)
    assert made.machines()
    if way == "import --force":
        made.env["GPUS_TAKE_OVER"] = "gpus/train-h100x8"
        made.run("destroy", "-s", "copy", "--yes", "--skip-preview")
    else:
        made.destroy()
    assert not made.machines()


def test_a_renamed_stack_is_no_copy(project) -> None:
    """C22: after `stack rename` a refresh, an `up` and a destroy ask nothing."""
    made = project()
    made.up()
    made.run("stack", "rename", "-s", made.stack, "renamed")
    made.run("destroy", "-s", "renamed", "--yes", "--skip-preview")
    assert not made.machines()
