"""The fields of a declaration, their types and ranges: of a cluster and of its parts (`Gpu`,
`Fallback`, `Prices`). Owns `Strict`, which reports problems instead of pydantic's errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from providers.errors import Problem, SpecError
from providers.model import ask as asks
from providers.model.workload import Override as WorkloadOverride
from providers.model.workload_spec import (
    DTYPES,
    Checkpoint,
    Mount,
    Number,
    Registry,
    Task,
    Train,
    Value,
    VolumeUse,
    WholeNumber,
    Workload,
)

Spot = Literal["never", "prefer", "only"]
Rank = Literal["price_by_choice", "preference", "price", "performance_per_dollar", "job_cost"]
Duration = str | Number
Port = Annotated[int, Field(strict=True, ge=1, le=65_535)]

EMPTY_FALLBACK = Problem(
    "fallback", "at least one choice", "an empty list", "leave it out for none"
)
_inside: ContextVar[bool] = ContextVar("inside", default=False)
"""True while a model is being read as part of another one: pydantic then needs its own errors."""


class Strict(BaseModel):
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
            from providers.model.spec_errors import problems_of

            raise SpecError(problems_of(broken, data, type(self), ClusterFields, _PARTS))
        problems = self.semantic() if outermost else []
        if problems:
            raise SpecError(problems)

    def semantic(self) -> list[Problem]:
        """What is wrong beyond types, for a model that stands alone; a cluster asks its parts
        itself, so that paths are whole.
        """
        return []


class Fallback(Strict):
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


class Gpu(Strict):
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
            problems.append(EMPTY_FALLBACK)
        return problems


class Override(Strict):
    """A negotiated rate for one node per hour. What is left out matches everything; the first match
    wins.
    """

    provider: str
    price_usd_per_hour: float = Field(gt=0, le=1_000_000, allow_inf_nan=False, strict=True)
    region: str = ""
    machine_type: str = ""
    gpu: str = ""
    capacity: str = ""


class Prices(Strict):
    """What the user knows better than the catalog."""

    overrides: tuple[Override, ...] = ()


class Workdir(Strict):
    """The folder that is sent to the machines, once it was looked at: what of it an edit shows."""

    path: str
    digest: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    files: WholeNumber
    size: WholeNumber


class Tls(Strict):
    """The name by which callers know a service of several replicas, and where its machines fetch
    that name's certificate, by provider: one text with the chain and the key.
    """

    domain: str
    certificate: Mapping[str, str]


class Triggers(Strict):
    """How often `gpus rerun` and `gpus reclaim` asked for a new run and for the preferred choice.
    Those commands write it; a change of it is what an `up` acts on.
    """

    rerun: int = Field(default=0, ge=0, strict=True)
    reclaim: int = Field(default=0, ge=0, strict=True)


class ClusterFields(Strict):
    """What `Cluster` is declared by. `name` is the cluster's name; the rest is the content of a
    stack file's entry.
    """

    model_config = ConfigDict(defer_build=True)  # only `Cluster` is ever made of it

    name: str
    gpu: str | Gpu | tuple[str | Gpu | Fallback, ...]
    kind: Literal["machine", "job", "service"] = "machine"
    nodes: int = Field(default=1, ge=1, le=1_000, strict=True)
    replicas: int | None = Field(default=None, ge=1, le=64, strict=True)
    tls: Tls | None = None
    fallback: tuple[str | Fallback, ...] = ()
    spot: Spot | None = None
    capacity: tuple[str, ...] | None = None
    providers: tuple[str, ...] | None = None
    regions: tuple[str, ...] | None = None
    marketplaces: Annotated[bool, Field(strict=True)] = False
    rank: Rank = "price_by_choice"
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
    triggers: Triggers = Triggers()
    state: Literal["running", "stopped"] = "running"
    workload: Workload | None = None
    workdir: Workdir | None = None
    on_loss: Literal["replace-all", "replace-node", "report"] = "replace-all"
    ready: Literal["checked", "running"] = "checked"
    accept: Literal["off", "quick", "full"] = "off"


_PARTS: dict[str, type[BaseModel]] = {
    "Fallback": Fallback,
    "Gpu": Gpu,
    "overrides": Override,
    "prices": Prices,
    "tls": Tls,
    "triggers": Triggers,
    "workload": Workload,
    "workdir": Workdir,
    "services": Task,
    "checkpoint": Checkpoint,
    "mounts": Mount,
    "volumes": VolumeUse,
    "registry": Registry,
    "train": Train,
}
"""What a step of an error's location means for the model there."""
