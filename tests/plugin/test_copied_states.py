"""A state that is in two stacks: whatever is run on the copy, the other stack's machine is not
touched before the user has said so.
"""

import shutil

import pytest

CLUSTER = "urn:pulumi:{}::gpus::gpu:index:Cluster::train"
TRAIN = """
  gpus:world: rehearsal
  gpus:clusters:
    train: {{kind: machine, gpu: {gpu}, providers: [{cloud}]{more}}}
"""


def declare(made, stack, cloud="gcp", gpu="L4:1", more=""):
    file = made.folder / "stacks" / f"Pulumi.{stack}.yaml"
    salt = made.file.read_text().partition("encryptionsalt:")[2].splitlines()[0].strip()
    file.write_text(
        f"config:{TRAIN.format(gpu=gpu, cloud=cloud, more=more)}encryptionsalt: {salt}\n"
    )


def copied(made, way, name="copy"):
    """The stack's state in another stack, in one of the ways that people do that."""
    file = made.folder / "exported.json"
    made.run("stack", "export", "-s", made.stack, "--file", str(file))
    made.run("stack", "init", name, "--no-select")
    if way == "file":
        states = made.folder / "state" / ".pulumi" / "stacks" / "gpus"
        shutil.copy(states / f"{made.stack}.json", states / f"{name}.json")
    elif way == "forced":
        made.run("stack", "import", "-s", name, "--file", str(file), "--force")
    else:
        text = file.read_text()
        file.write_text(
            text.replace(f"urn:pulumi:{made.stack}::", f"urn:pulumi:{name}::").replace(
                f"gpus-{made.stack}", f"gpus-{name}"
            )
        )
        made.run("stack", "import", "-s", name, "--file", str(file))


def names(made):
    return sorted(machine["name"] for machine in made.machines())


def refused(made, *words, stack="copy"):
    said = " ".join(made.run(*words, "-s", stack, "--yes", "--skip-preview", fails=True).split())
    assert "GPUS_TAKE_OVER=gpus/" in said and "nothing was changed" in said, said
    return said


@pytest.mark.parametrize(
    ("way", "cloud"), [("forced", "gcp"), ("edited", "aws"), ("file", "modal")]
)
def test_nothing_that_is_run_on_a_copy_touches_the_machine(project, way, cloud):
    """Refresh, preview, an edit that replaces, a cluster that was forgotten and declared anew, a
    cluster that is declared no more, destroy; and the first stack works on.
    """
    made = project()
    gpu = "H100:1" if cloud == "modal" else "L4:1"
    declare(made, made.stack, cloud, gpu)
    made.up()
    before = names(made)
    assert len(before) == 1
    copied(made, way)
    declare(made, "copy", cloud, gpu)
    made.run("refresh", "-s", "copy", "--yes", "--skip-preview")
    made.run("preview", "-s", "copy")
    declare(made, "copy", cloud, "A10G:1" if cloud == "aws" else "A100-80GB:1")
    refused(made, "up")
    assert set(before) <= set(names(made))
    urns = made.run("stack", "export", "-s", "copy")
    urn = CLUSTER.format("copy" if way == "edited" else made.stack)
    assert urn in urns
    made.run("state", "delete", urn, "-s", "copy", "--yes")
    if way == "edited":  # The names of another stack are deleted only, so that nothing is adopted.
        refused(made, "up")
    refused(made, "destroy")
    assert set(before) <= set(names(made))
    assert made.up().count("acquired") == 0 and set(before) <= set(names(made))
    made.destroy()
    assert not set(before) & set(names(made))


def test_a_copy_does_not_release_what_the_first_stack_bought_since(project):
    """The first stack's machine was lost and replaced: the copy's state names the old one only."""
    made = project()
    declare(made, made.stack, more=", spot: only")
    made.up()
    copied(made, "edited")
    declare(made, "copy", more=", spot: only")
    made.rehearse("preempt", names(made)[0])
    made.rehearse("advance", "5m")
    made.up()
    after = names(made)
    for _ in range(2):
        made.run("refresh", "-s", "copy", "--yes", "--skip-preview")
    refused(made, "up")
    assert names(made) == after
    said = made.up()
    assert "taken over" not in said and names(made) == after


@pytest.mark.parametrize("way", ["edited", "forced"])
def test_a_question_is_asked_where_nothing_tells_which_is_the_copy(project, way):
    """Another home knows neither stack. Once said, the stack that took over asks no more."""
    made = project()
    declare(made, made.stack)
    made.up()
    copied(made, way)
    declare(made, "copy")
    (made.folder / "home" / "journal.db").unlink()
    before = names(made)
    assert f"gpus/{made.stack} in file://" in refused(made, "destroy")
    made.run("refresh", "-s", "copy", "--yes", "--skip-preview")
    refused(made, "destroy")
    assert names(made) == before
    made.env["GPUS_TAKE_OVER"] = f"gpus/{made.stack}"
    declare(made, "copy", more=", labels: {a: b}")
    made.run("up", "-s", "copy", "--yes", "--skip-preview")
    del made.env["GPUS_TAKE_OVER"]
    made.run("destroy", "-s", "copy", "--yes", "--skip-preview")
    assert names(made) == []


@pytest.mark.parametrize("query", ["", "?no_tmp_dir=true"])
def test_one_stack_in_two_backends_is_the_first_ones(project, query):
    """The same project and stack name, imported into a second backend: refused there, and named
    elsewhere by a sweep; free again once the first backend's state is gone.
    """
    import subprocess

    made = project()
    made.env["PULUMI_BACKEND_URL"] += query
    declare(made, made.stack)
    made.up()
    before = names(made)
    file = made.folder / "exported.json"
    made.run("stack", "export", "-s", made.stack, "--file", str(file))
    first, second = made.env["PULUMI_BACKEND_URL"], made.folder / "second"
    second.mkdir()
    made.env["PULUMI_BACKEND_URL"] = f"file://{second}{query}"
    made.run("stack", "init", made.stack, "--no-select")
    made.run("stack", "import", "-s", made.stack, "--file", str(file))
    made.run("refresh", "-s", made.stack, "--yes", "--skip-preview")
    assert f"file://{made.folder}/state" in refused(made, "destroy", stack=made.stack)
    made.run("state", "delete", CLUSTER.format(made.stack), "-s", made.stack, "--yes")
    refused(made, "up", stack=made.stack)
    swept = subprocess.run(
        ["gpus", "sweep", "--yes"],
        check=False,
        env=made.env,
        cwd=made.folder,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "elsewhere" in swept.stdout, swept.stdout + swept.stderr
    assert names(made) == before
    made.run("stack", "import", "-s", made.stack, "--file", str(file))
    made.env["PULUMI_BACKEND_URL"] = first
    made.run("stack", "rm", "-s", made.stack, "--force", "--yes", "--preserve-config")
    made.env["PULUMI_BACKEND_URL"] = f"file://{second}"
    made.destroy()
    assert names(made) == []
