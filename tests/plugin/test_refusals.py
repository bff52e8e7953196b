"""What cannot be served is refused whole and before anything is lost, through the real engine."""

import re

import pytest

PULUMIS_OWN = re.compile("unhandled error|monitor has terminated|has a problem")
"""What Pulumi adds of itself where a program or a registration fails."""


def test_nothing_to_be_had(project) -> None:
    """Everything is sold out: one line per attempt, no traceback, nothing left."""
    made = project()
    made.edit("providers: [gcp, aws, modal]", "providers: [gcp, aws]")
    for cloud in ("gcp", "aws"):
        made.rehearse("stock", cloud, "*", "*", "*", "0")
        made.rehearse("latency", cloud, "stockout", "0s")
    said = made.up(fails=True)
    assert "#1 gcp" in said and "allow more" in said
    assert made.machines() == []
    made.destroy()


def test_bad_input_is_told_whole(project) -> None:
    """Every problem with its path, at preview; unknown keys of the configuration too."""
    made = project()
    made.edit("gpu: H100:8", "gpu: H1000:8\n      nodez: 2")
    made.edit("max_price_per_hour: 60", "max_price_per_hour: -60")
    said = made.preview(fails=True)
    for path in ("train.gpu", "train.nodez", "train.max_price_per_hour"):
        assert f"error: gpus:clusters.{path}: wanted" in said
    assert PULUMIS_OWN.search(said) is None
    for old, new, wanted in (
        (
            "gpus:world: rehearsal",
            "gpus:world: dream",
            "gpus:world: wanted rehearsal or live, found 'dream'",
        ),
        ("gpus:world: dream", "gpus:wurld: rehearsal", "found 'gpus:wurld'; near: gpus:world"),
        (
            "gpus:wurld: rehearsal",
            "gpus:world: rehearsal\n  gpus:clusters: [train]\n  other:clusters: {}",
            "",
        ),
    ):
        made.edit(old, new)
        if wanted:
            assert wanted in made.preview(fails=True)
    made.file.write_text("config:\n  gpus:world: rehearsal\n  gpus:clusters: [train]\n")
    assert "gpus:clusters: wanted a map of clusters by name" in made.preview(fails=True)
    made.file.write_text("config:\n  gpus:world: rehearsal\n")
    assert "found nothing" in made.preview(fails=True)
    made.file.write_text("config: {}\n")
    assert "gpus:world: wanted rehearsal or live, found nothing" in made.preview(fails=True)


def test_live_without_credentials_is_not_a_rehearsal(project) -> None:
    """World live and no credentials: it says so, and nothing is rehearsed."""
    made = project("serve-l4")
    made.edit("gpus:world: rehearsal", "gpus:world: live")
    made.env["HOME"] = str(made.folder)
    made.env["CLOUDSDK_CONFIG"] = str(made.folder)
    made.env["NO_GCE_CHECK"] = "true"
    said = made.up(fails=True)
    assert "configured" in said
    assert made.machines() == []
    made.destroy()


@pytest.mark.parametrize("own_program", [False, True], ids=["stack", "own-program"])
def test_another_world_that_cannot_serve_is_refused_before_anything_is_lost(
    project, own_program
) -> None:
    """A stack that goes live without credentials is refused, with or without a preview: its
    rehearsal machine stays, and so does its state.
    """
    made = project("serve-l4")
    program = made.folder / "stacks" / "__main__.py"
    if own_program:
        program.write_text(
            "from providers import GpuCluster\nGpuCluster('serve', gpu='L4:1', providers=['gcp'])\n"
        )
    made.up()
    (machine,) = made.machines()
    before = made.resources()
    if own_program:
        program.write_text(
            "from providers import GpuCluster\nGpuCluster('serve', gpu='L4:1', providers=['gcp'],"
            " world='live')\n"
        )
    else:
        made.edit("gpus:world: rehearsal", "gpus:world: live")
    made.env |= nobody(made.folder)
    for said in (
        made.preview(fails=True),
        made.up(fails=True),
        made.up("--replace", made.cluster()["urn"], fails=True),
    ):
        assert (
            "from rehearsal to live: refused; what the stack has in the rehearsal world stays as"
            " it is" in " ".join(said.split())
        )
        assert "not configured: gcp: wanted application default credentials" in " ".join(
            said.split()
        )
    assert [machine["name"]] == [found["name"] for found in made.machines()]
    assert {kind: item["id"] for kind, item in before.items() if "id" in item} == {
        kind: item["id"] for kind, item in made.resources().items() if "id" in item
    }
    if not own_program:
        made.edit("gpus:world: live", "gpus:world: rehearsal")
        assert "unchanged" in made.preview("--expect-no-changes")
    made.destroy()
    assert made.machines() == []


