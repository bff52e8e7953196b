"""The EC2 adapter over boto3 beside the EC2 stand-in on loopback; the test moves the clock."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.adapters.aws import machines
from providers.adapters.aws.adapter import Ec2
from providers.adapters.aws.client import Client, sealed_session
from providers.model.machine import Ticket
from providers.model.offer import Candidate, Offer
from providers.rehearsal.clouds import aws
from providers.rehearsal.clouds.aws import console, places
from providers.rehearsal.clouds.aws.state import Rows
from tests.unit.cloud_rig import CloudRig, orders

A, B, E = "use1-az1", "use1-az2", "use1-az3"
REGION = "us-east-1"
SESSION = sealed_session()


def candidate(
    zone: str = A,
    machine_type: str = "p5.48xlarge",
    capacity: str = "on-demand",
    micro_usd: int = 55_040_000,
    region: str = "",
    nodes: int = 1,
    reservation: str = "",
) -> Candidate:
    gpu, count = machines.gpus_of(machine_type)
    offer = Offer(
        "aws", region or places.region_of(zone), zone, machine_type, gpu, count, capacity, micro_usd
    )
    return Candidate(1, 0, offer, nodes, reservation, micro_usd * nodes)


order = orders(candidate)


class Rig(CloudRig):
    """A stand-in with its store, the test's clock, and an adapter on it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.server = aws.start(self.store)
        self.client = Client(SESSION, self.server.url, read_s=5.0)
        self.ec2 = self.adapter()

    def adapter(
        self, regions: tuple[str, ...] = (REGION, "us-east-2"), client: Client | None = None
    ) -> Ec2:
        return Ec2(
            "rehearsal",
            lambda: client or self.client,
            regions=regions,
            now=self.store.now,
            sleep=self.sleep,
            looks_s=(0.0, 1.0),
        )

    def finish(self, ticket: Ticket) -> Ticket:
        return self.done(self.ec2, ticket)

    def launched(self, *candidates: Candidate, **rest: Any) -> Ticket:
        return self.finish(self.ec2.submit(order(*candidates, **rest)))

    def boto(self, operation: str, region: str = REGION, **parameters: Any) -> Any:
        return getattr(self.client.service("ec2", region), operation)(**parameters)

    def count(self, method: str) -> int:
        return len(self.store.requests(f"ec2.{method}"))

    def left(self) -> tuple[list[Any], ...]:
        """Everything that the cloud still holds of us: machines, templates, groups."""
        return (
            [machine.name for machine in console.running(self.store)],
            *(
                [
                    item
                    for region in (REGION, "us-east-2")
                    for item in self.boto(operation, region)[key]
                    if item.get("GroupName") != "default"
                ]
                for operation, key in (
                    ("describe_launch_templates", "LaunchTemplates"),
                    ("describe_placement_groups", "PlacementGroups"),
                    ("describe_security_groups", "SecurityGroups"),
                )
            ),
        )

    @contextlib.contextmanager
    def rows(self) -> Iterator[Rows]:
        with self.store.transaction() as db:
            yield Rows(self.store, db, self.store.now())


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.server.close()
    made.store.close()
    assert made.server.faulty == []
