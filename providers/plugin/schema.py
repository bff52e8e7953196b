"""The package schema that the plugin serves: every input and output with its type and one sentence.

Owns the documented names of the resources' properties. Imported only when the schema is asked for.
A test compares it with the spec's fields.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

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

_TYPES: dict[str, Any] = {
    "gpu:index:Gpu": {
        "type": "object",
        "description": "A GPU by name, or by memory instead of name.",
        "properties": {
            "type": _STRING,
            "count": _INTEGER,
            "min_memory_gib": _NUMBER,
            "fallback": _listed({"oneOf": [_STRING, _ref("Fallback")]}),
            "spot": _STRING,
        },
    },
    "gpu:index:Fallback": {
        "type": "object",
        "description": "Another acceptable choice. Whatever it leaves out is as in the cluster.",
        "properties": {
            "gpu": _STRING,
            "min_memory_gib": _NUMBER,
            "nodes": _INTEGER,
            "spot": _STRING,
            "capacity": _listed(_STRING),
            "wait": _DURATION,
            "ttl": _DURATION,
            "dtype": _STRING,
            "command": _STRING,
            "args": _mapped(_ANY),
        },
    },
    "gpu:index:Block": {
        "type": "object",
        "description": "A window in a cloud's calendar, paid for in full when it is bought.",
        "properties": {"lasts": _DURATION, "max_price": _NUMBER, "start_within": _DURATION},
        "required": ["lasts", "max_price"],
    },
    "gpu:index:Override": {
        "type": "object",
        "description": "A negotiated rate for one node per hour.",
        "properties": {
            "provider": _STRING,
            "price_usd_per_hour": _NUMBER,
            "region": _STRING,
            "machine_type": _STRING,
            "gpu": _STRING,
            "capacity": _STRING,
        },
        "required": ["provider", "price_usd_per_hour"],
    },
    "gpu:index:Acquire": {
        "type": "object",
        "description": "What happens where every place is sold out.",
        "properties": {"within": _DURATION},
        "required": ["within"],
    },
    "gpu:index:Prices": {
        "type": "object",
        "description": "What you know better than the catalog.",
        "properties": {"overrides": _listed(_ref("Override"))},
    },
}
"""The parts of the spec; `document` adds what the spec says of each field."""

SPEC_INPUTS: dict[str, Any] = {
    "gpu": {"oneOf": [_STRING, _ref("Gpu"), _listed(_ANY)]},
    "kind": _STRING,
    "nodes": _INTEGER,
    "fallback": _listed({"oneOf": [_STRING, _ref("Fallback")]}),
    "spot": _STRING,
    "capacity": _listed(_STRING),
    "block": _ref("Block"),
    "providers": _listed(_STRING),
    "regions": _listed(_STRING),
    "marketplaces": _BOOLEAN,
    "rank": _STRING,
    "max_price_per_hour": _NUMBER,
    "accept_suspect_prices": _BOOLEAN,
    "prices": _ref("Prices"),
    "wait": _DURATION,
    "acquire": _ref("Acquire"),
    "hedge": _INTEGER,
    "ttl": _DURATION,
    "on_ttl": _STRING,
    "idle_after": _DURATION,
    "replicas": _INTEGER,
    "tls": _ANY,
    "on_loss": _STRING,
    "disk_gib": _INTEGER,
    "ports": _listed(_INTEGER),
    "expose": _STRING,
    "ssh_key": _STRING,
    "labels": _mapped(_STRING),
    "secrets": _mapped(_mapped(_STRING)),
    "network": _STRING,
    "options": _mapped(_mapped(_ANY)),
    "workload": _mapped(_ANY),
    "workdir": _ANY,
    "state": _STRING,
    "ready": _STRING,
    "accept": _STRING,
    "triggers": _mapped(_INTEGER),
}
"""The fields of the spec; `document` adds what the spec says of each."""

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
        "`running`, `queued`, `waiting` (for capacity), `gave-up`, `degraded`, `preempted`,"
        " `ended`, `failed`, `stopped`, `gone` ...",
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
        _STRING, "How it was bought: `on-demand`, `spot`, `flex-start`, `reservation` or `block`."
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
    "max_spend": _MAX_SPEND,
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
        if name not in ("settings", "max_spend", "delete_data")
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


def _worded(properties: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The properties, each with what the spec says of the field of its name."""
    fields = model.model_fields
    return {
        name: _described(kind, str(fields[name].description)) if name in fields else kind
        for name, kind in properties.items()
    }


def document() -> str:
    """The schema as JSON."""
    from providers.model import spec_fields

    types = {
        name: {
            **kind,
            "properties": _worded(kind["properties"], getattr(spec_fields, name.split(":")[-1])),
        }
        for name, kind in _TYPES.items()
    }
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
            "types": types,
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
                    "inputProperties": _worded(CLUSTER_INPUTS, spec_fields.ClusterFields),
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
                    "inputs": {
                        "properties": _worded(_PLAN_INPUTS, spec_fields.ClusterFields),
                        "required": ["world"],
                    },
                    "outputs": {"properties": _PLAN_OUTPUTS, "required": ["text", "candidates"]},
                }
            },
            "language": {},
        },
        separators=(",", ":"),
    )