def test_a_home_that_cannot_be_used_is_a_line_at_preview_and_stops_an_up(project) -> None:
    """GPUS_HOME is a file: the preview shows the plan with one line about it; `up` refuses with
    that line before any call.
    """
    made = project("serve-l4")
    (made.folder / "no-folder").write_text("")
    home, made.env["GPUS_HOME"] = made.env["GPUS_HOME"], str(made.folder / "no-folder")
    shown = made.preview()
    assert "buys  " in shown and "Errno" not in shown
    said = " ".join(made.up(fails=True).split())
    assert (
        "wanted a folder for what is kept between runs" in said
        and "set GPUS_HOME to one that can be written" in said
    )
    assert "asking" not in said and "Errno" not in said
    made.env["GPUS_HOME"] = home
    assert made.machines() == []
    made.destroy()


def nobody(folder):
    """An environment in which no provider's credentials can be found, without a network."""
    return {
        "HOME": str(folder),
        "CLOUDSDK_CONFIG": str(folder),
        "NO_GCE_CHECK": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.mark.core
def test_what_is_wrong_in_a_program_of_ones_own_is_told_alone(project) -> None:
    """Each problem of the cluster is a line; nothing was declared, and Pulumi adds nothing."""
    made = project()
    (made.folder / "stacks" / "__main__.py").write_text(
        "from providers import GpuCluster\nGpuCluster('one', gpu='H10:1', nodez=2)\n"
    )
    said = made.preview(fails=True)
    assert "error: one.gpu: wanted a known GPU, found 'H10'; near: H100" in said
    assert "error: one.nodez: wanted a known property (near: nodes)" in said
    assert PULUMIS_OWN.search(said) is None and "Ownership" not in said


def test_all_that_is_wrong_with_all_clusters_is_told_at_once(project) -> None:
    """Before anything is registered, without a traceback: each problem of each cluster, keys that
    Python reserves and homes of nobody among them.
    """
    made = project("serve-l4")
    clusters = (
        "{a: {gpu: H1000:8, self: 1}, b: {gpu: L4:1, nodes: true}, c: L4:1, '': L4:1, d: {gpu:"
        " L4:1, ssh_key: ~nouser/x.pub, world: live}, e: {gpu: L4:1, network: managed, expose:"
        " public, ports: [x, 0], providers: 5, regions: [us-central1]}}"
    )
    made.file.write_text(f"config:\n  gpus:world: rehearsal\n  gpus:clusters: {clusters}\n")
    said = made.preview(fails=True)
    for path in (
        "a.gpu",
        "a.self",
        "b.nodes",
        "''",
        "d",
        "d.ssh_key",
        "e.ports[0]",
        "e.ports[1]",
        "e.providers",
    ):
        assert f"gpus:clusters.{path}: wanted" in said
    assert "KeyboardInterrupt" not in said
    assert "Ownership" not in said


def test_live_needs_credentials_before_anything_is_declared(project) -> None:
    """A managed network is Google's own resources: without credentials none of them is declared. A
    secret setting is refused as a secret cluster is.
    """
    made = project("train-h100x8x2")
    made.edit("gpus:world: rehearsal", "gpus:world: live")
    made.env |= {
        "HOME": str(made.folder),
        "CLOUDSDK_CONFIG": str(made.folder),
        "NO_GCE_CHECK": "true",
    }
    said = made.preview(fails=True)
    assert "gpus:clusters.train: gcp: wanted application default credentials" in said
    assert "gcp:compute" not in said
    made.run("config", "set", "--secret", "gcp:project", "mine", "-s", made.stack)
    assert "gcp:project: wanted plain text, found a secret" in made.preview(fails=True)


def test_b46_modal_refuses_bad_gpus_of_a_job_at_preview(project) -> None:
    """An A100-70GB, which nobody knows, fails the preview's check: nothing is sent. Eight A10s,
    which Modal does not sell, are left out in a line.
    """
    made = project("job-l4")
    made.edit('fallback: ["A10:1"]', "fallback: [A100-70GB, A10:8]")
    shown = " ".join(made.preview(fails=True).split())
    assert "A100-70GB" in shown and "A100-80GB" in shown and "A10:8" not in shown
    made.edit("A100-70GB, ", "")
    assert (
        "left out the first fallback: A10:8 in one machine: counts on offer: modal 1, 2, 3, 4"
        in " ".join(made.preview().split())
    )
    assert made.seen()["mutations"] == 0
