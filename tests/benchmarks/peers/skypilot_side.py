"""SkyPilot on the simulated market: its own optimizer, failover and blocklist.

Runs in an environment that has `skypilot[aws,gcp]`, in a home of its own. What is its own here:
`Optimizer.optimize` over a catalog of our rows, `RetryingVmProvisioner.provision_with_retries` with
its blocked resources and error handlers, and EC2's `_create_instances` (which tries the subnets).
What is ours: the clouds' answers, and what stands around an attempt, which calls clouds too: it
writes a cluster's file, keeps it in a database, prepares a region (`BOOTSTRAP_CALLS`) and looks for
what a failed attempt left. How long its optimizer computes is not counted.
"""

from __future__ import annotations

import copy
import csv
import hashlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.benchmarks.acquire_sides import Ran, Wish
from tests.benchmarks.market import GCP, Pool, Row
from tests.benchmarks.peers.jobs import Clock, Job, run, settled

BOOTSTRAP_CALLS = 6
"""Its own comment says that it takes about 3 s (provision/provisioner.py, 0.14.1)."""
LOOK_CALLS = 1
ACCOUNT = "account"
STEADY = frozenset(
    (
        "get_accelerator_hourly_cost",
        "get_accelerators_from_instance_type",
        "get_hourly_cost",
        "get_vcpus_mem_from_instance_type",
        "instance_type_exists",
    )
)
"""Questions to its catalog whose answers are figures."""
SETTLES_S = 1.0
"""It sleeps so long after a creating call that was granted (provision/provisioner.py)."""


class Side:
    """One launch: the market, its time, and what SkyPilot has made."""

    def __init__(self, job: Job, rows: list[Row]) -> None:
        self.market, self.clock, self.rows, self.wish = job.market(), Clock(), rows, job.wish
        self.made: list[tuple[str, float]] = []
        self.tries = 0
        self.groups: set[str] = set()

    def reads(self, calls: int = 1) -> None:
        self.clock.advance(calls * self.market.by.call_s)

    def prepare(self, place: str, calls: int) -> None:
        """A region's security group or the project's firewall rules, made at the first use."""
        self.reads(BOOTSTRAP_CALLS)
        if place not in self.groups:
            self.groups.add(place)
            self.market.mutations += calls
            self.reads(calls)

    def create(self, pool: Pool) -> str:
        """A machine, or nothing once the refusal is there."""
        self.market.mutations += 1
        self.market.creates += 1
        self.tries += 1
        machine = self.market.claim(pool, self.clock.now)
        if machine is None:
            self.clock.advance(self.market.refusal([pool]))
            return ""
        self.made.append((machine.id, self.clock.now))
        self.clock.advance(self.market.seconds("grant_s", pool.region))
        return machine.id


