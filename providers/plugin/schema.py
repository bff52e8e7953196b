"""The package schema that the plugin serves: every input and output with its type and one sentence.

Owns the documented names of the resources' properties. Imported only when the schema is asked for.
A test compares it with the spec's fields.
"""

from __future__ import annotations

import json
from typing import Any

VERSION = "0.1.0"

_STRING: dict[str, Any] = {"type": "string"}
_INTEGER: dict[str, Any] = {"type": "integer"}
_BOOLEAN: dict[str, Any] = {"type": "boolean"}
_NUMBER: dict[str, Any] = {"type": "number"}
_DURATION: dict[str, Any] = {"oneOf": [_STRING, _NUMBER]}
_ANY: dict[str, Any] = {"$ref": "pulumi.json#/Any"}


def _listed(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _mapped(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/types/gpu:index:{name}"}


def _described(kind: dict[str, Any], description: str) -> dict[str, Any]:
    return {**kind, "description": description}


_WORLD = _described(_STRING, "`rehearsal` or `live`. It is part of every id.")
_SETTINGS = _described(
    _mapped(_mapped(_STRING)),
    "Per provider what an account needs, as in `{gcp: {project: my-project}}`. No secrets.",
)
_MAX_SPEND = _described(
    _NUMBER,
    "The most that the stack may spend in a calendar month (UTC), US dollars. Its ownership counts;"
    " each cluster knows that there is a limit.",
)
_SPOT = _described(_STRING, "`never`, `prefer` or `only`: sugar for `capacity`.")
_CAPACITY = _described(
    _listed(_STRING), "Ordered kinds: `on-demand`, `spot`, `flex-start`, `reservation(NAME)`."
)

_TYPES: dict[str, Any] = {
    "gpu:index:Gpu": {
        "type": "object",
        "description": "A GPU by name, or by memory instead of name.",
        "properties": {
            "type": _described(
                _STRING, "The name, as in `H100`, `H100:8`, or `H100!` for exactly this one."
            ),
            "count": _described(_INTEGER, "GPUs per node."),
            "min_memory_gib": _described(_NUMBER, "Any GPU with at least this much memory."),
            "fallback": _described(
                _listed({"oneOf": [_STRING, _ref("Fallback")]}),
                "Further acceptable choices, in order.",
            ),
            "spot": _SPOT,
        },
    },
    "gpu:index:Fallback": {
        "type": "object",
        "description": "Another acceptable choice. Whatever it leaves out is as in the cluster.",
        "properties": {
            "gpu": _described(_STRING, "As in `A100-80GB:8`."),
            "min_memory_gib": _described(_NUMBER, "Any GPU with at least this much memory."),
            "nodes": _described(_INTEGER, "Machines of this choice."),
            "spot": _SPOT,
            "capacity": _CAPACITY,
            "wait": _described(_DURATION, "How long to wait for capacity, as in `15m`."),
            "ttl": _described(_DURATION, "How long it may run, as in `20h`."),
            "dtype": _described(_STRING, "The workload's number format with this choice."),
            "command": _described(_STRING, "The workload's command with this choice."),
            "args": _described(
                _mapped(_ANY), "What this choice changes of the launcher's arguments."
            ),
        },
    },
    "gpu:index:Override": {
        "type": "object",
        "description": "A negotiated rate for one node per hour.",
        "properties": {
            "provider": _described(_STRING, "Whose rate it is."),
            "price_usd_per_hour": _described(_NUMBER, "US dollars per hour for one node."),
            "region": _described(_STRING, "Where it holds; everywhere when left out."),
            "machine_type": _described(_STRING, "For which machine type; any when left out."),
            "gpu": _described(_STRING, "For which GPU; any when left out."),
            "capacity": _described(_STRING, "For which kind of capacity; any when left out."),
        },
        "required": ["provider", "price_usd_per_hour"],
    },
    "gpu:index:Prices": {
        "type": "object",
        "description": "What you know better than the catalog.",
        "properties": {
            "overrides": _described(
                _listed(_ref("Override")), "Negotiated rates; the first match wins."
            )
        },
    },
}

SPEC_INPUTS: dict[str, Any] = {
    "gpu": _described(
        {"oneOf": [_STRING, _ref("Gpu"), _listed(_ANY)]},
        "What is wanted, per node: `H100:8`, `H100!:8`, a list in order of preference, or by"
        " memory.",
    ),
    "kind": _described(
        _STRING,
        "`machine`: one you log into; `job`: a command that ends; `service`: a command that"
        " listens.",
    ),
    "nodes": _described(_INTEGER, "Machines in the cluster: all or none, in one zone."),
    "fallback": _described(
        _listed({"oneOf": [_STRING, _ref("Fallback")]}), "Further acceptable choices, in order."
    ),
    "spot": _SPOT,
    "capacity": _CAPACITY,
    "providers": _described(
        _listed(_STRING), "Allowed providers; any but marketplaces when left out."
    ),
    "regions": _described(_listed(_STRING), "Allowed regions; any when left out."),
    "marketplaces": _described(
        _BOOLEAN, "Strangers' hosts (a marketplace) will do although `providers` names none."
    ),
    "rank": _described(
        _STRING,
        "`price_by_choice` (the default), `preference`, `price`, `performance_per_dollar` or"
        " `job_cost`.",
    ),
    "max_price_per_hour": _described(
        _NUMBER, "The most that all nodes together may cost, US dollars per hour."
    ),
    "accept_suspect_prices": _described(
        _BOOLEAN, "Prices that can hardly be true are bought all the same."
    ),
    "prices": _described(_ref("Prices"), "Negotiated rates."),
    "wait": _described(_DURATION, "How long to wait for capacity in one place, as in `15m`."),
    "ttl": _described(_DURATION, "How long it may run, as in `20h`."),
    "on_ttl": _described(_STRING, "`release` or `keep`: what happens when the ttl has passed."),
    "idle_after": _described(
        _DURATION, "Released, as at its ttl, once no GPU had anything to do for this long."
    ),
    "replicas": _described(
        _INTEGER, "Of a service: so many machines that each serve alone, behind a proxy."
    ),
    "tls": _described(
        _ANY,
        "`{domain, certificate: {PROVIDER: REFERENCE}}`: the proxy of the replicas answers by"
        " HTTPS, with a certificate that the machines fetch.",
    ),
    "on_loss": _described(
        _STRING,
        "`replace-all`, `replace-node` or `report`: what the next `up` does when some of several"
        " machines are lost.",
    ),
    "disk_gib": _described(_INTEGER, "The boot disk's size."),
    "ports": _described(_listed(_INTEGER), "Ports that listen."),
    "expose": _described(
        _STRING, "`private`, `public`, or `token` (a service): who can reach the ports."
    ),
    "ssh_key": _described(_STRING, "One public key."),
    "labels": _described(_mapped(_STRING), "Written on the machines."),
    "secrets": _described(
        _mapped(_mapped(_STRING)),
        "By the variable's name, for each provider where it is kept, as in `{gcp:"
        " projects/p/secrets/x}`. Never a value.",
    ),
    "network": _described(
        _STRING, "`default` uses what is there; `managed` declares an own network."
    ),
    "options": _described(_mapped(_mapped(_ANY)), "Per provider what only that provider knows."),
    "workload": _described(
        _mapped(_ANY),
        "What runs there: a command, or a launcher with its model; docs/reference/spec.md has the"
        " fields.",
    ),
    "workdir": _described(
        _ANY,
        "A folder that is sent to the machines before the workload starts, and in which it runs:"
        " its path, or `{path, limit}`.",
    ),
    "state": _described(
        _STRING,
        "`running`, or `stopped`: what is there is stopped and kept; only its disks are billed"
        " then.",
    ),
    "ready": _described(
        _STRING,
        "A machine is ready once ssh logs in, its driver answers and GPU count and memory are as"
        " ordered (`checked`), or once its cloud says so (`running`).",
    ),
    "accept": _described(
        _STRING,
        "`quick` or `full`: its GPUs are measured once it is ready. A machine that is degraded or"
        " not what was sold is released, and the next place is tried (`off`).",
    ),
    "triggers": _described(
        _mapped(_INTEGER),
        "Written by `gpus rerun` (`rerun`: a new machine) and `gpus reclaim` (`reclaim`: from a"
        " fallback to the preferred choice, which is acquired first).",
    ),
}

CLUSTER_INPUTS: dict[str, Any] = {
    "world": _WORLD,
    "owner": _described(_STRING, "The `owner_id` of the stack's Ownership."),
    "cluster": _described(_STRING, "The cluster's name, unique within its owner."),
    "settings": _SETTINGS,
    "max_spend": _MAX_SPEND,
    "network_links": _described(
        _mapped(_STRING),
        "The managed network, as the program resolved it: `network`, and `subnetwork.REGION` for"
        " each region.",
    ),
    **SPEC_INPUTS,
}

CLUSTER_OUTPUTS: dict[str, Any] = {
    "schema": _described(_INTEGER, "The version of these outputs: 1."),
    "world": _WORLD,
    "status": _described(
        _STRING,
        "`running`, `queued`, `degraded`, `preempted`, `ended`, `failed`, `stopped`, `gone` ...",
    ),
    "detail": _described(
        _STRING,
        "What is known of the status beyond its name: `outbid`, which machines of several are lost,"
        " `unreachable` and why. Mostly empty.",
    ),
    "provider": _described(_STRING, "Who sold it."),
    "region": _described(_STRING, "Where it runs."),
    "zone": _described(_STRING, "Where in the region."),
    "machine_type": _described(_STRING, "The provider's name for the machine."),
    "gpu_type": _described(_STRING, "The GPU that was delivered."),
    "gpu_count": _described(_INTEGER, "GPUs per node."),
    "nodes": _described(_INTEGER, "Machines."),
    "capacity": _described(
        _STRING, "How it was bought: `on-demand`, `spot`, `flex-start` or `reservation`."
    ),
    "price_usd_per_hour": _described(
        _NUMBER,
        "All nodes, at launch. It stays when the machine has ended or is stopped, which costs less"
        " or nothing; the overview of a stack then leaves it out. Absent when no source had a"
        " price.",
    ),
    "price_as_of": _described(_STRING, "The price's date."),
    "price_source": _described(_STRING, "Where the price comes from."),
    "attempts": _described(
        _listed(_STRING),
        "What was tried, in order, and how each attempt ended. The journal has the full record.",
    ),
    "ssh": _described(
        _STRING,
        "A line that works: it logs you in, to the first machine of several, or shows what a job"
        " or a service prints; of the provider's own tool where plain ssh does not get there."
        " Empty while there is none.",
    ),
    "endpoints": _described(
        _listed(_STRING),
        "`host:port` of each port that is open outside; else the line that carries it here. Of a"
        " service its URL: by plain HTTP on a machine, which does not hide a token on its way"
        " (`gpus ssh NAME -L PORT` carries the port here, encrypted).",
    ),
    "handles": _described(
        _listed(_STRING),
        "The machines as their provider names them; many of one kind as `prefix{a,b,c}`.",
    ),
    "launched_at": _described(_STRING, "When it was made, UTC."),
    "ends_at": _described(_STRING, "When its own limit ends it, UTC; empty for never."),
    "generation": _described(_STRING, "A fresh token for each create."),
    "token": _described(
        _STRING,
        "What callers of a service with `expose: token` show as `Authorization: Bearer ...`; a"
        " secret, empty for all others.",
    ),
    "record": _described(_mapped(_ANY), "What the plugin itself needs to go on. Not an interface."),
}

VOLUME_INPUTS: dict[str, Any] = {
    "world": _WORLD,
    "owner": _described(_STRING, "The `owner_id` of the stack's Ownership."),
    "volume": _described(_STRING, "The volume's name, unique within its stack."),
    "settings": _SETTINGS,
    "provider": _described(_STRING, "Who keeps it."),
    "place": _described(_STRING, "The zone that it stands in."),
    "size_gib": _described(_INTEGER, "Its size. It grows in place, and is never shrunk."),
    "type": _described(_STRING, "The provider's name for its kind, as in `pd-balanced` or `gp3`."),
    "delete_data": _described(
        _BOOLEAN, "Its removal deletes the volume and its data. Without it the volume stays."
    ),
}

VOLUME_OUTPUTS: dict[str, Any] = {
    **{
        name: VOLUME_INPUTS[name]
        for name in VOLUME_INPUTS
        if name not in ("settings", "delete_data")
    },
    "native_id": _described(_STRING, "The volume as its provider names it."),
    "status": _described(_STRING, "`creating`, `ready` or `deleting`."),
    "users": _described(_listed(_STRING), "The machines that it is attached to."),
    "price_usd_per_month": _described(
        _NUMBER, "What it costs a month. Absent where no source has a price."
    ),
    "price_as_of": _described(_STRING, "The price's date."),
    "price_source": _described(_STRING, "Where the price comes from."),
    "account": _described(_mapped(_STRING), "Whose account it is in. Not an interface."),
}

_PLAN_INPUTS: dict[str, Any] = {
    "world": _WORLD,
    "settings": _SETTINGS,
    "cluster": _described(_STRING, "The cluster's name, for the title."),
    "urn": _described(
        _STRING, "The cluster's URN: the table is shown under it, against what runs there now."
    ),
    "detail": _described(_STRING, "`short`, the default, or `full`: how much `text` says."),
    "running_usd_per_hour": _described(
        _NUMBER,
        "What runs now costs this, for the change per hour; 0 for nothing. Not needed with `urn`.",
    ),
    **SPEC_INPUTS,
}

_PLAN_OUTPUTS: dict[str, Any] = {
    "text": _described(_STRING, "The plan, at most 96 columns wide."),
    "chosen": _described(_mapped(_ANY), "The first candidate; absent when nothing is acceptable."),
    "price_usd_per_hour": _described(_NUMBER, "The chosen one's price, all nodes."),
    "worst_usd_per_hour": _described(_NUMBER, "The dearest acceptable candidate's price."),
    "candidates": _described(_INTEGER, "How many places could serve it."),
    "change": _described(_STRING, "The change per hour against what runs now."),
    "warnings": _described(_listed(_STRING), "What could not be listed."),
}


def document() -> str:
    """The schema as JSON."""
    return json.dumps(
        {
            "name": "gpu",
            "version": VERSION,
            "displayName": "GPUs",
            "description": (
                "GPUs declared by what is wanted, not where: the first place that really has"
                " capacity, within a price cap."
            ),
            "keywords": ["pulumi", "gpu", "category/cloud"],
            "meta": {"moduleFormat": "(.*)"},
            "config": {},
            "provider": {},
            "types": _TYPES,
            "resources": {
                "gpu:index:Ownership": {
                    "description": (
                        "Everything a stack makes bears its id; its delete settles and releases all"
                        " of that. One per stack, first."
                    ),
                    "inputProperties": {
                        "world": _WORLD,
                        "settings": _SETTINGS,
                        "max_spend": _MAX_SPEND,
                    },
                    "requiredInputs": ["world"],
                    "properties": {
                        "world": _WORLD,
                        "owner_id": _described(_STRING, "Random, made once."),
                        "accounts": _described(
                            _listed(_ANY),
                            "Every account setting that it has had, so that all that it made is"
                            " found.",
                        ),
                        "spending": _described(
                            _mapped(_ANY),
                            "What was spent this month and what runs, where `max_spend` is set:"
                            " whole micro-dollars. Not an interface.",
                        ),
                    },
                    "required": ["world", "owner_id"],
                },
                "gpu:index:Volume": {
                    "description": (
                        "Storage that outlives the machines that mount it. Its removal leaves the"
                        " data, unless `delete_data` was applied before."
                    ),
                    "inputProperties": VOLUME_INPUTS,
                    "requiredInputs": ["world", "owner", "volume", "provider"],
                    "properties": VOLUME_OUTPUTS,
                    "required": ["world", "owner", "volume", "provider", "native_id", "status"],
                },
                "gpu:index:Cluster": {
                    "description": "One cluster of GPU machines, got wherever there is capacity.",
                    "inputProperties": CLUSTER_INPUTS,
                    "requiredInputs": ["world", "owner", "cluster", "gpu"],
                    "properties": CLUSTER_OUTPUTS,
                    "required": [
                        name
                        for name in CLUSTER_OUTPUTS
                        if name not in ("price_usd_per_hour", "record")
                    ],
                },
            },
            "functions": {
                "gpu:index:plan": {
                    "description": (
                        "Every place that could serve a declaration, ranked, with prices. Buys"
                        " nothing."
                    ),
                    "inputs": {"properties": _PLAN_INPUTS, "required": ["world"]},
                    "outputs": {"properties": _PLAN_OUTPUTS, "required": ["text", "candidates"]},
                }
            },
            "language": {},
        },
        separators=(",", ":"),
    )
