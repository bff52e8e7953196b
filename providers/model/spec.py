"""The declaration as users write it: `Gpu`, `Fallback`, `Cluster`, in Python or as the mapping of a
stack file.

Owns types, unknown keys, ranges and the rules between fields; reports every problem at once, each
with its property path. Whether a GPU name is known and sold is the planner's business. No I/O.
Imported on first use: pydantic costs about 0.1 s.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from providers.errors import Problem, SpecError
from providers.model import ask as asks
from providers.model import duration, secret, wording
from providers.model.ask import Ask, Capacity, Choice, PriceOverride
from providers.model.machine import Setup
from providers.model.money import micro_usd
from providers.model.workload import Override as WorkloadOverride
from providers.model.workload_checks import problems as workload_problems
from providers.model.workload_spec import (
    DTYPES,
    Checkpoint,
    Number,
    Task,
    Train,
    Value,
    WholeNumber,
    Workload,
)

Spot = Literal["never", "prefer", "only"]
Duration = str | Number
Port = Annotated[int, Field(strict=True, ge=1, le=65_535)]

_NAME = re.compile(r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")
_LABEL_KEY = re.compile(r"^[a-z][a-z0-9_-]{0,62}$")
_LABEL_VALUE = re.compile(r"^[a-z0-9_-]{0,63}$")
_PUBLIC_KEY = re.compile(
    r"^(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" [A-Za-z0-9+/=]+( [^\r\n]*)?$"
)


_LABELS_MAX = 60
"""Google's limit is 64 on a machine (Compute Engine, "Labels overview", 2026-11); four are the
product's own.
"""
_EMPTY_FALLBACK = Problem(
    "fallback", "at least one choice", "an empty list", "leave it out for none"
)
_inside: ContextVar[bool] = ContextVar("inside", default=False)
"""True while a model is being read as part of another one: pydantic then needs its own errors."""


class _Strict(BaseModel):
    """Frozen, no unknown keys, and problems instead of pydantic's own errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, /, **data: Any) -> None:
        outermost = not _inside.get()
        token = _inside.set(True)
        broken: ValidationError | None = None
        try:
            super().__init__(**data)
        except ValidationError as error:
            if not outermost:
                raise
            broken = error
        finally:
            _inside.reset(token)
        if broken is not None:
            raise SpecError(_problems(broken, data, type(self)))
        problems = self.semantic() if outermost else []
        if problems:
            raise SpecError(problems)

    def semantic(self) -> list[Problem]:
        """What is wrong beyond types, for a model that stands alone; a cluster asks its parts
        itself, so that paths are whole.
        """
        return []


class Fallback(_Strict):
    """Another acceptable choice. Whatever it leaves out is as in the cluster."""

    gpu: str | None = None
    min_memory_gib: float | None = Field(default=None, gt=0, le=100_000, strict=True)
    nodes: int | None = Field(default=None, ge=1, le=1_000, strict=True)
    spot: Spot | None = None
    capacity: tuple[str, ...] | None = None
    wait: Duration | None = None
    ttl: Duration | None = None
    dtype: DTYPES | None = None
    command: str | None = None
    args: Mapping[str, Value] = {}

    def override(self) -> WorkloadOverride | None:
        """What this choice changes of the workload; None for nothing."""
        changed = WorkloadOverride(
            self.dtype or "", (self.command or "").strip(), tuple(self.args.items())
        )
        return changed if any(changed) else None


