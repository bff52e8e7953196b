"""The fields of a declaration, their types and ranges: of a cluster and of its parts (`Gpu`,
`Fallback`, `Prices`). Owns `Strict`, which reports problems instead of pydantic's errors.

Annotations are evaluated here, not kept as texts: pydantic would evaluate each anew.
"""

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
Rank = Literal["price_by_choice", "preference", "price", "performance_per_dollar", "expected"]
Duration = str | Number
Port = Annotated[int, Field(strict=True, ge=1, le=65_535)]

EMPTY_FALLBACK = Problem(
    "fallback", "at least one choice", "an empty list", "leave it out for none"
)
_inside: ContextVar[bool] = ContextVar("inside", default=False)
"""True while a model is being read as part of another one: pydantic then needs its own errors."""


class Strict(BaseModel):
    """Frozen, no unknown keys, and problems instead of pydantic's own errors."""

    # Most are only ever read as a part of a `Cluster`, whose own form has all of them.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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

    gpu: str | None = Field(default=None, description="As in `A100-80GB:8`.")
    min_memory_gib: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        strict=True,
        description="Any GPU with at least this much memory.",
    )
    nodes: int | None = Field(
        default=None, ge=1, le=1_000, strict=True, description="Machines of this choice."
    )
    spot: Spot | None = Field(
        default=None, description="`never`, `prefer` or `only`, for this choice."
    )
    capacity: tuple[str, ...] | None = Field(
        default=None, description="Instead of `spot`, the exact order, for this choice."
    )
    wait: Duration | None = Field(
        default=None, description="How long one place may keep you waiting, with this choice."
    )
    ttl: Duration | None = Field(default=None, description="How long it may run, with this choice.")
    dtype: DTYPES | None = Field(
        default=None, description="The workload's number format with this choice."
    )
    command: str | None = Field(
        default=None, description="The workload's command with this choice."
    )
    args: Mapping[str, Value] = Field(
        default={}, description="What this choice changes of the launcher's arguments."
    )

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

    type: str = Field(
        default="", description="The name, as in `H100`, `H100:8`, or `H100!` for exactly this one."
    )
    count: int | None = Field(
        default=None, ge=1, le=100_000, strict=True, description="GPUs per machine."
    )
    min_memory_gib: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        strict=True,
        description="Any GPU with at least this much memory.",
    )
    fallback: tuple[str | Fallback, ...] = Field(
        default=(), description="Further choices, in order."
    )
    spot: Spot | None = Field(default=None, description="`never`, `prefer` or `only`.")

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

    provider: str = Field(description="Whose rate it is.")
    price_usd_per_hour: float = Field(
        gt=0,
        le=1_000_000,
        allow_inf_nan=False,
        strict=True,
        description="US dollars per hour for one machine.",
    )
    region: str = Field(default="", description="Where it holds; everywhere when left out.")
    machine_type: str = Field(default="", description="For which machine type; any when left out.")
    gpu: str = Field(default="", description="For which GPU; any when left out.")
    capacity: str = Field(default="", description="For which kind of capacity; any when left out.")


class Prices(Strict):
    """What the user knows better than the catalog."""

    overrides: tuple[Override, ...] = Field(
        default=(), description="Your negotiated rates, per machine; the first match wins."
    )


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

    domain: str = Field(description="The name by which callers know the service.")
    certificate: Mapping[str, str] = Field(
        description="Where the machines fetch its certificate, by provider."
    )


class Acquire(Strict):
    """What happens where every place is sold out: the cluster waits for capacity."""

    within: Duration = Field(
        description="How long `gpus watch`, and each `up`, go on looking. Then they give up."
    )


class Triggers(Strict):
    """How often `gpus rerun` and `gpus reclaim` asked for a new run and for the preferred choice.
    Those commands write it; a change of it is what an `up` acts on.
    """

    rerun: int = Field(
        default=0, ge=0, strict=True, description="How often a new run was asked for."
    )
    reclaim: int = Field(
        default=0,
        ge=0,
        strict=True,
        description="How often the preferred choice was asked for, while a fallback ran.",
    )