def write_catalog(rows: list[Row], home: Path) -> None:
    """Our rows as SkyPilot's catalog: one of each machine type and zone, with both prices. At
    Google the machine has its whole price and its GPUs none, which adds up to the same.
    """
    prices: dict[tuple[str, str, str, str], dict[str, float]] = {}
    about: dict[tuple[str, str, str, str], Row] = {}
    for row in rows:
        key = (row.provider, row.region, row.zone, row.machine_type)
        prices.setdefault(key, {})[row.capacity] = row.usd
        about[key] = row
    lines: dict[str, list[list[object]]] = {"aws": [], GCP: []}
    for key, price in sorted(prices.items()):
        row = about[key]
        both = [price.get("on-demand", ""), price.get("spot", "")]
        info = f"{{'Gpus': [{{'Name': '{row.gpu_type}', 'Count': {row.gpu_count}}}]}}"
        where = [row.region, row.zone]
        size = [row.vcpus, row.memory_gib]
        gpu = [row.gpu_type, float(row.gpu_count), info]
        if row.provider == GCP:
            lines[GCP].append([row.machine_type, *size, "", "", "", *both, *where, "x86_64"])
            acc = ["", "", "", *gpu, 0.0, 0.0, *where, ""]
            lines[GCP] += [] if acc in lines[GCP] else [acc]
        else:
            lines["aws"].append([row.machine_type, *size, *gpu, *both, *where, "x86_64"])
    names = "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Price,SpotPrice"
    header = [*names.split(","), "Region", "AvailabilityZone", "Arch"]
    empty = {
        "images.csv": "Tag,Region,OS,OSVersion,ImageId,CreationDate",
        "instance_quota_mapping.csv": "InstanceType,OnDemandInstanceCode,SpotInstanceCode",
        "accelerator_quota_mapping.csv": "Accelerator,OnDemandInstanceCode,SpotInstanceCode",
    }
    catalogs = home / ".sky" / "catalogs" / "v8"
    (catalogs / "common").mkdir(parents=True, exist_ok=True)
    gpus = [f'{gpu},"[AWS, GCP]"' for gpu in sorted({row.gpu_type for row in rows})]
    (catalogs / "common" / "accelerators.csv").write_text(
        "\n".join(["AcceleratorName,Clouds", *gpus, ""]), encoding="utf-8"
    )
    for provider, table in lines.items():
        folder = catalogs / provider
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "vms.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *table])
        for name, columns in empty.items():
            (folder / name).write_text(f"{columns}\n", encoding="utf-8")
    zones = sorted({row.zone for row in rows})
    account = hashlib.md5(ACCOUNT.encode()).hexdigest()[:8]  # noqa: S324 - how SkyPilot names it
    with (catalogs / "aws" / f"az_mappings-{account}.csv").open("w", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("AvailabilityZone", "AvailabilityZoneName"), *((each, each) for each in zones)]
        )


class _Ec2:
    """EC2's resource of a region, as `_create_instances` uses it."""

    def __init__(self, side: Side, region: str) -> None:
        self.side, self.region = side, region
        self.meta = SimpleNamespace(
            client=SimpleNamespace(meta=SimpleNamespace(region_name=region))
        )

    def create_instances(self, **asked: Any) -> list[str]:
        from botocore.exceptions import ClientError

        zone = asked["NetworkInterfaces"][0]["SubnetId"]
        pool = Pool("aws", self.region, zone, asked["InstanceType"], self.side.wish.capacity)
        if machine := self.side.create(pool):
            return [machine]
        code = (
            "InsufficientInstanceCapacity"
            if self.side.market.has_quota(pool)
            else "VcpuLimitExceeded"
        )
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "RunInstances")


def at_aws(side: Side, region: str, zones: list[str], kind: str) -> None:
    """One attempt there: a subnet of each zone, and SkyPilot's own loop over them."""
    from sky.provision.aws import instance

    side.prepare(region, 2)
    config = {"InstanceType": kind, "SubnetIds": zones, "SecurityGroupIds": ["sg-1"]}
    create = instance._create_instances  # noqa: SLF001 - its own loop
    create(_Ec2(side, region), "train", config, {}, 1, True, 0)
    side.clock.advance(SETTLES_S)


def at_google(side: Side, region: str, zones: list[str], kind: str) -> None:
    """One attempt there, in the one zone that it is asked for."""
    from sky.provision import common

    side.prepare(GCP, 2)
    pool = Pool(GCP, region, zones[0], kind, side.wish.capacity)
    if side.create(pool):
        side.clock.advance(SETTLES_S)
        return
    error = common.ProvisionerError("none")
    code = "ZONE_RESOURCE_POOL_EXHAUSTED" if side.market.has_quota(pool) else "QUOTA_EXCEEDED"
    error.errors = [{"code": code, "domain": "create_instance", "message": ""}]
    raise error


def _remember(catalog: Any) -> None:
    """Its catalog answers the same question from memory: it does not change, and this is most of
    what it computes.
    """
    ask, known = catalog._map_clouds_catalog, {}  # noqa: SLF001 - no public way in

    def asked(where: Any, method: str, *args: Any, **more: Any) -> Any:
        if method not in STEADY:
            return ask(where, method, *args, **more)
        key = (str(where), method, args, tuple(sorted(more.items())))
        if key not in known:
            known[key] = ask(where, method, *args, **more)
        return copy.copy(known[key])

    catalog._map_clouds_catalog = asked  # noqa: SLF001


