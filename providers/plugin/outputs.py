"""A cluster's outputs: what the state keeps and users read, made from the engine's record, and read
back; before the purchase, after it, after an edit or a refresh.

Owns the fixed names (documented in `schema`), `schema: 1`, what an earlier state adds to what was
observed, and the bound of 2 KB a cluster: the state is rewritten at each step. The journal keeps
the full record. Asks no cloud; may read a service's token from this machine. Must not import grpc
or the engine's loop.
"""

from __future__ import annotations

import json
import os.path
from typing import TYPE_CHECKING, Any

from providers.adapters import registry
from providers.errors import GpusError, printable
from providers.model.duration import timestamp
from providers.model.machine import Handle
from providers.model.money import usd
from providers.model.workload import LED, here
from providers.plugin import properties
from providers.rehearsal.nodes import mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.engine.record import ClusterRecord
    from providers.model.machine import Setup

SCHEMA = 1
MAX_BYTES = 2_048
_PLAIN = (
    "provider",
    "region",
    "zone",
    "machine_type",
    "gpu_type",
    "gpu_count",
    "nodes",
    "capacity",
    "price_as_of",
    "price_source",
)
"""The terms of the record that are outputs under their own names."""
_NOTHING_LISTENS = "a rehearsal: nothing listens there"
_TEXT_MAX = 110
_LISTED_MAX = 8


def resource_id(record: ClusterRecord) -> str:
    """The logical id: constant for as long as it is the same generation."""
    return f"{record.world}/{record.owner}/{record.cluster}/{record.generation}"


def write(
    record: ClusterRecord,
    setup: Setup | None = None,
    *,
    public: bool = False,
    token: str = "",
    led: bool = False,
) -> dict[str, Any]:
    """The outputs. `setup` has the user name, the key and the ports; without it the ssh line is for
    the default user. `public`: ports are open. `led`: its first machine is the one to ask.
    """
    terms = record.terms()
    out: dict[str, Any] = {
        "schema": SCHEMA,
        "world": record.world,
        "status": record.status,
        **{name: terms[name] for name in _PLAIN},
    }
    out["detail"] = _clip(record.detail)
    if record.price.micro_usd is not None:
        out["price_usd_per_hour"] = usd(record.price.micro_usd)
    out["attempts"] = _attempts(record)
    out["ssh"] = _ssh(record, setup)
    out["endpoints"] = _endpoints(record, setup, public, led)
    out["handles"] = _packed([handle.native_id for handle in record.handles])
    out["launched_at"] = timestamp(record.launched_at)
    out["ends_at"] = timestamp(record.ends_at)
    out["generation"] = record.generation
    out["token"] = token
    own: dict[str, Any] = {"fingerprint": record.fingerprint}
    if record.placement.reservation:
        own["reservation"] = record.placement.reservation
    if record.entry:
        own["entry"] = record.entry
    if record.reasons:
        own["reasons"] = [_clip(reason) for reason in record.reasons[:_LISTED_MAX]]
    if record.bought:
        own["bought"] = dict(record.bought)
    if record.to_release:
        own["to_release"] = True
    if record.search is not None:
        own["search"] = record.search.to_dict()
    if record.leftovers:
        own["leftovers"] = [list(pair) for pair in record.leftovers]
    if record.applied:
        own["applied"] = dict(record.applied)
    if record.account is not None:
        own["account"] = dict(record.account)
    if record.kind != "machine":
        own["kind"] = record.kind
    out["record"] = own
    for field in ("attempts", "endpoints"):
        # Only what the journal keeps as well is ever shortened.
        while len(out[field]) > 2 and size(out) > MAX_BYTES:
            out[field] = [out[field][0], *out[field][2:]]
    return out


