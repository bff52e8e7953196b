"""Vertex AI's custom jobs by themselves: what is asked for, what a job means, and the real client
against the stand-in's wire.
"""

import json
import subprocess
from pathlib import Path

import pytest
from googleapiclient import discovery as google

from providers.adapters.gcp.errors import Context
from providers.rehearsal.clouds.gcp import generate
from providers.adapters.gcp.vertex import MANIFEST, errors, job, options
from providers.adapters.gcp.vertex.adapter import endpoint_of
from providers.adapters.gcp.vertex.offers import ACCELERATORS, sold
from providers.adapters.gcp.vertex.regions import LOCATIONS
from providers.rehearsal.store import open_store
from providers.catalog.offers import load
from providers.engine import validate
from providers.engine.market import planning
from providers.adapters import registry
from providers.engine.setup import start
from providers.errors import NoCapacity, NotConfigured, QuotaExceeded, SpecError, Unsupported
from providers.model.machine import Handle, Mark, Order, Setup
from providers.model.offer import Candidate, Offer
from providers.model.spec import read_cluster

TOKEN = "0e7d2c1a-1111-4222-8333-444455556666"
NAME = "projects/rehearsal/locations/us-central1/customJobs/123"


def candidate(
    machine="a3-highgpu-8g",
    gpu="H100",
    count=8,
    capacity="on-demand",
    nodes=1,
    kind="job",
    region="us-central1",
):
    return Candidate(
        1,
        0,
        Offer("vertex", region, "", machine, gpu, count, capacity, 1_000_000),
        nodes,
        kind=kind,
    )


def order(chosen=None, setup=None, wait_s=600, **fields):
    chosen = chosen or candidate()
    names = tuple(f"train-0e7d2c1a-{index}" for index in range(chosen.nodes))
    given = {"image": "a/b:1", "command": ["python", "train.py"], **fields}
    setup = setup or Setup(
        ttl_s=3_600, labels=(("team", "blue"),), options=tuple(sorted(given.items()))
    )
    return Order(Mark("o1", "train", "g1", "f1"), TOKEN, (chosen,), names, setup, wait_s)


# What is asked for


def test_the_body_of_one_node():
    """Machine type, GPU and count are all stated, the ttl is the timeout, and the labels say whose
    it is and which order.
    """
    body = job.body(
        order(
            env={"A": "x$(B)"},
            service_account="me@p.iam.gserviceaccount.com",
            output="gs://bucket/out",
        )
    )
    assert body == {
        "displayName": "train-0e7d2c1a",
        "labels": {
            "team": "blue",
            "gpus_owner": "o1",
            "gpus_cluster": "train",
            "gpus_generation": "g1",
            "gpus_fingerprint": "f1",
            "gpus_order": TOKEN,
        },
        "jobSpec": {
            "workerPoolSpecs": [
                {
                    "machineSpec": {
                        "machineType": "a3-highgpu-8g",
                        "acceleratorType": "NVIDIA_H100_80GB",
                        "acceleratorCount": 8,
                    },
                    "replicaCount": "1",
                    "containerSpec": {
                        "imageUri": "a/b:1",
                        "command": ["python", "train.py"],
                        "env": [{"name": "A", "value": "x$$(B)"}],
                    },
                }
            ],
            "scheduling": {"strategy": "STANDARD", "timeout": "3600s"},
            "serviceAccount": "me@p.iam.gserviceaccount.com",
            "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/out"},
        },
    }


def test_several_nodes_are_a_pool_of_one_and_one_of_the_rest():
    """The first pool has one replica, as Vertex AI wants; the second the others, of the same
    machine.
    """
    first, second = job.body(order(candidate(nodes=4)))["jobSpec"]["workerPoolSpecs"]
    assert ("1", "3") == (first["replicaCount"], second["replicaCount"]) and first[
        "machineSpec"
    ] == second["machineSpec"]


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        ("on-demand", {"strategy": "STANDARD", "timeout": "3600s"}),
        ("spot", {"strategy": "SPOT", "timeout": "3600s"}),
        ("flex-start", {"strategy": "FLEX_START", "timeout": "3600s", "maxWaitDuration": "600s"}),
    ],
)
def test_the_strategy_follows_the_capacity(capacity, expected):
    """Spot and Flex-start by the spec's capacity; a queue is waited in as long as the spec waits,
    never for ever.
    """
    assert job.body(order(candidate(capacity=capacity)))["jobSpec"]["scheduling"] == expected
    queued = job.body(order(candidate(capacity="flex-start"), wait_s=0))["jobSpec"]["scheduling"]
    assert "1s" == queued["maxWaitDuration"]


