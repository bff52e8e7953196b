"""dstack on the simulated market: its own offers, their order, and its own loop over them.

Runs in an environment that has `dstack[aws,gcp]`. What is its own here: gpuhunt's query and order,
`get_offers_by_requirements`, `create_cloud_instance` (which tries the offers), and both backends'
`create_instance` (which try the zones) with what they ask around it. What is ours: the catalog's
rows, and the answers of EC2's and Google's clients. The waits of its clients are not played: an
operation is known to be over when it is.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

import botocore.exceptions
import dstack._internal.core.backends.aws.compute as aws_compute
import dstack._internal.core.backends.gcp.compute as gcp_compute
import dstack._internal.server.background.pipeline_tasks.instances.cloud_provisioning as provisioning
import google.api_core.exceptions
import gpuhunt
from dstack._internal.core.backends.aws.models import AWSAccessKeyCreds, AWSConfig
from dstack._internal.core.backends.gcp.models import GCPConfig, GCPDefaultCreds
from dstack._internal.core.models.backends.base import BackendType
from dstack._internal.core.models.instances import InstanceConfiguration, SSHKey
from dstack._internal.core.models.profiles import Profile
from dstack._internal.core.models.resources import GPUSpec, ResourcesSpec
from dstack._internal.core.models.runs import Requirements
from dstack._internal.server.models import InstanceModel, ProjectModel
from dstack._internal.server.services import backends as backends_services
from gpuhunt._internal.catalog import ProviderCatalog

from tests.benchmarks.acquire_sides import Ran, Wish
from tests.benchmarks.market import GCP, Market, Pool, Row
from tests.benchmarks.peers.jobs import Clock, Job, run, settled

OPERATION_S = 30.0


class Side:
    """One launch: the market, its time, and the clouds' clients that move both."""

    def __init__(self, job: Job, rows: list[Row]) -> None:
        self.market, self.clock, self.rows = job.market(), Clock(), rows
        self.wish = job.wish
        self.made: list[tuple[str, float]] = []
        self.tries = 0
        self.groups: set[str] = set()

    def reads(self, calls: int = 1) -> None:
        self.clock.advance(calls * self.market.by.call_s)

    def changes(self) -> None:
        self.market.mutations += 1
        self.reads()

    def zones(self, region: str) -> list[str]:
        return sorted({row.zone for row in self.rows if row.region == region})

    def create(self, pool: Pool) -> str:
        """A machine, or nothing once the refusal is there."""
        self.market.mutations += 1
        self.market.creates += 1
        self.tries += 1
        machine = self.market.claim(pool, self.clock.now)
        if machine is None:
            return ""
        self.made.append((machine.id, self.clock.now))
        self.clock.advance(self.market.seconds("grant_s", pool.region))
        return machine.id


class Ec2:
    """EC2's client and resource of a region."""

    def __init__(self, side: Side, region: str) -> None:
        self.side, self.region = side, region

    def describe_vpcs(self, **_: Any) -> dict[str, Any]:
        self.side.reads()
        return {"Vpcs": [{"VpcId": "vpc-1", "IsDefault": True}]}

    def describe_subnets(self, **asked: Any) -> dict[str, Any]:
        self.side.reads()
        wanted = asked.get("SubnetIds")
        found = [
            {"SubnetId": f"subnet-{zone}", "AvailabilityZone": zone, "MapPublicIpOnLaunch": True}
            for zone in self.side.zones(self.region)
        ]
        return {"Subnets": [each for each in found if not wanted or each["SubnetId"] in wanted]}

    def describe_route_tables(self, **_: Any) -> dict[str, Any]:
        self.side.reads()
        route = {"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-1"}
        return {"RouteTables": [{"Routes": [route]}]}

    def describe_instance_types(self, **_: Any) -> dict[str, Any]:
        self.side.reads()
        return {"InstanceTypes": []}

    def describe_images(self, **_: Any) -> dict[str, Any]:
        self.side.reads()
        image = {
            "ImageId": "ami-1",
            "CreationDate": "2026-01-01T00:00:00.000Z",
            "State": "available",
        }
        return {"Images": [image]}

    def describe_security_groups(self, **_: Any) -> dict[str, Any]:
        self.side.reads()
        known = self.region in self.side.groups
        return {"SecurityGroups": [_GROUP] if known else []}

    def create_security_group(self, **_: Any) -> dict[str, Any]:
        self.side.groups.add(self.region)
        self.side.changes()
        return {"GroupId": "sg-1", "IpPermissions": [], "IpPermissionsEgress": []}

    def authorize_security_group_ingress(self, **_: Any) -> None:
        self.side.changes()

    def authorize_security_group_egress(self, **_: Any) -> None:
        self.side.changes()

    def cancel_spot_instance_requests(self, **_: Any) -> None:
        self.side.changes()

    def create_instances(self, **asked: Any) -> list[Any]:
        subnet = (asked.get("NetworkInterfaces") or [asked])[0]["SubnetId"]
        capacity = "spot" if asked.get("InstanceMarketOptions") else "on-demand"
        zone = subnet.removeprefix("subnet-")
        pool = Pool("aws", self.region, zone, asked["InstanceType"], capacity)
        machine = self.side.create(pool)
        if not machine:
            self.side.clock.advance(self.side.market.refusal([pool]))
            code = (
                "InsufficientInstanceCapacity"
                if self.side.market.has_quota(pool)
                else "VcpuLimitExceeded"
            )
            raise botocore.exceptions.ClientError({"Error": {"Code": code}}, "RunInstances")
        return [_Instance(self.side, machine, self.region)]


