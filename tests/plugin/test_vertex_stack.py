"""A Vertex AI custom job as a stack, through the real engine."""


def test_a_custom_job_from_preview_to_destroy(project) -> None:
    """Estimated in preview, launched by one request past a region without room, waited for, done and
    left alone by the next `up`, gone with destroy.
    """
    made = project("job-vertex")
    shown = " ".join(made.preview().split())
    assert (
        "vertex us-central1 g2-standard-4 L4:1 on-demand" in shown
        and "its price is an estimate: Compute Engine's rate + 15%" in shown
    )
    made.rehearse("stock", "vertex", "us-central1", "*", "*", "0")
    made.rehearse("fault", "vertex", "customJobs.create", "reply-lost", "--place", "europe-west4")
    made.rehearse("latency", "vertex", "job", "5m")
    made.up()
    out = made.cluster()["outputs"]
    assert (out["provider"], out["region"], out["status"], out["gpu_type"]) == (
        "vertex",
        "europe-west4",
        "running",
        "L4",
    )
    assert out["attempts"][0].endswith("NoCapacity 8") and out["attempts"][-1].endswith("acquired")
    assert out["ssh"].startswith(
        "gcloud ai custom-jobs stream-logs projects/rehearsal/locations/europe-west4/customJobs/"
    )
    assert out["endpoints"][0].startswith(
        "https://console.cloud.google.com/logs/query;query=resource.type%3D%22ml_job%22"
    )
    assert [machine["provider"] for machine in made.machines()] == ["vertex"]
    before = made.seen()["mutations"]
    assert "unchanged" in made.up() and made.seen()["mutations"] == before
    made.rehearse("advance", "10m")
    assert "exit code 0" in made.gpus("wait", "train", "-s", "job-vertex")
    said = " ".join(made.up().split())
    assert (
        "the job is done (exit code 0)" in said and made.cluster()["outputs"]["status"] == "ended"
    )
    assert "unchanged" in made.up() and made.seen()["mutations"] == before and made.machines() == []
    made.gpus("rerun", "train", "-s", "job-vertex", "--up", "--yes")
    assert made.cluster()["outputs"]["status"] == "running" and len(made.machines()) == 1
    made.destroy()
    assert made.machines() == []


def test_what_vertex_cannot_be_is_refused_before_anything_is_asked(project) -> None:
    """A machine, a job without an image, and a GPU that Vertex AI has no name for: told by the
    preview, nothing sent.
    """
    made = project("job-vertex")
    made.edit("kind: job", "kind: machine")
    assert "vertex can only be a job" in " ".join(made.preview(fails=True).split())
    made.edit("kind: machine", "kind: job")
    made.edit("        image: us-docker.pkg.dev/my-project/train/torch:1\n", "")
    refused = " ".join(made.preview(fails=True).split())
    assert "options.vertex.image" in refused and "a container image that the job runs in" in refused
    assert made.seen()["mutations"] == 0