def test_n1_names_its_gpu_too():
    """An attached GPU is stated like a built-in one; a disk below Vertex AI's default is that
    default.
    """
    pool = job.body(
        order(candidate("n1-standard-8", "T4", 2), Setup(disk_gib=50, options=(("image", "a/b"),)))
    )["jobSpec"]["workerPoolSpecs"][0]
    assert {
        "machineType": "n1-standard-8",
        "acceleratorType": "NVIDIA_TESLA_T4",
        "acceleratorCount": 2,
    } == pool["machineSpec"]
    assert {"bootDiskSizeGb": 100} == pool["diskSpec"] and "command" not in pool["containerSpec"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"chosen": candidate(kind="machine")}, "found a machine"),
        ({"chosen": candidate(kind="service")}, "found a service"),
        ({"chosen": candidate("a4x-maxgpu-4g-metal", "GB300", 4)}, "no accelerator type for GB300"),
        (
            {"chosen": candidate(capacity="reservation")},
            "none of Vertex AI's scheduling strategies",
        ),
        ({"setup": Setup()}, "wanted a container image"),
        ({"setup": Setup(options=(("image", "a/b"),), secrets=(("TOK", "x"),))}, "in clear"),
        (
            {
                "chosen": candidate(capacity="flex-start"),
                "setup": Setup(ttl_s=8 * 86_400, options=(("image", "a/b"),)),
            },
            "at most 7d",
        ),
    ],
)
def test_what_a_custom_job_cannot_be_is_never_sent(change, told):
    """Each is Unsupported with its reason, remembered nowhere."""
    with pytest.raises(Unsupported, match=told) as error:
        job.body(order(**change))
    assert 0 == error.value.block_s


def test_every_accelerator_type_is_one_of_the_apis():
    """The names are those of the discovery document."""
    schema = generate.installed("aiplatform.v1")["schemas"]["GoogleCloudAiplatformV1MachineSpec"]
    assert set(ACCELERATORS.values()) <= set(schema["properties"]["acceleratorType"]["enum"])


def test_the_committed_extract_is_part_of_the_installed_document():
    """The stand-in's discovery.json is what the generator makes of the installed client's document,
    and so are the regions.
    """
    installed = generate.installed("aiplatform.v1")
    committed = json.loads(generate.VERTEX.read_text())
    assert installed["revision"] != committed["revision"] or committed == generate.discovery(
        installed, generate.VERTEX_SERVED
    )
    table = load()
    regions = {
        region
        for region, provider in zip(table.column("region"), table.column("provider"), strict=True)
        if provider == "gcp"
    }
    assert {place["location"] for place in installed["endpoints"]} & regions == LOCATIONS | {
        "me-central2"
    }


# The workload


def started(workload, nodes=1, gpu="L4:1", **options_of):
    spec = read_cluster(
        "t",
        {"kind": "job", "gpu": gpu, "nodes": nodes, "providers": ["vertex"], "workload": workload},
    )
    ask = spec.ask()
    begun = start(ask, ask.entries[0], "L4", 1, "private", MANIFEST, options_of)
    assert "" == begun.script and not begun.watched
    return options.read(begun.section)


def test_a_plain_workload_is_the_containers_own_command_and_environment():
    """Image, command and env stand as themselves; what options.vertex says wins."""
    chosen = started({"image": "a/b:1", "command": "python train.py --lr 1", "env": {"X": "1"}})
    assert ("a/b:1", ("bash", "-c", "python train.py --lr 1"), (("X", "1"),)) == chosen[:3]
    assert "c/d:2" == started({"image": "a/b:1", "command": "x"}, image="c/d:2").image


def test_setup_and_files_are_done_by_the_start_up_script():
    """With an image, both run inside it before the command, whose exit code is the job's."""
    chosen = started({"image": "a/b:1", "command": "exit 7", "setup": ["true"]})
    assert chosen.command[:2] == ("bash", "-c") and chosen.command[2].startswith(
        "GPUS_ROOT=/tmp/gpus\n"
    )


def test_the_start_up_script_ends_with_the_programs_exit_code(tmp_path):
    """Run for real: setup, then the command."""
    chosen = started(
        {"image": "a/b:1", "command": "test -e ready && exit 7", "setup": ["touch ready"]}
    )
    text = chosen.command[2].replace("/tmp/gpus", str(tmp_path / "root"))
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        timeout=60,
    )
    assert 7 == done.returncode