def patched(side: list[Side]) -> None:
    """What stands between SkyPilot and the real clouds is put in place, once a process."""
    from sky import catalog, check, clouds, global_user_state
    from sky.backends import backend_utils, cloud_vm_ray_backend
    from sky.provision import provisioner

    def bulk(cloud: Any, region: Any, zones: Any, *_: Any, **asked: Any) -> object:
        attempt = at_google if isinstance(cloud, clouds.GCP) else at_aws
        try:
            attempt(side[0], region.name, [zone.name for zone in zones], asked["cluster_yaml"])
        except Exception:
            side[0].reads(LOOK_CALLS)
            raise
        return object()

    def config(to_provision: Any, *_: Any, **__: Any) -> dict[str, str]:
        return {"ray": str(to_provision.instance_type), "cluster_name_on_cloud": "train"}

    def quota(_cls: type, resources: Any) -> bool:
        side[0].reads()
        provider = GCP if isinstance(resources.cloud, clouds.GCP) else "aws"
        pool = Pool(provider, resources.region, "", "", side[0].wish.capacity)
        return side[0].market.has_quota(pool)

    def nothing(*_: Any, **__: Any) -> None:
        return None

    _remember(catalog)
    every = [clouds.AWS(), clouds.GCP()]
    check.get_cached_enabled_clouds_or_refresh = lambda *_, **__: every
    provisioner.bulk_provision = bulk
    backend_utils.write_cluster_config = config
    for name in ("add_or_update_cluster", "add_cluster_event", "set_owner_identity_for_cluster"):
        setattr(global_user_state, name, nothing)
    cloud_vm_ray_backend.CloudVmRayBackend.post_teardown_cleanup = nothing
    for cloud in (clouds.AWS, clouds.GCP):
        cloud.check_quota_available = classmethod(quota)
        cloud.make_deploy_resources_variables = nothing
        cloud.get_active_user_identity = classmethod(lambda _cls: [ACCOUNT])
        cloud.get_user_identities = classmethod(lambda _cls: [[ACCOUNT]])


def launch(side: Side) -> Ran:
    """What SkyPilot comes to, when one machine is asked for."""
    import sky
    from sky import exceptions, optimizer
    from sky.backends.cloud_vm_ray_backend import RetryingVmProvisioner
    from sky.utils import common

    with sky.Dag() as dag:
        task = sky.Task(run="true")
        task.set_resources(_resources(side.wish))
    took = True
    try:
        dag = optimizer.Optimizer.optimize(dag, minimize=common.OptimizeTarget.COST, quiet=True)
        provisioner = RetryingVmProvisioner(
            "~/logs", dag, common.OptimizeTarget.COST, set(), Path(), "", extra_launch_context={}
        )
        first = RetryingVmProvisioner.ToProvisionConfig(
            "train", task.best_resources, 1, None, None, False, None
        )
        provisioner.provision_with_retries(
            task, first, dryrun=False, stream_logs=False, skip_unnecessary_provisioning=False
        )
    except exceptions.ResourcesUnavailableError:
        took = False
    return settled(side.market, side.clock, side.made, side.tries, side.rows, wanted=took)


def _resources(wish: Wish) -> Any:
    import sky

    return sky.Resources(accelerators={wish.gpu: wish.gpu_count}, use_spot=wish.capacity == "spot")


def main(path: str) -> None:
    """All jobs of the file, on one catalog."""
    current: list[Side] = []
    ready = False

    def each(job: Job, rows: list[Row]) -> Ran:
        nonlocal ready
        current[:] = [Side(job, rows)]
        if not ready:
            patched(current)
            ready = True
        return launch(current[0])

    run(path, each, before=lambda rows: write_catalog(rows, Path(os.environ["HOME"])))


if __name__ == "__main__":
    main(sys.argv[1])