class Gpu(_Strict):
    """`Gpu("H100", count=8, fallback=["A100-80GB:8"])`, `Gpu("H100:8")`, or
    `Gpu(min_memory_gib=24)` by memory instead of name.

    `count` is per node. A `!` after the type (`"H100!"`) means exactly this one, no free upgrade.
    """

    type: str = ""
    count: int | None = Field(default=None, ge=1, le=100_000, strict=True)
    min_memory_gib: float | None = Field(default=None, gt=0, le=100_000, strict=True)
    fallback: tuple[str | Fallback, ...] = ()
    spot: Spot | None = None

    def __init__(self, type: str = "", /, **data: Any) -> None:
        if type:
            data["type"] = type
        super().__init__(**data)

    def semantic(self) -> list[Problem]:
        problems: list[Problem] = []
        if not self.type and self.min_memory_gib is None:
            problems.append(Problem("type", 'a GPU such as "H100", or min_memory_gib', "neither"))
        if self.type:
            try:
                read = asks.gpu_text(self.type, "type")
                if (
                    read.gpu_count is not None
                    and self.count is not None
                    and read.gpu_count != self.count
                ):
                    problems.append(
                        Problem(
                            "count",
                            f"{read.gpu_count}, as in {self.type!r}",
                            str(self.count),
                            "say the count once",
                        )
                    )
            except SpecError as error:
                problems.extend(error.problems)
        if "fallback" in self.model_fields_set and not self.fallback:
            problems.append(_EMPTY_FALLBACK)
        return problems


class Override(_Strict):
    """A negotiated rate for one node per hour. What is left out matches everything; the first match
    wins.
    """

    provider: str
    price_usd_per_hour: float = Field(gt=0, le=1_000_000, allow_inf_nan=False, strict=True)
    region: str = ""
    machine_type: str = ""
    gpu: str = ""
    capacity: str = ""


class Prices(_Strict):
    """What the user knows better than the catalog."""

    overrides: tuple[Override, ...] = ()


class Cluster(_Strict):
    """What GPUs are wanted, not where. `name` is the cluster's name; the rest is the content of a
    stack file's entry.
    """

    name: str
    gpu: str | Gpu | tuple[str | Gpu | Fallback, ...]
    kind: Literal["machine", "job", "service"] = "machine"
    nodes: int = Field(default=1, ge=1, le=1_000, strict=True)
    fallback: tuple[str | Fallback, ...] = ()
    spot: Spot | None = None
    capacity: tuple[str, ...] | None = None
    providers: tuple[str, ...] | None = None
    regions: tuple[str, ...] | None = None
    marketplaces: Annotated[bool, Field(strict=True)] = False
    rank: Literal[
        "price_by_choice", "preference", "price", "performance_per_dollar", "job_cost"
    ] = "price_by_choice"
    max_price_per_hour: float | None = Field(
        default=None, gt=0, le=10_000_000, allow_inf_nan=False, strict=True
    )
    accept_suspect_prices: Annotated[bool, Field(strict=True)] = False
    prices: Prices = Prices()
    wait: Duration = "15m"
    ttl: Duration | None = None
    on_ttl: Literal["release", "keep"] = "release"
    idle_after: Duration | None = None
    disk_gib: int | None = Field(default=None, ge=10, le=65_536, strict=True)
    ports: tuple[Port, ...] = ()
    expose: Literal["private", "token", "public"] = "private"
    ssh_key: str | None = None
    labels: Mapping[str, str] = {}
    secrets: Mapping[str, Mapping[str, str]] = {}
    network: Literal["default", "managed"] = "default"
    options: Mapping[str, Mapping[str, Any]] = {}
    run: str | WholeNumber = ""
    reclaim: str | WholeNumber = ""
    state: Literal["running", "stopped"] = "running"
    workload: Workload | None = None
    on_loss: Literal["replace-all", "replace-node", "report"] = "replace-all"
    ready: Literal["checked", "running"] = "checked"

    def semantic(self) -> list[Problem]:
        return _semantic(self)

    def ask(self) -> Ask:
        """The compiled form, as the planner reads it."""
        entries, problems = _entries(self)
        if problems:
            raise SpecError(problems)
        return Ask(
            entries=tuple(entries),
            kind=self.kind,
            providers=self.providers or (),
            regions=self.regions or (),
            rank=self.rank,
            marketplaces=self.marketplaces,
            accept_suspect_prices=self.accept_suspect_prices,
            max_price_micro_usd=(
                None if self.max_price_per_hour is None else micro_usd(self.max_price_per_hour)
            ),
            price_overrides=tuple(
                PriceOverride(
                    micro_usd(o.price_usd_per_hour),
                    o.provider,
                    o.region,
                    o.machine_type,
                    o.gpu,
                    o.capacity,
                )
                for o in self.prices.overrides
            ),
            disk_gib=self.disk_gib,
            options={name: dict(section) for name, section in self.options.items()},
            ports=tuple(self.ports),
            workload=None if self.workload is None else self.workload.record(),
            secrets=tuple(
                (name, frozenset(references)) for name, references in sorted(self.secrets.items())
            ),
        )

    def setup(self) -> Setup:
        """Everything about the machines that is no choice of place, the wiring of a managed network
        aside.
        """
        return Setup(
            disk_gib=self.disk_gib,
            ttl_s=self.ask().entries[0].ttl_s,
            idle_s=None if self.idle_after is None else duration.seconds(self.idle_after),
            on_ttl=self.on_ttl,
            ssh_public_key=(self.ssh_key or "").strip(),
            labels=tuple(sorted(self.labels.items())),
            options=tuple(
                sorted((provider, dict(section)) for provider, section in self.options.items())
            ),
            ports=tuple(self.ports),
            state=self.state,
            expose=self.expose,
            secrets=tuple(
                (name, tuple(sorted(references.items())))
                for name, references in sorted(self.secrets.items())
            ),
            on_loss=self.on_loss,
        )

    def fingerprint(self) -> str:
        """Sixteen hex digits over what a machine *is*; leaves out secrets and policy (fallback,
        rank, caps, wait, ttl, labels, keys).
        """
        first = self.ask().entries[0]
        content = {
            "gpu": first.gpu,
            "count": first.gpu_count,
            "memory": first.min_memory_gib,
            "nodes": self.nodes,
            "kind": self.kind,
            "disk": self.disk_gib,
            "network": self.network,
            "options": {name: dict(section) for name, section in self.options.items()},
            "run": str(self.run),
        }
        return hashlib.sha256(
            json.dumps(content, sort_keys=True, default=str).encode()
        ).hexdigest()[:16]