@pytest.mark.parametrize(("task", "rank"), [(("workerpool0", 0), "0"), (("workerpool1", 1), "2")])
def test_each_node_finds_rank_and_leader_in_cluster_spec(tmp_path, task, rank):
    """Run for real, with CLUSTER_SPEC as Google documents it: the first pool leads, ranks follow
    the pools.
    """
    chosen = started(
        {"image": "a/b:1", "command": 'echo "$GPUS_NODE_RANK $GPUS_LEADER" >told'}, nodes=3
    )
    text = chosen.command[2].replace("/tmp/gpus", str(tmp_path / "root"))
    cluster = {"workerpool0": ["cmle-0:2222"], "workerpool1": ["cmle-1:2222", "cmle-2:2222"]}
    spec = {"cluster": cluster, "task": {"type": task[0], "index": task[1]}}
    env = {
        "PATH": f"{Path(subprocess.sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "CLUSTER_SPEC": json.dumps(spec),
    }
    assert 0 == subprocess.run(["bash", "-c", text], cwd=tmp_path, env=env, timeout=60).returncode
    assert f"{rank} cmle-0" == (tmp_path / "told").read_text().strip()
    del env["CLUSTER_SPEC"]
    (tmp_path / "root" / "peers").unlink()
    assert (
        1
        == subprocess.run(
            ["bash", "-c", text], cwd=tmp_path, env=env, timeout=60, capture_output=True
        ).returncode
    )


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"image": "no image!"}, "image"),
        ({"command": ""}, "command"),
        ({"env": {"1A": "x"}}, "env"),
        ({"env": {"A": 1}}, "env"),
        ({"network": "default"}, "network"),
        ({"output": "s3://x/y"}, "output"),
        ({"boot_disk_type": "pd-balanced"}, "boot_disk_type"),
        ({"service_account": "me"}, "service_account"),
        ({"vertex": True}, "vertex"),
    ],
)
def test_wrong_options_are_named(section, path):
    """One problem each, with its path."""
    assert [path] == [problem.path for problem in MANIFEST.options(section)]


# What is for sale


def plan(**fields):
    spec = read_cluster(
        "t",
        {
            "kind": "job",
            "gpu": "H100:8",
            "providers": ["vertex"],
            "workload": {"image": "a/b", "command": "x"},
            **fields,
        },
    )
    return planning.plan(spec.ask(), setup=spec.setup(), use_journal=False), validate.problems(
        spec, registry.manifests()
    )


def test_prices_are_estimates_on_demand_and_unknown_otherwise():
    """Compute Engine's rate + 15%, told as an estimate with both sources; Spot has no price, and is
    bought at the user's own alone.
    """
    made, _ = plan()
    best = made.best
    table = load()
    listed = [table.offer(row) for row in table.by_gpu["H100"]]
    machine = next(
        o
        for o in listed
        if (o.region, o.machine_type, o.capacity) == (best.region, "a3-highgpu-8g", "on-demand")
    )
    assert (
        round(machine.node_micro_usd * 1.15) == best.micro_usd
        and machine.price_as_of == best.price_as_of
    )
    assert (
        best.price_source.startswith("estimate: ")
        and "2026-10-07" in best.price_source
        and "" == best.zone
    )
    spot, _ = plan(capacity=["spot"])
    assert () == spot.candidates and spot.rejected_by_rule["price-known"]
    own = {"overrides": [{"provider": "vertex", "price_usd_per_hour": 55, "capacity": "spot"}]}
    assert 55_000_000 == plan(capacity=["spot"], prices=own)[0].best.micro_usd


def test_each_place_is_offered_once_and_what_google_does_not_sell_is_not():
    """Zones are left out; a kind of capacity that Compute Engine refuses of a machine is refused
    here; T4 and V100 are never queued for.
    """
    table = load()
    spec = read_cluster(
        "t", {"kind": "job", "gpu": "T4", "workload": {"image": "a/b", "command": "x"}}
    )
    offers = [
        table.offer(row)
        for gpu in ("T4", "H100", "GB300")
        for row in table.by_gpu[gpu]
        if table.column("provider")[row] == "gcp"
    ]
    found = sold(spec.ask(), offers)
    assert (
        len({offer.id for offer in found}) == len(found)
        and {""} == {offer.zone for offer in found}
        and {"vertex"} == {o.provider for o in found}
    )
    assert not [offer for offer in found if offer.gpu_type == "GB300" and not offer.restriction]
    assert all(
        offer.restriction
        for offer in found
        if offer.capacity == "flex-start" and offer.gpu_type == "T4"
    )
    assert all(
        offer.restriction
        for offer in found
        if offer.machine_type == "a3-highgpu-1g" and offer.capacity == "on-demand"
    )