_GROUP = {
    "GroupId": "sg-1",
    "IpPermissions": [
        {"FromPort": 22, "ToPort": 22, "IpProtocol": "tcp", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]},
        {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]},
    ],
    "IpPermissionsEgress": [
        {"IpProtocol": "-1"},
        {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]},
        {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]},
    ],
}


class _Instance:
    spot_instance_request_id = "sir-1"
    capacity_reservation_id = None

    def __init__(self, side: Side, machine: str, region: str) -> None:
        self.side, self.instance_id, self.region = side, machine, region

    def wait_until_running(self) -> None:
        self.side.clock.advance(self.side.market.seconds("boot_s", self.region))


class _Session:
    def __init__(self, side: Side) -> None:
        self.side = side

    def client(self, _service: str, region_name: str = "") -> Ec2:
        return Ec2(self.side, region_name)

    resource = client


class Operation:
    """Google's operation of an insert."""

    error_code, error_message, name = "", "", "operation"

    def __init__(self, side: Side, pool: Pool, machine: str) -> None:
        self.side, self.pool, self.machine = side, pool, machine

    def result(self, timeout: float = 0.0) -> None:
        if self.machine:
            return
        took = self.side.market.refusal([self.pool])
        self.side.clock.advance(min(took, timeout))
        if took > timeout:
            raise TimeoutError
        if not self.side.market.has_quota(self.pool):
            raise google.api_core.exceptions.Forbidden("quota")
        raise google.api_core.exceptions.ServiceUnavailable("ZONE_RESOURCE_POOL_EXHAUSTED")


class _Client:
    """Whatever client of Google's is asked for something that needs no answer here."""

    side: Side

    def __init__(self, **_: Any) -> None:
        pass


class _Instances(_Client):
    def insert(self, request: Any) -> Operation:
        capacity = (
            "spot"
            if request.instance_resource.scheduling.provisioning_model == "SPOT"
            else "on-demand"
        )
        kind = request.instance_resource.machine_type.rpartition("/")[2]
        pool = Pool(GCP, request.zone[:-2], request.zone, kind, capacity)
        return Operation(self.side, pool, self.side.create(pool))


class _Done:
    error_code = ""

    def result(self, timeout: float = 0.0) -> None:
        return None


class _Firewalls(_Client):
    def insert(self, **_: Any) -> _Done:
        if GCP in self.side.groups:
            self.side.changes()
            raise google.api_core.exceptions.Conflict("it is there")
        self.side.groups.add(GCP)
        self.side.changes()
        return _Done()


class _Regions(_Client):
    def list(self, **_: Any) -> list[Any]:
        self.side.reads()
        return [
            gcp_compute.compute_v1.Region(
                name=region,
                quotas=[
                    gcp_compute.compute_v1.Quota(
                        metric=f"{prefix}NVIDIA_{gpu}_GPUS",
                        limit=64.0 if _quota(self.side.market, GCP, region, capacity) else 0.0,
                    )
                    for prefix, capacity in (("", "on-demand"), ("PREEMPTIBLE_", "spot"))
                    for gpu in ("A100", "A100_80GB", "L4", "H200")
                ],
            )
            for region in sorted({row.region for row in self.side.rows if row.provider == GCP})
        ]


def _quota(market: Market, provider: str, region: str, capacity: str) -> bool:
    return market.has_quota(Pool(provider, region, "", "", capacity))


class _Backend:
    def __init__(self, kind: BackendType, compute: Any) -> None:
        self.TYPE, self._compute = kind, compute

    def compute(self) -> Any:
        return self._compute