def read_cluster(name: str, raw: object) -> Cluster:
    """The cluster of a stack file's entry. Raises SpecError with every problem."""
    if isinstance(raw, str):
        raw = {"gpu": raw}
    if not isinstance(raw, Mapping):
        raise SpecError([Problem("", 'a mapping such as {gpu: "H100:8"}', type(raw).__name__)])
    named = (
        [Problem("name", "the name to stand as the key only", repr(raw["name"]), "remove it")]
        if "name" in raw and raw["name"] != name
        else []
    )
    data = {str(key): _plain(value) for key, value in raw.items() if key != "name"}
    try:
        cluster = Cluster(name=name, **data)
    except SpecError as error:
        raise SpecError([*named, *error.problems]) from None
    if named:
        raise SpecError(named)
    return cluster


def asked_names(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(path, GPU name) of everything in a raw entry that reads as a GPU, however broken the rest
    is.
    """
    found: list[tuple[str, str]] = []

    def look(path: str, value: Any) -> None:
        text = value.get("gpu", value.get("type")) if isinstance(value, Mapping) else value
        if isinstance(text, str):
            try:
                found.append((path, asks.gpu_text(text, path).type))
            except SpecError:
                return
        if isinstance(value, Mapping) and isinstance(value.get("fallback"), (list, tuple)):
            for index, item in enumerate(value["fallback"]):
                look(f"{path}.fallback[{index}]", item)

    gpu = raw.get("gpu")
    for index, item in enumerate(gpu) if isinstance(gpu, (list, tuple)) else ():
        look(f"gpu[{index}]", item)
    if not isinstance(gpu, (list, tuple)):
        look("gpu", gpu)
    fallback = raw.get("fallback")
    for index, item in enumerate(fallback) if isinstance(fallback, (list, tuple)) else ():
        look(f"fallback[{index}]", item)
    return found


def _plain(value: Any) -> Any:
    """Whole floats as ints (Pulumi's wire knows only floats), lists as tuples."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _problems(
    error: ValidationError, data: Mapping[str, Any], model: type[BaseModel]
) -> list[Problem]:
    """Pydantic's errors as problems, one per path; then the semantic ones of whatever did validate."""
    seen: dict[str, list[str]] = {}
    founds: dict[str, str] = {}
    todos: dict[str, str] = {}
    errors = wording.likeliest(error.errors())
    # A name that is only misspelt is not missing as well.
    misspelt = {
        (*item["loc"][:-1], name)
        for item in errors
        if item["type"] == "extra_forbidden"
        for name in wording.close(str(item["loc"][-1]), _model_at(item["loc"], model).model_fields)
    }
    for item in errors:
        if item["type"] == "missing" and item["loc"] in misspelt:
            continue
        path = wording.path_of(item["loc"])
        kind = item["type"]
        if kind == "extra_forbidden" and (written := wording.counted(item, data)):
            # `{H100: 8}`: nothing else that is said of this place helps.
            path = wording.path_of(item["loc"][:-1])
            seen[path], founds[path], todos[path] = (
                ['a GPU such as "H100:8"'],
                written[0],
                f"write {written[1]}",
            )
            continue
        if kind == "missing":
            wanted, found = wording.missing(path), "nothing"
        elif kind == "extra_forbidden":
            wanted, found = (
                _property(str(item["loc"][-1]), _model_at(item["loc"], model)),
                repr(str(item["loc"][-1])),
            )
        else:
            wanted, found = wording.meant(path, item), wording.shown(item["input"])
        if path in todos:
            continue
        seen.setdefault(path, [])
        if wanted not in seen[path]:
            seen[path].append(wanted)
        founds.setdefault(path, found)
        if todo := wording.todo(path, item):
            todos[path] = todo
    inner = [
        path
        for path in seen
        if not any(other != path and other.startswith((f"{path}.", f"{path}[")) for other in seen)
    ]
    problems = [
        Problem(path, " or ".join(seen[path]), founds[path], todos.get(path, "")) for path in inner
    ]
    bad = {str(item["loc"][0]) for item in error.errors() if item["loc"]}
    rest = {key: value for key, value in data.items() if key not in bad}
    if model is Cluster and bad and "kind" not in bad:
        # What hangs together with a faulty field is judged as if that field were right: one fault
        # is one problem.
        rest |= {
            key: value
            for key, value in _STAND_INS.items()
            if key in bad or (key in _NEEDED and key not in data)
        }
        try:
            Cluster(**rest)
        except SpecError as more:
            problems.extend(
                problem
                for problem in more.problems
                if problem not in problems and _head(problem.path) not in bad
            )
    return problems


_STAND_INS: dict[str, Any] = {
    "name": "x",
    "gpu": "H100:1",
    "workload": {"command": "true", "port": 9, "train": {}},
    "ttl": "1h",
    "idle_after": "1h",
    "ports": (9,),
}
_NEEDED = ("name", "gpu")


def _head(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


_INNER: dict[str, type[BaseModel]] = {
    "Fallback": Fallback,
    "Gpu": Gpu,
    "overrides": Override,
    "prices": Prices,
    "workload": Workload,
    "services": Task,
    "checkpoint": Checkpoint,
    "train": Train,
}
"""What a step of an error's location means for the model there."""


def _property(word: str, model: type[BaseModel]) -> str:
    """What stands for an unknown property: near ones, or where it would be known."""
    close = wording.near(word, list(model.model_fields))
    if not close and model is not Cluster and word in Cluster.model_fields:
        return f"one of {', '.join(model.model_fields)} here ({word} is the whole cluster's)"
    if not close and model is Cluster and word in Workload.model_fields:
        return f"a known property (workload.{word} is one)"
    return f"a known property{close}"


def _model_at(location: tuple[Any, ...], model: type[BaseModel]) -> type[BaseModel]:
    return next(
        (
            _INNER[part]
            for part in reversed(location[:-1])
            if isinstance(part, str) and part in _INNER
        ),
        model,
    )


def _semantic(cluster: Cluster) -> list[Problem]:
    problems: list[Problem] = []
    if not _NAME.match(cluster.name):
        problems.append(
            Problem(
                "name",
                "lowercase letters, digits and -, at most 40, starting with a letter",
                repr(cluster.name),
            )
        )
    problems.extend(_entries(cluster)[1])
    if "fallback" in cluster.model_fields_set and not cluster.fallback:
        problems.append(_EMPTY_FALLBACK)
    problems.extend(_kind(cluster))
    problems.extend(_workload(cluster))
    problems.extend(_expose(cluster))
    if cluster.ssh_key is not None and not _PUBLIC_KEY.match(cluster.ssh_key.strip()):
        found = "a private key" if "PRIVATE KEY" in cluster.ssh_key else "something else"
        problems.append(
            Problem(
                "ssh_key",
                'one public key, as in "ssh-ed25519 AAAA... me"',
                found,
                "give the .pub file's content",
            )
        )
    problems.extend(_labels(cluster))
    problems.extend(secret.problems(cluster.secrets))
    for field in ("providers", "regions"):
        names = getattr(cluster, field)
        if names is not None and not names:
            problems.append(Problem(field, "at least one", "an empty list", "leave it out for any"))
        if names and len(set(names)) != len(names):
            problems.append(Problem(field, "each once", ", ".join(names)))
    if cluster.on_ttl == "keep" and cluster.ttl is None and cluster.idle_after is None:
        problems.append(Problem("on_ttl", "a ttl to end", "none", "set ttl, or leave on_ttl out"))
    _seconds(cluster.idle_after, "idle_after", problems, 600)
    for index, override in enumerate(cluster.prices.overrides):
        if override.capacity and override.capacity not in asks.CAPACITIES:
            problems.append(
                Problem(
                    f"prices.overrides[{index}].capacity",
                    "one of " + ", ".join(asks.CAPACITIES),
                    repr(override.capacity),
                )
            )
    return problems


def _expose(cluster: Cluster) -> list[Problem]:
    problems: list[Problem] = []
    if cluster.expose == "token" and (cluster.workload is None or cluster.kind != "service"):
        problems.append(
            Problem(
                "expose", "private or public: a token is for a service with a workload", "token"
            )
        )
    if cluster.kind == "machine" and cluster.expose == "public" and not cluster.ports:
        problems.append(Problem("expose", "ports to expose", "none", "list them under ports"))
    if cluster.kind == "machine" and cluster.expose == "public" and cluster.network != "managed":
        problems.append(
            Problem(
                "expose",
                "network: managed, which declares the firewall",
                f"network: {cluster.network}",
                "set network: managed",
            )
        )
    return problems


def _labels(cluster: Cluster) -> list[Problem]:
    problems: list[Problem] = []
    if len(cluster.labels) > _LABELS_MAX:
        problems.append(Problem("labels", f"at most {_LABELS_MAX}", str(len(cluster.labels))))
    for key, value in cluster.labels.items():
        if not _LABEL_KEY.match(key) or key.startswith("gpus-"):
            problems.append(
                Problem(
                    f"labels.{key}",
                    "a key of lowercase letters, digits, _ and -, at most 63, not starting with"
                    " gpus-",
                    repr(key)[: wording.FOUND_MAX],
                )
            )
        elif not _LABEL_VALUE.match(value):
            problems.append(
                Problem(
                    f"labels.{key}",
                    "lowercase letters, digits, _ and -, at most 63",
                    repr(value)[: wording.FOUND_MAX],
                )
            )
    return problems


_MACHINE_ONLY = {
    "ssh_key": "nobody logs into it",
    "disk_gib": "it has no disk of its own",
    "ports": "a job listens on none, and a service's port stands in the provider's options",
    "state": "only a machine is stopped and kept",
    "network": "it joins no network of yours",
    "on_ttl": "nothing of it is kept",
    "on_loss": "it has no machines to lose one by one",
    "idle_after": "a job ends by itself, and a service scales down by its own options",
    "ready": "nobody logs into it",
}


def _kind(cluster: Cluster) -> list[Problem]:
    """What only a machine can have."""
    if cluster.kind == "machine":
        return []
    # With a workload it may be a machine's work: that one has a disk, a network and a door.
    only = _MACHINE_ONLY
    if cluster.workload is not None:
        only = {
            "state": _MACHINE_ONLY["state"],
            "ports": "a job listens on none, and a service's port stands in workload.port",
        }
    found = [
        Problem(
            name,
            f"nothing for a {cluster.kind}: {why}",
            wording.shown(getattr(cluster, name)),
            "leave it out",
        )
        for name, why in only.items()
        if getattr(cluster, name) != type(cluster).model_fields[name].default
    ]
    if cluster.kind == "service" and cluster.ttl is not None:
        found.append(
            Problem(
                "ttl",
                "none for a service: it listens until it is destroyed",
                repr(cluster.ttl),
                "leave it out",
            )
        )
    if cluster.kind == "job" and cluster.expose == "public":
        found.append(
            Problem("expose", "private for a job: nothing of it listens", "public", "leave it out")
        )
    return found


def _workload(cluster: Cluster) -> list[Problem]:
    """What is wrong with what runs, and with what a choice changes of it."""
    found: list[Problem] = []
    for index, item in enumerate(cluster.fallback):
        if isinstance(item, Fallback) and item.override() is not None and cluster.workload is None:
            found.append(
                Problem(
                    f"fallback[{index}]",
                    "a workload to change",
                    "none",
                    "drop dtype, command and args, or declare a workload",
                )
            )
    if cluster.rank == "job_cost" and (cluster.workload is None or cluster.workload.train is None):
        found.append(
            Problem(
                "rank",
                "workload.train, which says how much work it is",
                "none",
                "declare it, or rank by price",
            )
        )
    if cluster.workload is None:
        return found
    try:
        entries, broken = _entries(cluster)
    except SpecError:
        return found
    if broken:
        return found
    several = any(entry.nodes > 1 for entry in entries)
    if cluster.ready == "running" and (several or cluster.expose == "token"):
        told = "several nodes are told of each other" if several else "a service is told its token"
        found.append(Problem("ready", f"checked: {told} by login", "running", "leave it out"))
    return [
        *found,
        *workload_problems(
            cluster.workload, cluster.kind, min((entry.gpu_count for entry in entries), default=1)
        ),
    ]


def _seconds(
    value: Duration | None, path: str, problems: list[Problem], least_s: int = 0
) -> int | None:
    if value is None:
        return None
    try:
        total = duration.seconds(value)
    except duration.TooLongError:
        problems.append(_too_long(path, value))
        return None
    except ValueError:
        found = repr(value)[: wording.FOUND_MAX]
        problems.append(
            Problem(
                path, 'a duration such as "20h", "15m" or "1h30m"', found, duration.remedy(value)
            )
        )
        return None
    if total < least_s:
        problems.append(Problem(path, f"at least {duration.text(least_s)}", duration.text(total)))
    if total > duration.LONGEST_S:
        problems.append(_too_long(path, value))
    return total


def _too_long(path: str, value: object) -> Problem:
    return Problem(
        path, f"at most {duration.text(duration.LONGEST_S)}", repr(value)[: wording.FOUND_MAX]
    )


def _entries(cluster: Cluster) -> tuple[list[Choice], list[Problem]]:
    """Every acceptable choice in order, and what is wrong with them."""
    problems: list[Problem] = []
    wait_s = _seconds(cluster.wait, "wait", problems)
    ttl_s = _seconds(cluster.ttl, "ttl", problems, 600)
    listed = cluster.gpu if isinstance(cluster.gpu, tuple) else (cluster.gpu,)
    if not listed:
        problems.append(Problem("gpu", 'a GPU such as "H100:8"', "an empty list"))
    spot, ordered = cluster.spot, cluster.capacity
    choices: list[tuple[str, str | Gpu | Fallback]] = []
    for index, item in enumerate(listed):
        path = f"gpu[{index}]" if isinstance(cluster.gpu, tuple) else "gpu"
        choices.append((path, item))
        if isinstance(item, Gpu):
            choices.extend((f"{path}.fallback[{i}]", more) for i, more in enumerate(item.fallback))
            if item.spot is not None and cluster.spot is not None and item.spot != cluster.spot:
                problems.append(
                    Problem(
                        f"{path}.spot",
                        f"{cluster.spot}, as the cluster says",
                        item.spot,
                        "say it once",
                    )
                )
            elif item.spot is not None and spot is None and ordered is None:
                spot = item.spot
    choices.extend((f"fallback[{index}]", item) for index, item in enumerate(cluster.fallback))
    try:
        default = asks.capacities(spot, ordered)
    except SpecError as error:
        problems.extend(error.problems)
        default = (Capacity(asks.ON_DEMAND),)
    entries = [
        entry
        for path, item in choices
        if (entry := _entry(path, item, cluster, default, wait_s, ttl_s, problems)) is not None
    ]
    places: dict[tuple[object, ...], str] = {}
    for entry in entries:
        key = (
            entry.gpu.casefold(),
            entry.gpu_count,
            entry.exact,
            entry.min_memory_gib,
            entry.nodes,
            entry.capacity,
        )
        if key in places:
            problems.append(
                Problem(
                    entry.path,
                    "a choice that is not listed yet",
                    f"the same as {places[key]}",
                    "remove it",
                )
            )
        places.setdefault(key, entry.path)
    return entries, problems


def _entry(
    path: str,
    item: str | Gpu | Fallback,
    cluster: Cluster,
    default: tuple[Capacity, ...],
    wait_s: int | None,
    ttl_s: int | None,
    problems: list[Problem],
) -> Choice | None:
    text = item if isinstance(item, str) else item.type if isinstance(item, Gpu) else item.gpu or ""
    memory = None if isinstance(item, str) else item.min_memory_gib
    name, exact, count = "", False, None
    try:
        if text:
            name, exact, count = asks.gpu_text(text, path)
        elif memory is None:
            raise SpecError(
                [Problem(path, 'a GPU such as "H100:8"', repr(text) if text else "nothing")]
            )
        if isinstance(item, Gpu):
            problems.extend(
                problem._replace(path=f"{path}.{problem.path}")
                for problem in item.semantic()
                if problem.path in {"count", "fallback"}
            )
            count = item.count if count is None else count
        kinds = default
        if isinstance(item, Fallback) and (item.spot is not None or item.capacity is not None):
            kinds = asks.capacities(item.spot, item.capacity, path)
    except SpecError as error:
        problems.extend(error.problems)
        return None
    nodes = item.nodes if isinstance(item, Fallback) and item.nodes is not None else cluster.nodes
    if isinstance(item, Fallback):
        wait_s = _seconds(item.wait, f"{path}.wait", problems) if item.wait is not None else wait_s
        ttl_s = _seconds(item.ttl, f"{path}.ttl", problems, 600) if item.ttl is not None else ttl_s
    return Choice(
        gpu=name,
        gpu_count=count or 1,
        path=path,
        exact=exact,
        min_memory_gib=memory,
        nodes=nodes,
        capacity=kinds,
        wait_s=asks.DEFAULT_WAIT_S if wait_s is None else wait_s,
        ttl_s=ttl_s,
        override=item.override() if isinstance(item, Fallback) else None,
    )
