"""Google's real client, and other libraries, against the wire of the Vertex AI stand-in."""

from typing import Any

import pytest
from googleapiclient import discovery as google

from providers.adapters.gcp.vertex import MANIFEST, job
from providers.adapters.gcp.vertex.adapter import endpoint_of
from providers.adapters.gcp.vertex.regions import LOCATIONS
from providers.errors import NoCapacity, NotConfigured, Unsupported
from providers.rehearsal.store import open_store
from tests.unit.vertex.rig import TOKEN, candidate, order


def test_a_regions_jobs_are_asked_for_at_its_own_endpoint() -> None:
    """The host follows the location in the path; what has none stays."""
    uri = (
        "https://aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/customJobs?alt=json"
    )
    assert (
        endpoint_of(uri)
        == "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/customJobs?alt=json"
    )
    assert (
        endpoint_of("https://aiplatform.googleapis.com/v1/x")
        == "https://aiplatform.googleapis.com/v1/x"
    )


def test_live_wants_its_own_project(monkeypatch) -> None:
    """Compute Engine's default project is not taken for it."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    monkeypatch.delenv("GPUS_VERTEX_PROJECT", raising=False)
    with pytest.raises(NotConfigured, match="vertex:project"):
        MANIFEST.connect("live", {})


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    from providers.rehearsal.clouds import vertex

    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    store = open_store()
    server = vertex.start(store)
    made: Any = MANIFEST.connect("rehearsal", {"endpoint": f"{server.url}/"})
    made.store, made.server = store, server
    yield made
    assert server.faulty == []
    server.close()


def test_every_page_is_read(cloud) -> None:
    """A region's list has pages of 100: of one job more, all are found, each once."""
    store = cloud.store
    store.set_latency("vertex", "job", 90_000)
    for index in range(101):
        cloud.submit(
            order(candidate("g2-standard-4", "L4", 1))._replace(
                token=f"0e7d2c1a-1111-4222-8333-{index:012d}"
            )
        )
    found = [node.handle for node in cloud.find("o1")]
    assert 101 == len(found) == len(set(found))
    assert 1 + len(LOCATIONS) == len(store.requests("customJobs.list"))


def test_the_official_library_of_another_layer_sees_the_same_job(cloud) -> None:
    """Google's generated client by itself, on the stand-in: the filter by labels, the states by the
    clock, cancel and delete as documented.
    """
    import httplib2
    from googleapiclient.errors import HttpError

    built = google.build(
        "aiplatform",
        "v1",
        http=httplib2.Http(),
        client_options={"api_endpoint": f"{cloud.server.url}/"},
        static_discovery=True,
    )
    jobs = built.projects().locations().customJobs()
    parent = "projects/rehearsal/locations/us-central1"
    body = job.body(order(candidate("g2-standard-4", "L4", 1)))
    made = jobs.create(parent=parent, body=body).execute()
    assert made["state"] == "JOB_STATE_PENDING" and "startTime" not in made
    assert [made["name"]] == [
        each["name"]
        for each in jobs.list(parent=parent, filter=f'labels.gpus_order="{TOKEN}"').execute()[
            "customJobs"
        ]
    ]
    assert jobs.list(parent=parent, filter='labels.gpus_order="other"').execute() == {}
    with pytest.raises(HttpError, match="has not ended"):
        jobs.delete(name=made["name"]).execute()
    cloud.store.advance(5)
    assert jobs.get(name=made["name"]).execute()["state"] == "JOB_STATE_RUNNING"
    cloud.store.advance(60)
    assert jobs.get(name=made["name"]).execute()["state"] == "JOB_STATE_SUCCEEDED"
    with pytest.raises(HttpError, match="has ended"):
        jobs.cancel(name=made["name"], body={}).execute()
    assert jobs.delete(name=made["name"]).execute()["done"] is True
    with pytest.raises(HttpError) as gone:
        jobs.get(name=made["name"]).execute()
    assert gone.value.resp.status == 404
    for wrong in (
        {**body, "labels": {"Team": "X"}},
        {
            **body,
            "jobSpec": {
                **body["jobSpec"],
                "workerPoolSpecs": [{**body["jobSpec"]["workerPoolSpecs"][0], "replicaCount": "2"}],
            },
        },
        {
            **body,
            "jobSpec": {
                **body["jobSpec"],
                "scheduling": {"strategy": "SPOT", "maxWaitDuration": "1s"},
            },
        },
        {**body, "noSuchField": 1},
    ):
        with pytest.raises(HttpError) as refused:
            jobs.create(parent=parent, body=wrong).execute()
        assert refused.value.resp.status == 400


def test_a_machine_and_a_gpu_that_do_not_agree_are_refused(cloud) -> None:
    """As at Vertex AI, which wants both: Unsupported, and nothing is made."""
    with pytest.raises(Unsupported):
        cloud.submit(order(candidate("a3-highgpu-8g", "A100", 8)))
    with pytest.raises(Unsupported):
        cloud.submit(order(candidate("no-such-type", "L4", 1)))
    assert list(cloud.find("o1")) == []


def test_flex_start_is_had_at_the_first_moment_at_which_stock_was_there(cloud) -> None:
    """Queued without stock; restocked, it runs, whoever asks and whenever; past its wait it ends
    with no capacity.
    """
    store, chosen = cloud.store, candidate(capacity="flex-start")
    store.set_stock("vertex", "", "", "", 0)
    ticket = cloud.poll(cloud.submit(order(chosen)))
    assert ticket.state == "queued"
    store.advance(300)
    store.set_stock("vertex", "", "", "", None)
    store.advance(60)
    assert cloud.poll(ticket).state == "done"
    store.set_stock("vertex", "", "", "", 0)
    other = cloud.submit(order(chosen)._replace(token=TOKEN.replace("0e7d", "1111")))
    store.advance(601)
    with pytest.raises(NoCapacity):
        cloud.poll(other)


def test_a_job_takes_no_edits(cloud) -> None:
    """Another generation, another label: refused, and nothing is sent."""
    cloud.store.set_latency("vertex", "job", 90_000)
    ticket = cloud.submit(order(candidate("g2-standard-4", "L4", 1)))
    cloud.store.advance(5)
    (handle,) = cloud.poll(ticket).handles
    before = cloud.store.mutations()
    with pytest.raises(Unsupported, match="takes no edits"):
        cloud.relabel(handle, "g2")
    with pytest.raises(Unsupported, match="takes no edits"):
        cloud.update(handle, {"labels": {"a": "b"}})
    assert before == cloud.store.mutations()