def backends(side: Side) -> list[_Backend]:
    """Both backends as a project has them, on the market's clients."""
    _Client.side = side

    def quotas(session: Any, regions: list[str]) -> dict[str, dict[str, int]]:
        side.reads()  # of all regions at once, in threads
        every = ("Standard/OnDemand", "P/OnDemand", "G/OnDemand")
        has = {region: _quota(side.market, "aws", region, "on-demand") for region in regions}
        return {region: dict.fromkeys(every, 192 if has[region] else 0) for region in regions}

    def zones(session: Any, regions: list[str]) -> dict[str, list[str]]:
        side.reads()
        return {region: side.zones(region) for region in regions}

    aws_compute._get_regions_to_quotas = quotas  # noqa: SLF001 - its cloud call
    aws_compute._get_regions_to_zones = zones  # noqa: SLF001 - its cloud call
    by_provider: dict[str, list[str]] = {}
    for row in side.rows:
        by_provider.setdefault(row.provider, []).append(row.region)
    keys = AWSAccessKeyCreds(access_key="none", secret_key="none")
    aws = aws_compute.AWSCompute(
        AWSConfig(creds=keys, regions=sorted(set(by_provider.get("aws", []))))
    )
    aws.session = _Session(side)
    gcp = gcp_compute.GCPCompute(
        GCPConfig(
            creds=GCPDefaultCreds(),
            project_id="simulated",
            regions=sorted(set(by_provider.get(GCP, []))),
        )
    )
    return [_Backend(BackendType.AWS, aws), _Backend(BackendType.GCP, gcp)]


def patched() -> None:
    """What stands between dstack and the real clouds is put in place, once a process."""
    gcp_compute.auth.authenticate = lambda *_: (None, None)
    for name in dir(gcp_compute.compute_v1):
        if name.endswith("Client"):
            setattr(gcp_compute.compute_v1, name, _Client)
    gcp_compute.compute_v1.InstancesClient = _Instances
    gcp_compute.compute_v1.FirewallsClient = _Firewalls
    gcp_compute.compute_v1.RegionsClient = _Regions
    gcp_compute.tpu_v2.TpuClient = _Client


def catalog(rows: list[Row]) -> gpuhunt.Catalog:
    """Our rows as gpuhunt has them: EC2's by region at their lowest price, Google's by zone."""
    found = gpuhunt.Catalog(auto_reload=False)
    items: dict[str, dict[tuple[str, str, str], gpuhunt.CatalogItem]] = {"aws": {}, GCP: {}}
    for row in sorted(rows, key=lambda row: row.usd):
        where = row.zone if row.provider == GCP else row.region
        items[row.provider].setdefault(
            (row.machine_type, where, row.capacity),
            gpuhunt.CatalogItem(
                provider=row.provider,
                instance_name=row.machine_type,
                location=where,
                price=row.usd,
                cpu=int(row.vcpus),
                memory=row.memory_gib,
                gpu_count=row.gpu_count,
                gpu_name=row.gpu_type.partition("-")[0],
                gpu_memory=row.gpu_memory_gib,
                spot=row.capacity == "spot",
                disk_size=None,
                gpu_vendor=gpuhunt.AcceleratorVendor.NVIDIA,
            ),
        )
    found.loaded_at = 0.0
    found.catalog = {
        name: ProviderCatalog("simulated", list(each.values())) for name, each in items.items()
    }
    return found


def launch(job: Job, rows: list[Row]) -> Ran:
    """What dstack comes to, when one instance is asked for."""
    side = Side(job, rows)
    mine = backends(side)

    async def of_project(project: Any) -> list[_Backend]:
        return mine

    backends_services.get_project_backends = of_project
    gpuhunt.default_catalog = lambda: catalog(rows)
    result = asyncio.run(provisioning.create_cloud_instance(_instance(job.wish)))
    took = "job_provisioning_data" in result.instance_update_map
    return settled(side.market, side.clock, side.made, side.tries, rows, wanted=took)


def _instance(wish: Wish) -> InstanceModel:
    name, _, memory = wish.gpu.partition("-")
    memory = memory or {"A100": "40GB"}.get(name, "")
    spec = f"{name}:{memory}:{wish.gpu_count}" if memory else f"{name}:{wish.gpu_count}"
    resources = ResourcesSpec(cpu="1..", memory="1GB..", gpu=GPUSpec.parse(spec), disk="100GB..")
    return InstanceModel(
        id=uuid.uuid4(),
        name="train",
        project=ProjectModel(id=uuid.uuid4(), name="main"),
        instance_configuration=InstanceConfiguration(
            project_name="main",
            instance_name="train",
            user="user",
            ssh_keys=[SSHKey(public="ssh-ed25519 key")],
        ).model_dump_json(),
        profile=Profile(name="default").model_dump_json(),
        requirements=Requirements(
            resources=resources, spot=wish.capacity == "spot"
        ).model_dump_json(),
        total_blocks=1,
    )


if __name__ == "__main__":
    patched()
    run(sys.argv[1], launch)