class Block(Strict):
    """A window in a cloud's calendar, paid for in full when it is bought."""

    lasts: Duration = Field(description="Whole days up to 14, else whole weeks up to 26.")
    max_price: float = Field(
        gt=0,
        le=100_000_000,
        allow_inf_nan=False,
        strict=True,
        description="US dollars for all of it: every machine, from its beginning to its end.",
    )
    start_within: Duration = Field(
        default="14d", description="How far off its beginning may be, at most 8 weeks."
    )


class ClusterFields(Strict):
    """What `Cluster` is declared by. `name` is the cluster's name; the rest is the content of a
    stack file's entry.
    """

    name: str
    gpu: str | Gpu | tuple[str | Gpu | Fallback, ...] = Field(
        description=(
            '`"H100:8"` (type and count per machine), `"H100!:8"` or `"H100-SXM:8"` (exactly this'
            " card, no free upgrade), a list (in order of preference), or `{min_memory_gib: 24, "
            "count: 1}`."
        )
    )
    kind: Literal["machine", "job", "service"] = Field(
        default="machine",
        description=(
            "`machine`: you log into it; `job`: a command that ends; `service`: a command that "
            "listens."
        ),
    )
    nodes: int = Field(
        default=1,
        ge=1,
        le=1_000,
        strict=True,
        description="Number of machines. They are in one zone, and you get all or none.",
    )
    replicas: int | None = Field(
        default=None,
        ge=1,
        le=64,
        strict=True,
        description="Of a service: so many machines that each serve by themselves, behind a proxy.",
    )
    tls: Tls | None = Field(
        default=None,
        description=(
            "Of replicas, `{domain, certificate}`: the proxy answers by HTTPS, with a certificate"
            " that the machines fetch."
        ),
    )
    fallback: tuple[str | Fallback, ...] = Field(
        default=(),
        description=(
            "Further choices in order: strings, or mappings that override fields of the cluster."
        ),
    )
    spot: Spot | None = Field(
        default=None,
        description=(
            "Whether cheap machines that may be taken back are acceptable; `never` when left out."
            " The short form of `capacity`."
        ),
    )
    capacity: tuple[str, ...] | None = Field(
        default=None,
        description=(
            "The long form, in place of `spot`, for what that cannot say: the exact order, as in"
            " `[reservation(NAME), spot, flex-start, block, on-demand]`."
        ),
    )
    block: Block | None = Field(
        default=None,
        description=(
            "What `block` in `capacity` may buy: `{lasts: 1d, start_within: 14d, max_price: 900}`,"
            " US dollars for all of it."
        ),
    )
    providers: tuple[str, ...] | None = Field(
        default=None,
        description=(
            "The allowed ones. Leave them out for any. A marketplace, where strangers rent out "
            "their hosts, is used only if you name it."
        ),
    )
    regions: tuple[str, ...] | None = Field(
        default=None, description="The allowed ones. Leave them out for any."
    )
    marketplaces: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description=(
            "`true`: without `providers`, strangers' hosts are allowed too. If you leave it out, "
            "the plan says what one would have saved."
        ),
    )
    rank: Rank = Field(
        default="price_by_choice",
        description=(
            "What comes first. `price_by_choice`: the first choice that has room, at its cheapest"
            " place. `preference`: that at the first of the `providers`. Of all choices, `price`:"
            " the cheapest; `performance_per_dollar`: the most work for a dollar; `expected`: what"
            " costs least with the wait for it, by what was tried before."
        ),
    )
    max_price_per_hour: float | None = Field(
        default=None,
        gt=0,
        le=10_000_000,
        allow_inf_nan=False,
        strict=True,
        description=(
            "US dollars for all nodes: machine, GPUs and the disk that comes with them. Nothing "
            "dearer is ever bought."
        ),
    )
    accept_suspect_prices: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="`true`: also buy at a price that can hardly be true."
    )
    prices: Prices = Field(
        default=Prices(), description="Your negotiated rates, `{overrides: [...]}`."
    )
    wait: Duration = Field(
        default=f"{asks.DEFAULT_WAIT_S // 60}m",
        description="How long one place may keep you waiting, loading included.",
    )
    acquire: Acquire | None = Field(
        default=None,
        description=(
            "`{within: 12h}`: where every place is sold out, the cluster waits for capacity for so"
            " long, and the `up` does not fail."
        ),
    )
    hedge: Annotated[int, Field(strict=True, ge=1, le=2)] = Field(
        default=1,
        description=(
            "`2`: where the first place does not answer at once, another provider is asked too. "
            "The first that has room is kept, the other one is cancelled."
        ),
    )
    ttl: Duration | None = Field(
        default=None, description="The cloud itself ends the machine after this long."
    )
    on_ttl: Literal["release", "keep"] = Field(
        default="release",
        description="`release` deletes it then, `keep` stops it and keeps the disk.",
    )
    idle_after: Duration | None = Field(
        default=None,
        description="Ends it, as at the `ttl`, once no GPU was busier than 5 % for this long.",
    )
    disk_gib: int | None = Field(
        default=None,
        ge=asks.DISK_GIB[0],
        le=asks.DISK_GIB[1],
        strict=True,
        description=(
            "The boot disk. Without it 100 GiB, or what the workload takes if that is more. One "
            "that is too small is refused by the rule `disk`."
        ),
    )
    ports: tuple[Port, ...] = Field(default=(), description="Ports that you will use.")
    expose: Literal["private", "token", "public"] = Field(
        default="private",
        description=(
            "Who can reach the ports: `private`: you, through ssh; `public`: everybody (of a "
            "machine: needs `network: managed`); `token`: whoever shows one (a service whose "
            "launcher checks it)."
        ),
    )
    ssh_key: str | None = Field(
        default=None, description="Your public key, or the path of a `.pub` file."
    )
    labels: Mapping[str, str] = Field(default={}, description="Written on the machines.")
    secrets: Mapping[str, Mapping[str, str]] = Field(
        default={},
        description=(
            "What a workload finds in its environment, by the variable's name: for each provider "
            "where it is kept. Never a value."
        ),
    )
    network: Literal["default", "managed"] = Field(
        default="default",
        description=(
            "`default` uses what is there; `managed` declares network, subnets and firewall."
        ),
    )
    options: Mapping[str, Mapping[str, Any]] = Field(
        default={}, description="What only one provider has, by provider."
    )
    triggers: Triggers = Field(
        default=Triggers(),
        description=(
            "`{rerun: 1, reclaim: 1}`: how often `gpus rerun` and `gpus reclaim` asked. They "
            "write it; you need not."
        ),
    )
    state: Literal["running", "stopped"] = Field(
        default="running",
        description="`stopped` stops the machines and keeps them; `running` starts them again.",
    )
    workload: Workload | None = Field(default=None, description="What runs there.")
    workdir: Workdir | None = Field(
        default=None,
        description=(
            "A folder that is sent to the machines, and in which the workload runs: a path, or "
            "`{path, limit}`."
        ),
    )
    on_loss: Literal["replace-all", "replace-node", "report"] = Field(
        default="replace-all",
        description=(
            "What happens when some of several machines are lost, or one is edited at its cloud."
        ),
    )
    ready: Literal["checked", "running"] = Field(
        default="checked",
        description=(
            "`checked`: a machine is launched once ssh logs in, its driver answers, and GPU count"
            " and memory are as ordered; `running`: once its cloud says so."
        ),
    )
    accept: Literal["off", "quick", "full"] = Field(
        default="off",
        description=(
            "`quick` or `full`: once it is ready, its GPUs are measured, and what is between "
            "several machines; what does not pass is released, and the next place is tried. A "
            "workload starts after it."
        ),
    )


_PARTS: dict[str, type[BaseModel]] = {
    "acquire": Acquire,
    "Fallback": Fallback,
    "Gpu": Gpu,
    "block": Block,
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
