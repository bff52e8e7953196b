"""A client of the Compute Engine stand-in and the machines that its tests ask for. The test moves
the clock.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from googleapiclient.errors import HttpError

from providers.adapters.gcp.client import Client
from providers.rehearsal.clouds.gcp import start
from providers.rehearsal.store import Store

IMAGE = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580"
P, Z, R = "rehearsal", "us-central1-a", "us-central1"


class Frozen:
    """A clock that stands still unless the store is advanced."""

    def __call__(self) -> float:
        return 1_800_000_000.0


class Cloud:
    """One stand-in with its store and Google's client."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path, clock=Frozen())
        self.server = start(self.store)
        self.api = client(self.server.url)

    def later(self, seconds: float = 10.0) -> None:
        self.store.advance(seconds)

    def get(self, name: str = "vm", zone: str = Z) -> Any:
        return self.api.instances().get(project=P, zone=zone, instance=name).execute()

    def insert(self, body: dict[str, Any], zone: str = Z, **query: Any) -> Any:
        return self.api.instances().insert(project=P, zone=zone, body=body, **query).execute()

    def bulk(self, zone: str = Z, request: str | None = None, **body: Any) -> Any:
        return (
            self.api.instances()
            .bulkInsert(project=P, zone=zone, requestId=request, body=body)
            .execute()
        )

    def regional(self, region: str = R, request: str | None = None, **body: Any) -> Any:
        return (
            self.api.regionInstances()
            .bulkInsert(project=P, region=region, requestId=request, body=body)
            .execute()
        )

    def operation(self, op: dict[str, Any]) -> Any:
        where = {"project": P, "operation": op["name"]}
        if "zone" in op:
            return (
                self.api.zoneOperations().get(zone=op["zone"].rsplit("/", 1)[1], **where).execute()
            )
        if "region" in op:
            return (
                self.api.regionOperations()
                .get(region=op["region"].rsplit("/", 1)[1], **where)
                .execute()
            )
        return self.api.globalOperations().get(**where).execute()

    def done(self, op: dict[str, Any], seconds: float = 10.0) -> Any:
        self.later(seconds)
        found = self.operation(op)
        assert found["status"] == "DONE"
        return found

    def names(self, **query: Any) -> list[str]:
        items = self.api.instances().aggregatedList(project=P, **query).execute()["items"]
        return [vm["name"] for scope in items.values() for vm in scope.get("instances", [])]


def client(url: str) -> Any:
    return Client(P, AnonymousCredentials(), f"{url}/compute/v1/").service


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    found = Cloud(tmp_path / "r.db")
    yield found
    assert found.server.faulty == []
    found.server.close()


def properties(kind: str = "a3-highgpu-8g", model: str = "SPOT", **more: Any) -> dict[str, Any]:
    scheduling = {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": model,
    }
    if model == "SPOT":
        scheduling["instanceTerminationAction"] = "DELETE"
    return {
        "machineType": kind,
        "scheduling": scheduling,
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {
                    "sourceImage": IMAGE,
                    "diskSizeGb": "100",
                    "diskType": "pd-balanced",
                },
            }
        ],
        "networkInterfaces": [
            {"network": "global/networks/default", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}
        ],
        **more,
    }


def instance(
    kind: str = "a3-highgpu-8g", model: str = "SPOT", name: str = "vm", zone: str = Z, **more: Any
) -> dict[str, Any]:
    out = properties(kind, model, **more)
    out["machineType"] = f"zones/{zone}/machineTypes/{kind}"
    out["disks"][0]["initializeParams"]["diskType"] = f"zones/{zone}/diskTypes/pd-balanced"
    return {"name": name, **out}


def t4(zone: str = Z, **more: Any) -> dict[str, Any]:
    gpu = [
        {"acceleratorType": f"zones/{zone}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}
    ]
    return instance("n1-standard-8", "STANDARD", guestAccelerators=gpu, zone=zone, **more)


def flex(wait_s: int = 3600, **more: Any) -> dict[str, Any]:
    body = instance(
        model="FLEX_START", reservationAffinity={"consumeReservationType": "NO_RESERVATION"}, **more
    )
    body["scheduling"] |= {
        "maxRunDuration": {"seconds": "86400"},
        "instanceTerminationAction": "DELETE",
    }
    body["params"] = {"requestValidForDuration": {"seconds": str(wait_s)}}
    return body


def refused(call: Callable[..., Any]) -> tuple[int, str, str]:
    with pytest.raises(HttpError) as caught:
        call()
    body = json.loads(caught.value.content)["error"]
    assert body["code"] == caught.value.status_code
    return body["code"], body["errors"][0]["reason"], body["message"]


def codes(op: dict[str, Any]) -> list[str]:
    return [error["code"] for error in op["error"]["errors"]]


def raw(cloud: Cloud, verb: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(
        cloud.server.url + path, method=verb, data=None if body is None else body
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
