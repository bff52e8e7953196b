"""The keywords of `GpuCluster` as an editor and a type checker know them: the fields of a stack
file's entry, in the form in which a program gives them.

Imported by type checkers only. A test compares the names and the choices with the spec's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from pulumi import Input

from providers.model.spec import Fallback, Gpu
from providers.model.spec_fields import Rank, Spot
from providers.model.workload_spec import DTYPES, Launcher

Text = Input[str]
Number = Input[int] | Input[float]
Flag = Input[bool]
Texts = Input[Sequence[Input[str]]]
TextMap = Input[Mapping[str, Input[str]]]
Duration = Text
"""Such as "20h"."""
Settings = Input[Mapping[str, Any]]


class FallbackArgs(TypedDict, total=False):
    """Another acceptable choice."""

    gpu: Text
    min_memory_gib: Number
    nodes: Input[int]
    spot: Input[Spot]
    capacity: Texts
    wait: Duration
    ttl: Duration
    dtype: Input[DTYPES]
    command: Text
    args: Settings


class GpuArgs(TypedDict, total=False):
    """A GPU by name, or by memory instead of name."""

    type: Text
    count: Input[int]
    min_memory_gib: Number
    fallback: Sequence[Text | Fallback | FallbackArgs]
    spot: Input[Spot]


class OverrideArgs(TypedDict, total=False):
    """A negotiated rate."""

    provider: Text
    price_usd_per_hour: Number
    region: Text
    machine_type: Text
    gpu: Text
    capacity: Text


class PricesArgs(TypedDict, total=False):
    """Your own rates."""

    overrides: Sequence[OverrideArgs]


class TlsArgs(TypedDict, total=False):
    """The name and the certificate of a service of several replicas."""

    domain: Text
    certificate: TextMap


class BlockArgs(TypedDict):
    """A window in a cloud's calendar, paid for in full when it is bought."""

    lasts: Duration
    start_within: NotRequired[Duration]
    max_price: Number


class AcquireArgs(TypedDict):
    """How long a cluster waits for capacity."""

    within: Duration


class CheckpointArgs(TypedDict, total=False):
    """What is kept of a run, and where."""

    path: Text
    to: Text
    every: Duration


class MountArgs(TypedDict, total=False):
    """A bucket as a folder."""

    source: Text
    mode: Input[Literal["ro", "rw"]]


class VolumeUseArgs(TypedDict, total=False):
    """A volume as a folder."""

    path: Text
    mode: Input[Literal["ro", "rw"]]
    provider: Text
    place: Text
    type: Text


class RegistryArgs(TypedDict, total=False):
    """How a private image is signed in for."""

    username: Text
    password: TextMap
    identity: Flag


class TrainArgs(TypedDict, total=False):
    """What a training run comes to."""

    method: Input[Literal["full", "lora", "qlora"]]
    tokens: Text | Number
    sequence: Text | Number
    batch: Input[int]
    hours: Input[Mapping[str, Number]]


class ProgramArgs(TypedDict, total=False):
    """What is started."""

    launcher: Input[Launcher]
    command: Text
    model: Text
    dtype: Input[DTYPES]
    context: Text | Number
    concurrency: Input[int]
    args: Settings
    env: TextMap
    port: Input[int]
    health: Text


class TaskArgs(ProgramArgs, total=False):
    """One of several programs on a machine."""

    name: Text
    gpus: Sequence[Input[int]]


class WorkloadArgs(ProgramArgs, total=False):
    """What runs on the machines."""

    services: Sequence[TaskArgs]
    image: Text
    registry: RegistryArgs
    setup: Texts
    files: TextMap
    mounts: Mapping[str, Text | MountArgs]
    volumes: Mapping[str, Text | VolumeUseArgs]
    checkpoint: CheckpointArgs
    resume: Text
    on_done: Input[Literal["release", "keep"]]
    train: TrainArgs


class TriggersArgs(TypedDict, total=False):
    """How often a new run, and the preferred choice, was asked for: a greater number asks again."""

    rerun: Input[int]
    reclaim: Input[int]


GpuChoice = Text | Gpu | GpuArgs
"""One GPU, as in "H100:8"."""


class ClusterArgs(TypedDict, total=False):
    """A cluster's fields, all but its name and its GPU."""

    kind: Input[Literal["machine", "job", "service"]]
    nodes: Input[int]
    replicas: Input[int]
    tls: TlsArgs
    fallback: Sequence[Text | Fallback | FallbackArgs]
    spot: Input[Spot]
    capacity: Texts
    block: BlockArgs
    providers: Texts
    regions: Texts
    marketplaces: Flag
    rank: Input[Rank]
    max_price_per_hour: Number
    accept_suspect_prices: Flag
    prices: PricesArgs
    wait: Duration
    acquire: AcquireArgs
    hedge: Input[int]
    ttl: Duration
    on_ttl: Input[Literal["release", "keep"]]
    idle_after: Duration
    disk_gib: Input[int]
    ports: Input[Sequence[Input[int]]]
    expose: Input[Literal["private", "token", "public"]]
    ssh_key: Text
    labels: TextMap
    secrets: Input[Mapping[str, TextMap]]
    network: Input[Literal["default", "managed"]]
    options: Mapping[str, Settings]
    triggers: TriggersArgs
    state: Input[Literal["running", "stopped"]]
    workload: WorkloadArgs
    workdir: Text
    on_loss: Input[Literal["replace-all", "replace-node", "report"]]
    ready: Input[Literal["checked", "running"]]
    accept: Input[Literal["off", "quick", "full"]]