@pytest.mark.parametrize(
    ("kind", "workload"),
    [("machine", None), ("service", {"image": "a/b", "command": "x", "port": 80})],
)
def test_other_kinds_are_refused_in_the_plan(kind, workload):
    """A machine or a service at Vertex AI has no candidate, by the rule for kinds."""
    made, _ = plan(kind=kind, workload=workload)
    assert () == made.candidates and made.rejected_by_rule["kind"]


def test_a_job_without_an_image_is_refused():
    """Where Vertex AI is named it is a mistake with its path; where it is one of any, it is passed
    over with the reason.
    """
    bare = {"command": "python train.py", "setup": ["pip install x"]}
    _, problems = plan(workload=bare)
    assert ["options.vertex.image"] == [
        problem.path for problem in problems
    ] and "setup and files" in problems[0].wanted
    made, problems = plan(workload=bare, providers=None, gpu="L4:1")
    assert (
        [] == problems
        and {"gcp", "aws"} <= {found.provider for found in made.candidates}
        and "vertex" not in {c.provider for c in made.candidates}
    )
    assert any(
        "container image" in rejection.found
        for rejection in made.rejections
        if rejection.offer.provider == "vertex"
    )


def test_a_secret_by_reference_is_refused():
    """A variable of a custom job stands in it in clear: no reference is taken for it, and no place
    there serves a declaration with secrets.
    """
    made, problems = plan(secrets={"TOK": {"vertex": "projects/p/secrets/x"}})
    assert ["secrets.TOK.vertex"] == [problem.path for problem in problems]
    made, problems = plan(secrets={"TOK": {"gcp": "projects/p/secrets/x"}})
    assert [] == problems and () == made.candidates and made.rejected_by_rule["secret"]


# What a job means


def seen(state, **fields):
    machine = {
        "machineType": "a3-highgpu-8g",
        "acceleratorType": "NVIDIA_H100_80GB",
        "acceleratorCount": 8,
    }
    strategy = fields.pop("strategy", "STANDARD")
    return {
        "name": NAME,
        "displayName": "train-1",
        "state": f"JOB_STATE_{state}",
        "jobSpec": {
            "scheduling": {"strategy": strategy},
            "workerPoolSpecs": [{"machineSpec": machine, "replicaCount": "1"}],
        },
        "labels": {
            "gpus_owner": "o1",
            "gpus_cluster": "train",
            "gpus_generation": "g1",
            "gpus_fingerprint": "f1",
        },
        **fields,
    }


STARTED = {"startTime": "2026-11-28T10:00:00Z"}


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (seen("QUEUED"), "pending"),
        (seen("PENDING"), "pending"),
        (seen("QUEUED", strategy="FLEX_START"), "queued"),
        (seen("RUNNING"), "running"),
        (seen("UPDATING", **STARTED), "running"),
        (seen("CANCELLING", **STARTED), "stopping"),
        (seen("SUCCEEDED", **STARTED), "ended"),
        (
            seen(
                "FAILED",
                **STARTED,
                error={
                    "code": 3,
                    "message": "The replica workerpool0-0 exited with a non-zero status of 1.",
                },
            ),
            "failed",
        ),
        (seen("FAILED", **STARTED, error={"code": 8}), "failed"),
        (seen("FAILED", **STARTED, strategy="SPOT", error={"code": 8}), "preempted"),
        (seen("FAILED", error={"code": 8}), "stopped"),
        (seen("EXPIRED", **STARTED), "failed"),
        (seen("PARTIALLY_SUCCEEDED", **STARTED), "failed"),
        (seen("CANCELLED", **STARTED), "failed"),
        (seen("CANCELLED"), "failed"),
    ],
)
def test_what_each_state_means(found, status):
    """Done, well or not, is not gone; what never ran is not done; a Spot job that lost its machines
    was preempted.
    """
    made = job.node(Handle("vertex", NAME), found)
    assert (status, "train-1-0", "H100", 8, "us-central1", "job") == (
        made.status,
        made.name,
        made.gpu_type,
        made.gpu_count,
        made.region,
        made.kind,
    )
    assert Mark("o1", "train", "g1", "f1") == made.mark
    assert (
        made.url
        == "https://console.cloud.google.com/logs/query;query=resource.type%3D%22ml_job%22%0Aresource.labels.job_id%3D%22123%22?project=rehearsal"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "projects/p/zones/z/instances/n",
        "projects/p/locations/l/customJobs/1/replicas/x",
        "projects//locations/l/customJobs/1",
    ],
)
def test_a_handle_that_is_none_is_told(text):
    """What is no custom job's name is a clear error."""
    with pytest.raises(SpecError):
        job.parse(Handle("vertex", text))


