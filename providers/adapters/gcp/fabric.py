"""`options.gcp.fabric`: existing networks for machines with several interfaces, named per zone.
Owns its keys, their checks, and the choice; pure.

A zone holds one fabric, or a list of unlike ones. Which machine types a fabric is for follows from
its interfaces alone: each family has one shape (`machines.Nics`). Where a zone names none of the
machine's shape, the machine has a single interface on the ordinary network.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.adapters.gcp import machines
from providers.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

NIC_TYPES = ("GVNIC", "MRDMA", "IDPF")
_ZONE = re.compile(r"^[a-z]+-[a-z]+[0-9]+-[a-z0-9]+$")
_NETWORK = re.compile(
    r"^(projects/[a-z0-9.:-]+/global/networks/)?[a-z]([a-z0-9#-]{0,61}[a-z0-9#])?$"
)
_SUBNETWORK = re.compile(
    r"^(projects/[a-z0-9.:-]+/regions/[a-z0-9-]+/subnetworks/)?[a-z]([a-z0-9#-]{0,61}[a-z0-9#])?$"
)
_MOST = 16


class Nic(NamedTuple):
    """One interface. Names as the user gave them: bare, or links from `projects/` on (a shared
    network). `network` may be empty.
    """

    network: str
    subnetwork: str
    nic_type: str = "GVNIC"


Fabric = tuple[Nic, ...]
Fabrics = tuple[tuple[str, tuple[Fabric, ...]], ...]
"""(zone, its fabrics), in the order given."""


def shape(fabric: Fabric) -> machines.Nics:
    """What the interfaces come to."""
    kinds = {nic.nic_type for nic in fabric} - {"MRDMA"}
    return machines.Nics(
        kinds.pop() if len(kinds) == 1 else "mixed",
        *(sum((nic.nic_type == "MRDMA") is rdma for nic in fabric) for rdma in (False, True)),
    )


def chosen(fabrics: Fabrics, zone: str, machine_type: str) -> Fabric:
    """The interfaces for this machine type in this zone; none for a single ordinary one."""
    wanted = machines.family(machine_type).nics
    if wanted is None or not zone:
        return ()
    return next(
        (
            fabric
            for where, found in fabrics
            if where == zone
            for fabric in found
            if shape(fabric) == wanted
        ),
        (),
    )


def read(value: object) -> tuple[Fabrics, list[Problem]]:
    """The fabrics, and everything that is wrong, with paths below `fabric`. What is wrong is left
    out.
    """
    example = (
        "a mapping such as {us-central1-b: {nics: [{network: host-0, subnetwork: host-0}, ...]}}"
    )
    if not isinstance(value, dict) or not value:
        return (), [Problem("fabric", example, repr(value)[:80])]
    out: list[tuple[str, tuple[Fabric, ...]]] = []
    found: list[Problem] = []
    for zone, given in value.items():
        path = f"fabric.{zone}"
        if not isinstance(zone, str) or not _ZONE.match(zone):
            found.append(Problem(path, 'a zone such as "us-central1-b"', repr(zone)))
            continue
        several = isinstance(given, (list, tuple))
        fabrics: list[Fabric] = []
        for index, section in enumerate(given if several else (given,)):
            fabric, problems = _fabric(section, f"{path}[{index}]" if several else path)
            found.extend(problems)
            if not problems and shape(fabric) in map(shape, fabrics):
                found.append(
                    Problem(
                        f"{path}[{index}]",
                        "each kind of fabric once in a zone",
                        f"another of {shape(fabric)}",
                    )
                )
            elif not problems:
                fabrics.append(fabric)
        if several and not given:
            found.append(Problem(path, "at least one fabric", "an empty list"))
        out.append((zone, tuple(fabrics)))
    return tuple(out), found


def _fabric(section: object, path: str) -> tuple[Fabric, list[Problem]]:
    if (
        not isinstance(section, dict)
        or set(section) != {"nics"}
        or not isinstance(section["nics"], (list, tuple))
        or not section["nics"]
    ):
        return (), [Problem(path, "{nics: [...]}, the primary interface first", repr(section)[:80])]
    nics: list[Nic] = []
    found: list[Problem] = []
    for index, item in enumerate(section["nics"]):
        made, problems = _nics(item, f"{path}.nics[{index}]")
        nics.extend(made)
        found.extend(problems)
    if found:
        return (), found
    found.extend(_wiring(nics, f"{path}.nics"))
    got = shape(tuple(nics))
    if not found and got not in machines.NICS:
        known = "; ".join(
            f"{nic} ({', '.join(prefixes)})" for nic, prefixes in machines.NICS.items()
        )
        found.append(
            Problem(f"{path}.nics", f"the interfaces of a machine type: {known}", str(got))
        )
    return tuple(nics), found


def _nics(item: object, path: str) -> tuple[list[Nic], list[Problem]]:
    """The interfaces of one entry: `count` of them, `#` in a name standing for 0, 1, 2, ..."""
    known = ("network", "subnetwork", "nic_type", "count")
    if not isinstance(item, dict) or not set(item) <= set(known):
        return [], [Problem(path, "a mapping of " + ", ".join(known), repr(item)[:80])]
    found: list[Problem] = []
    texts = {}
    for key, pattern in (("network", _NETWORK), ("subnetwork", _SUBNETWORK)):
        text = texts[key] = item.get(key, "")
        if (
            not isinstance(text, str)
            or (text and not pattern.match(text))
            or (key == "subnetwork" and not text)
        ):
            found.append(
                Problem(
                    f"{path}.{key}",
                    f"the name of an existing {key}, or its link from projects/ on",
                    repr(text)[:80],
                )
            )
    nic_type = item.get("nic_type", "GVNIC")
    if nic_type not in NIC_TYPES:
        found.append(
            Problem(f"{path}.nic_type", "one of " + ", ".join(NIC_TYPES), repr(nic_type)[:80])
        )
    count = item.get("count", 1)
    if (
        isinstance(count, bool)
        or not isinstance(count, (int, float))
        or count != int(count)
        or not 1 <= count <= _MOST
    ):
        found.append(
            Problem(f"{path}.count", f"a whole number from 1 to {_MOST}", repr(count)[:80])
        )
    elif not found and (count > 1) != ("#" in texts["subnetwork"]):
        found.append(
            Problem(
                f"{path}.subnetwork",
                "a # for the number of each interface where count is above 1, and none elsewhere",
                repr(texts["subnetwork"]),
            )
        )
    if found:
        return [], found
    numbers = [str(number) for number in range(int(count))]
    return [
        Nic(
            texts["network"].replace("#", number),
            texts["subnetwork"].replace("#", number),
            nic_type,
        )
        for number in numbers
    ], []


def _wiring(nics: Sequence[Nic], path: str) -> list[Problem]:
    """What Google's networks do not allow: a subnetwork twice, an RDMA interface first, RDMA
    interfaces in several networks.
    """
    found: list[Problem] = []
    names = [nic.subnetwork for nic in nics]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        found.append(
            Problem(path, "a subnetwork of its own for each interface", f"{twice!r} more than once")
        )
    if nics[0].nic_type == "MRDMA":
        found.append(
            Problem(f"{path}[0].nic_type", "a primary interface that is not RDMA", "MRDMA")
        )
    if len({nic.network for nic in nics if nic.nic_type == "MRDMA"}) > 1:
        found.append(Problem(path, "one network for all MRDMA interfaces", "several"))
    return found


def interfaces(fabric: Fabric, region: str, *, external_ip: bool) -> list[dict[str, Any]]:
    """`networkInterfaces` of the request. Only the primary one may have an outside address; a bare
    metal host's are IPv6 only (Google, 2026-04).
    """
    out: list[dict[str, Any]] = []
    metal = fabric[0].nic_type == "IDPF"
    for nic in fabric:
        body: dict[str, Any] = {}
        if nic.network:
            body["network"] = (
                nic.network if "/" in nic.network else f"global/networks/{nic.network}"
            )
        body["subnetwork"] = (
            nic.subnetwork
            if "/" in nic.subnetwork
            else f"regions/{region}/subnetworks/{nic.subnetwork}"
        )
        body["nicType"] = nic.nic_type
        if metal:
            body["stackType"] = "IPV6_ONLY"
        out.append(body)
    if external_ip and not metal:
        out[0]["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    return out
