"""Modal: GPU sandboxes as machines, functions as jobs and services. Owns the manifest; importing
this imports neither the client nor gRPC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.base import Console, Credentials, Limits, Manifest, Pricing, Programs, given
from providers.adapters.modal.regions import REGIONS
from providers.errors import NotConfigured
from providers.model.capability import Capabilities
from providers.model.host import Host
from providers.model.volume import VolumeSales
from providers.model.worlds import LIVE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.adapters.modal.adapter import Modal
    from providers.errors import Problem
    from providers.model.machine import Node, Setup
    from providers.model.offer import Candidate, Offer
    from providers.model.workload import Program
    from providers.model.worlds import RehearsedCloud

CAPABILITIES = Capabilities(
    provider="modal",
    kinds=frozenset({"machine", "job", "service"}),
    capacities=frozenset({"on-demand"}),
    max_nodes=1,
    keyed_buckets=frozenset({"s3"}),
    mounts=frozenset({"gs", "s3"}),
    passwords=True,
    volumes=True,
    reserves=("cpu", "memory_gib"),
    in_place=frozenset({"labels", "service"}),
    max_ttl_s=86_400,
    regions=frozenset(REGIONS),
    # Sandboxes are reached by the client's exec, and by `modal shell`.
    ssh=False,
    login=True,
    opens_ports=False,
    # By the idempotency key of the creating call, with which Modal's own client sends it again too;
    # an app by its name.
    deduplicates=True,
)


def connect(
    world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None
) -> Modal:
    """The adapter. `config`: `environment`, `profile` (of `~/.modal.toml`) and `app` (default
    `gpus`).

    Reads the credentials; the first call opens the connection.

    In a rehearsal `rehearsed` is its server, which the first call starts. Raises
    NotConfigured when the client is not installed or, live, when credentials are missing.
    """
    import time
    from importlib.util import find_spec

    if find_spec("modal") is None:
        raise NotConfigured(
            "Modal: its client is not installed; run `pip install 'gpus[modal]'`",
            provider="modal",
            code="no-client",
        )
    from providers.adapters.modal.adapter import Modal
    from providers.adapters.modal.client import Client
    from providers.adapters.modal.sign_in import Credentials, credentials

    app = config.get("app") or "gpus"
    if world == LIVE:
        return Modal(
            world,
            Client(
                credentials(config.get("profile", "")),
                environment=config.get("environment"),
                app=app,
            ),
            time.time,
        )
    cloud = given("modal", rehearsed)
    token = Credentials("ak-rehearsal", "as-rehearsal", "the rehearsal's own token")
    client = Client(
        token,
        url=cloud.endpoint,
        environment=config.get("environment") or "main",
        app=app,
    )
    return Modal(world, client, cloud.now, cloud.untouched)


def check_options(section: Mapping[str, object]) -> Sequence[Problem]:
    """Everything wrong with `options.modal` of a spec."""
    from providers.adapters.modal.options import problems

    return problems(section)


def fits(kind: str, section: Mapping[str, object], setup: Setup) -> Sequence[Problem]:
    """What of `options.modal` a cluster of this kind still needs, or cannot have."""
    from providers.adapters.modal import buckets, options
    from providers.model.secret import narrowed

    return [
        *options.fits(kind, section, setup),
        *buckets.problems(setup, narrowed(setup.secrets, "modal")),
    ]


def runs(
    program: Program, script: str, kind: str, section: Mapping[str, object]
) -> Mapping[str, object]:
    """The section with the program's image, its start-up script as the command, its port and
    volume. Pure.
    """
    from providers.adapters.modal import options

    return options.running(program, script, kind, section)


def notes_for(candidate: Candidate, setup: Setup) -> Sequence[str]:
    """Upgrades and waits that the plan should tell of; of a job its worst case, of a service its
    least and its busy hour.
    """
    from providers.adapters.modal import deployment, gpu, regions

    declared = candidate.kind != "machine"
    return (
        *(deployment.notes(candidate, setup) if declared else ()),
        *regions.notes(candidate.region),
        *gpu.notes(candidate.gpu_type, candidate.gpu_count, exact=candidate.exact),
        *(() if declared else ("Modal may take a container back at any time",)),
    )


def priced(offer: Offer, section: Mapping[str, object], kind: str) -> Offer:
    """The offer with the CPU and memory that the options reserve, at the rates of its kind; a
    service with all the containers that it may have.
    """
    from providers.adapters.modal import deployment, request

    return (
        request.priced(offer, section)
        if kind == "machine"
        else deployment.priced(offer, section, kind)
    )


def lasts_s(section: Mapping[str, object], ttl_s: int | None) -> int:
    """How long a job may take by its `timeout`, every attempt at its longest, in seconds."""
    from providers.adapters.modal import options

    chosen = options.for_kind(section, "job")
    return options.timeout_s(chosen, ttl_s) * (chosen.retries + 1)


def reference(text: str) -> str:
    """The name of one of Modal's secrets, in the environment of the settings; it must hold a
    variable of the declared name.
    """
    import re

    return (
        ""
        if re.match(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", text)
        else "the name of a Modal secret (`modal secret create NAME`) that holds it"
    )


def program(node: Node, config: Mapping[str, str]) -> Sequence[str]:
    """The program that runs a command in a sandbox: the client's own exec, in a process of its own.
    The token comes from the environment or the profile.
    """
    return (*_exec(node, config), "run")


def shell(node: Node, config: Mapping[str, str]) -> Sequence[str]:
    """The program that gives this terminal a shell in a sandbox, as `program`."""
    return (*_exec(node, config), "shell")


def port(node: Node, config: Mapping[str, str]) -> Sequence[str]:
    """The program that carries a port to one in a sandbox, as `program`: through commands there, so
    that nothing is opened to the internet.
    """
    return (*_exec(node, config), "port")


def _exec(node: Node, config: Mapping[str, str]) -> Sequence[str]:
    import sys

    # -P: a modal.py in the user's folder is not the client.
    return (
        sys.executable,
        "-P",
        "-m",
        "providers.adapters.modal.exec",
        config.get("profile", ""),
        node.handle.native_id,
    )


def host_of(_machine_type: str, _section: Mapping[str, object]) -> Host:
    """A container's own disk: its size is not asked for here, and its price holds it (modal.com,
    "Disk quota", as remembered 2026-11).
    """
    return Host(default_gib=DISK_GIB, most_gib=DISK_GIB, sized=False, disk="disk of a container")


def in_regions(free: Sequence[Offer], wanted: Sequence[str]) -> Sequence[Offer]:
    """See `providers.adapters.modal.regions`."""
    from providers.adapters.modal.regions import offers

    return offers(free, wanted)


def upgrade(gpu_type: str) -> str:
    """What Modal may give for this GPU at its price; empty for nothing else."""
    from providers.adapters.modal import gpu

    sold = gpu.SOLD.get(gpu_type)
    return sold.upgrade if sold is not None else ""


DISK_GIB = 512

PROXY = (
    "-H Modal-Key:KEY -H Modal-Secret:SECRET",
    "KEY, SECRET: a proxy token of the workspace",
)
"""Modal.com, "Proxy Auth Tokens", 2026-11."""

MANIFEST = Manifest(
    "modal",
    CAPABILITIES,
    connect,
    check_options,
    credentials=Credentials(
        environment=("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"),
        settings=("environment", "app", "profile"),
        reference=reference,
    ),
    pricing=Pricing(notes=notes_for, priced=priced, in_regions=in_regions),
    limits=Limits(fits=fits, upgrade=upgrade, host=host_of, lasts_s=lasts_s),
    console=Console(proxy=PROXY, program=program, shell=shell, port=port),
    storage=VolumeSales(name_most=33),
    programs=Programs(
        runs=runs,
        options={"command": "command", "port": "port", "image": "image"},
        bare=frozenset({"image"}),
    ),
)