def unplaced(values: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs before the purchase: what depends on the place is unknown."""
    from providers.plugin.schema import CLUSTER_OUTPUTS

    unknown = dict.fromkeys(CLUSTER_OUTPUTS.keys() - {"record"}, properties.UNKNOWN)
    return unknown | {"schema": SCHEMA, "world": values["world"]}


def struct(
    record: ClusterRecord,
    setup: Setup | None,
    values: Mapping[str, Any],
    previous: Mapping[str, Any] | None,
) -> Any:
    """The outputs as the protocol's struct; `previous` is the state's, None at a purchase. May read
    one file.
    """
    token = _token(record, values, previous or {})
    public = values.get("expose") in ("public", "token")
    alone = values.get("replicas") is not None
    led = not alone and str((values.get("workload") or {}).get("launcher")) in LED
    out = write(record, setup, public=public, token=token, led=led)
    if previous is not None:
        # What only the purchase knew: neither a refresh nor an edit knows the attempts, nor an
        # address that it did not ask for.
        for name in ("attempts", "ssh", "endpoints"):
            same = previous.get("generation") == record.generation and (
                name == "attempts"
                or (not record.machines and record.status == previous.get("status") == "running")
            )
            if same and not out[name] and previous.get(name):
                out[name] = previous[name]
    return properties.encode(out, ("token",) if token else ())


def _token(record: ClusterRecord, values: Mapping[str, Any], previous: Mapping[str, Any]) -> str:
    """The token of a service whose callers need one: as the state has it, else as this machine
    keeps it; empty for everything else.
    """
    from providers.engine import keys
    from providers.engine.record import works

    if values.get("expose") != "token" or not works(record):
        return ""
    if previous.get("generation") == record.generation and previous.get("token"):
        return str(previous["token"])
    try:
        return keys.token(record.world, record.owner, record.cluster)
    except GpusError:
        return ""


def read(resource: str, outputs: Mapping[str, Any]) -> ClusterRecord:
    """The record that the state's outputs and the resource's id describe. Attempts and single
    machines are in the journal and left out.
    """
    from providers.engine.record import ClusterRecord, Search, account_in, bought_in

    world, owner, cluster, generation = parse_id(resource)
    own = outputs.get("record") or {}
    price = outputs.get("price_usd_per_hour")
    provider = str(outputs.get("provider", ""))
    terms = {name: outputs[name] for name in _PLAIN if name in outputs}
    terms["reservation"] = str(own.get("reservation", ""))
    terms["micro_usd"] = None if price is None else round(price * 1_000_000)
    return ClusterRecord(
        world=world,
        owner=owner,
        cluster=cluster,
        generation=generation,
        fingerprint=str(own.get("fingerprint", "")),
        status=outputs.get("status", "pending"),
        handles=tuple(
            Handle(provider, native_id) for native_id in _unpacked(outputs.get("handles") or ())
        ),
        launched_at=_seconds(str(outputs.get("launched_at", ""))),
        ends_at=_seconds(str(outputs.get("ends_at", ""))),
        entry=int(own.get("entry", 0)),
        reasons=tuple(own.get("reasons") or ()),
        leftovers=tuple(Handle(*pair) for pair in own.get("leftovers") or ()),
        applied=tuple(
            sorted((str(key), str(value)) for key, value in (own.get("applied") or {}).items())
        ),
        account=account_in(own.get("account")),
        kind=str(own.get("kind", "machine")),
        detail=str(outputs.get("detail", "")),
        bought=bought_in((own.get("bought") or {}).items()),
        to_release=bool(own.get("to_release")),
        search=Search.from_dict(own.get("search")),
    ).with_terms(terms)


def parse_id(resource: str) -> tuple[str, str, str, str]:
    """(world, owner, cluster, generation). Raises ValueError for anything else."""
    parts = resource.split("/")
    if len(parts) != 4 or not all(parts):
        raise ValueError(f"{resource!r} is no cluster id: wanted WORLD/OWNER/CLUSTER/GENERATION")
    return parts[0], parts[1], parts[2], parts[3]


def size(outputs: Mapping[str, Any]) -> int:
    """Bytes in the state."""
    return len(json.dumps(outputs, separators=(",", ":")))


def _attempts(record: ClusterRecord) -> list[str]:
    texts = [_clip(str(attempt)) for attempt in record.attempts]
    if len(texts) > _LISTED_MAX:
        left = len(texts) - _LISTED_MAX + 1
        texts = [*texts[:3], f"... {left} more in the journal", *texts[3 + left :]]
    return texts


def _ssh(record: ClusterRecord, setup: Setup | None) -> str:
    """The line that logs you in to the first machine, with notes about it as a shell comment."""
    line, _ = _login(record, setup)
    nodes = record.placement.nodes
    notes = [f"the first of {nodes}, see handles"] if nodes > 1 else []
    if not registry.is_real(record.provider, record.world, dict(record.account or ())):
        here = mode.here(record.placement.provider)
        notes += [f"gpus ssh {record.cluster}" if here else _NOTHING_LISTENS]
    return f"{line} # {'; '.join(notes)}" if line and notes else line


def _login(record: ClusterRecord, setup: Setup | None) -> tuple[str, str]:
    """(the line that logs you in to the first machine, what goes before ssh's own options there);
    empty while there is no address.

    Of a degraded cluster it is the first one that still runs.
    """
    if record.status not in ("running", "degraded") and record.kind != "job":
        return "", ""
    machines = (
        [node for node in record.machines if node.status == "running"]
        if record.status == "degraded"
        else record.machines
    )
    if login := next((node.login for node in machines if node.login), ""):
        return login, ""
    first = next((node for node in machines if node.external_ip or node.internal_ip), None)
    if first is None:
        return "", ""
    behind = not first.external_ip or bool(setup is not None and setup.network)
    manifest = registry.manifests().get(record.provider)
    if (
        setup is not None
        and manifest is not None
        and manifest.console.ssh is not None
        and (line := manifest.console.ssh(first, setup, behind))
    ):
        return line, " --"
    user = first.ssh_user or (setup.ssh_user if setup is not None else "gpus")
    port = dict(first.ports).get(22)
    # Mapped ports are a stranger's host: whatever the user's own configuration says, no agent is
    # forwarded there.
    return (
        f"ssh {'-a ' if port else ''}{user}@{first.external_ip or first.internal_ip}"
        + (f" -p {port}" if port else ""),
        "",
    )


def _endpoints(record: ClusterRecord, setup: Setup | None, public: bool, led: bool) -> list[str]:
    """`host:port` where that is open or mapped to the outside; else the line that carries a port of
    the first machine here. Of a server over several nodes it is the first one's.
    """
    if urls := [node.url for node in record.machines if node.url]:
        return urls[:_LISTED_MAX]
    if setup is None:
        return []
    hosts = [
        (node.external_ip or node.internal_ip, dict(node.ports))
        for node in record.machines[: 1 if led else None]
        if (node.external_ip or node.internal_ip)
        and (record.status != "degraded" or node.status == "running")
    ]
    if not public and not any(mapped for _, mapped in hosts):
        line, separator = _login(record, setup) if hosts else ("", "")
        return [
            f"{line}{separator} -L {here(port)}:localhost:{port}" for port in setup.ports if line
        ][:_LISTED_MAX]
    secured = bool(setup.domain)
    scheme = ("https://" if secured else "http://") if record.kind == "service" else ""
    # Where ports are mapped, one that has no outside is not reachable yet.
    found = [
        f"{scheme}{host}:{mapped.get(port, port)}"
        for host, mapped in hosts
        for port in setup.ports
        if not mapped or port in mapped
    ]
    named = [f"https://{setup.domain}"] if found and secured else []
    return [*named, *found][:_LISTED_MAX]


def _packed(names: Sequence[str]) -> list[str]:
    """Many names with one beginning as a single `prefix{a,b,c}`, so that a large cluster stays
    small in the state.
    """
    if len(names) <= _LISTED_MAX:
        return list(names)
    prefix = os.path.commonprefix(list(names))
    return [f"{prefix}{{{','.join(name[len(prefix) :] for name in names)}}}"]


def _unpacked(names: Sequence[str]) -> list[str]:
    out: list[str] = []
    for name in names:
        prefix, brace, rest = name.partition("{")
        (
            out.extend(prefix + part for part in rest.removesuffix("}").split(","))
            if brace
            else out.append(name)
        )
    return out


def _seconds(text: str) -> float:
    if not text:
        return 0.0
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def _clip(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _TEXT_MAX else line[: _TEXT_MAX - 1] + "…"