def test_a_limit_is_told_from_a_stockout_by_the_limits_name():
    """Both end a job with code 8; the name of a quota metric is what only a limit has."""
    context = Context("a test", "p", candidates=(candidate(),))
    room = errors.never_ran(
        {"error": {"code": 8, "message": "Resources are insufficient in region: us-central1."}},
        context,
    )
    limit = errors.never_ran(
        {
            "error": {
                "code": 8,
                "message": (
                    "The following quota metrics exceed quota limits:"
                    " aiplatform.googleapis.com/custom_model_training_cpus"
                ),
            }
        },
        context,
    )
    assert (NoCapacity, QuotaExceeded, "custom_model_training_cpus") == (
        type(room),
        type(limit),
        limit.metric,
    )
    assert room.block_s > 0 and all(
        scope.covers(candidate()) for scope in (*room.scopes, *limit.scopes)
    )


# The wire


def test_a_regions_jobs_are_asked_for_at_its_own_endpoint():
    """The host follows the location in the path; what has none stays."""
    uri = (
        "https://aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/customJobs?alt=json"
    )
    assert (
        "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/customJobs?alt=json"
        == endpoint_of(uri)
    )
    assert "https://aiplatform.googleapis.com/v1/x" == endpoint_of(
        "https://aiplatform.googleapis.com/v1/x"
    )


def test_live_wants_its_own_project(monkeypatch):
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
    made = MANIFEST.connect("rehearsal", {"endpoint": f"{server.url}/"})
    made.store, made.server = store, server
    yield made
    assert [] == server.faulty
    server.close()


def test_every_page_is_read(cloud):
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


def test_the_official_library_of_another_layer_sees_the_same_job(cloud):
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
    assert "JOB_STATE_PENDING" == made["state"] and "startTime" not in made
    assert [made["name"]] == [
        each["name"]
        for each in jobs.list(parent=parent, filter=f'labels.gpus_order="{TOKEN}"').execute()[
            "customJobs"
        ]
    ]
    assert {} == jobs.list(parent=parent, filter='labels.gpus_order="other"').execute()
    with pytest.raises(HttpError, match="has not ended"):
        jobs.delete(name=made["name"]).execute()
    cloud.store.advance(5)
    assert "JOB_STATE_RUNNING" == jobs.get(name=made["name"]).execute()["state"]
    cloud.store.advance(60)
    assert "JOB_STATE_SUCCEEDED" == jobs.get(name=made["name"]).execute()["state"]
    with pytest.raises(HttpError, match="has ended"):
        jobs.cancel(name=made["name"], body={}).execute()
    assert jobs.delete(name=made["name"]).execute()["done"] is True
    with pytest.raises(HttpError) as gone:
        jobs.get(name=made["name"]).execute()
    assert 404 == gone.value.resp.status
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
        assert 400 == refused.value.resp.status


def test_a_machine_and_a_gpu_that_do_not_agree_are_refused(cloud):
    """As at Vertex AI, which wants both: Unsupported, and nothing is made."""
    with pytest.raises(Unsupported):
        cloud.submit(order(candidate("a3-highgpu-8g", "A100", 8)))
    with pytest.raises(Unsupported):
        cloud.submit(order(candidate("no-such-type", "L4", 1)))
    assert [] == list(cloud.find("o1"))


def test_flex_start_is_had_at_the_first_moment_at_which_stock_was_there(cloud):
    """Queued without stock; restocked, it runs, whoever asks and whenever; past its wait it ends
    with no capacity.
    """
    store, chosen = cloud.store, candidate(capacity="flex-start")
    store.set_stock("vertex", "", "", "", 0)
    ticket = cloud.poll(cloud.submit(order(chosen)))
    assert "queued" == ticket.state
    store.advance(300)
    store.set_stock("vertex", "", "", "", None)
    store.advance(60)
    assert "done" == cloud.poll(ticket).state
    store.set_stock("vertex", "", "", "", 0)
    other = cloud.submit(order(chosen)._replace(token=TOKEN.replace("0e7d", "1111")))
    store.advance(601)
    with pytest.raises(NoCapacity):
        cloud.poll(other)


def test_a_job_takes_no_edits(cloud):
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
