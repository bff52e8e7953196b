"""The Pulumi resources that programs use: `GpuCluster`, `Ownership`, `ManagedNetwork`, and
`declare()` for a stack that is all configuration.

Owns what has to happen in the program: the one Ownership before any cluster, delete before replace,
the plan on every run, a managed network as its provider's own resources. Must not import the planner, the
engine or pydantic: the plugin does that work, and every preview pays for this import.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import pulumi

from providers.adapters.base import NetworkRequest
from providers.model.screen import screened
from providers.model.stack import RESERVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

REHEARSAL, LIVE = "rehearsal", "live"
OUTPUTS = (
    "schema",
    "status",
    "detail",
    "provider",
    "region",
    "zone",
    "machine_type",
    "gpu_type",
    "gpu_count",
    "capacity",
    "price_usd_per_hour",
    "price_as_of",
    "price_source",
    "attempts",
    "ssh",
    "endpoints",
    "handles",
    "launched_at",
    "ends_at",
    "generation",
    "token",
)
"""The outputs of a cluster that are no inputs; `plugin.schema` documents each."""


class Ownership(pulumi.CustomResource):
    """The stack's own mark on everything it makes. `owner_id` is random, made once; deleting it
    settles and removes all that bears it.

    `max_spend` is the most that its clusters together may spend in a calendar month (UTC), US
    dollars: it counts what they do.
    """

    owner_id: pulumi.Output[str]
    world: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        world: str = REHEARSAL,
        settings: Mapping[str, Mapping[str, str]] | None = None,
        max_spend: float | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        self.limit_usd = (
            max_spend  # under a name of its own: what is named as an input becomes an Output
        )
        props = {
            "world": world,
            "settings": dict(settings or {}),
            "max_spend": max_spend,
            "owner_id": None,
        }
        super().__init__("gpu:index:Ownership", name, props, _delete_first(opts))


class GpuCluster(pulumi.CustomResource):
    """One cluster of GPU machines, got wherever there is capacity.

    The keywords are the fields of a stack file's entry (`providers.Cluster` documents them); plain
    values, or Outputs. `ssh_key` may also be the path of a `.pub` file. `plan` is what the plan of
    this run came to, as a mapping (None where there was none).
    """

    world: pulumi.Output[str]
    status: pulumi.Output[str]
    detail: pulumi.Output[str]
    provider: pulumi.Output[str]
    region: pulumi.Output[str]
    zone: pulumi.Output[str]
    machine_type: pulumi.Output[str]
    gpu_type: pulumi.Output[str]
    gpu_count: pulumi.Output[int]
    nodes: pulumi.Output[int]
    capacity: pulumi.Output[str]
    price_usd_per_hour: pulumi.Output[float | None]
    price_as_of: pulumi.Output[str]
    price_source: pulumi.Output[str]
    attempts: pulumi.Output[Sequence[str]]
    ssh: pulumi.Output[str]
    endpoints: pulumi.Output[Sequence[str]]
    handles: pulumi.Output[Sequence[str]]
    launched_at: pulumi.Output[str]
    ends_at: pulumi.Output[str]
    generation: pulumi.Output[str]
    token: pulumi.Output[str]
    plan: pulumi.Output[dict[str, Any] | None]

    def __init__(
        self,
        name: str,
        *,
        gpu: Any = None,
        world: str = REHEARSAL,
        settings: Mapping[str, Mapping[str, str]] | None = None,
        ownership: Ownership | None = None,
        managed_network: ManagedNetwork | None = None,
        opts: pulumi.ResourceOptions | None = None,
        **fields: Any,
    ) -> None:
        found = settings if settings is not None else account_settings(world)
        spec = {
            key: _plain(value) for key, value in {"gpu": gpu, **fields}.items() if value is not None
        }
        if isinstance(spec.get("ssh_key"), str):
            spec["ssh_key"] = _key(name, spec["ssh_key"])
        spec = _files(name, spec)
        if spec.get("network") == "managed" and managed_network is None:
            managed_network = ManagedNetwork(name, spec=spec, world=world, settings=found)
        owner = ownership or _one_ownership(
            world, found, [] if managed_network is None else [managed_network]
        )
        props: dict[str, Any] = {
            "world": world,
            "owner": owner.owner_id,
            "cluster": name,
            "settings": dict(found),
            **spec,
        }
        if owner.limit_usd is not None:
            props["max_spend"] = owner.limit_usd
        if managed_network is not None:
            props["network_links"] = managed_network.links
        for output in (*OUTPUTS, "nodes"):
            props.setdefault(output, None)
        super().__init__("gpu:index:Cluster", name, props, _delete_first(opts))
        self.plan = pulumi.Output.from_input(
            cast(
                "Any",
                self._planned({"world": world, "settings": dict(found), "cluster": name, **spec}),
            )
        )

    async def _planned(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The plan, asked for once the cluster itself was checked and compared: the plugin then
        knows what it runs and shows the table.
        """
        known: dict[str, Any] = {"urn": await self.urn.future()}
        for key, value in arguments.items():
            given = pulumi.Output.from_input(value)
            if await given.is_known() and not await given.is_secret():
                known[key] = await given.future()
        try:
            options = pulumi.InvokeOptions(parent=self)
            return cast(
                "dict[str, Any]",
                await pulumi.runtime.invoke_async("gpu:index:plan", known, options),
            )
        except Exception as error:
            # A plan that cannot be made says why; the declaration itself stands or falls by its own
            # check.
            pulumi.log.warn(f"no plan: {error}", self)
            return None


class ManagedNetwork(pulumi.ComponentResource):
    """A network of one cluster's own, where its provider can make one: a subnet in each of its
    regions, all traffic among the nodes, and its ports from everywhere if it is exposed. `links` is
    what the cluster needs of it.
    """

    links: dict[str, pulumi.Output[str]]

    def __init__(
        self,
        name: str,
        *,
        spec: Mapping[str, Any],
        world: str,
        settings: Mapping[str, Mapping[str, str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        regions = spec.get("regions")
        if (
            not isinstance(regions, (list, tuple))
            or not all(isinstance(region, str) for region in regions)
            or not regions
        ):
            raise pulumi.RunError(
                f"{name}.regions: wanted the regions that network: managed makes subnets in, found"
                f" {regions!r}; list them, as in [us-central1]"
            )
        from providers.adapters import registry

        able = registry.networked()
        allowed = spec.get("providers") or able
        provider = next((each for each in able if each in allowed), "")
        if not isinstance(allowed, (list, tuple)) or not provider:
            raise pulumi.RunError(
                f"{name}.network: wanted {' or '.join(able)} among the providers, found"
                f" {spec.get('providers')!r}; only there network: managed can be made"
            )
        ports = spec.get("ports") or _served(spec)
        if not isinstance(ports, (list, tuple)) or not all(
            isinstance(port, (int, float)) for port in ports
        ):
            raise pulumi.RunError(f"{name}.ports: wanted a list such as [8000], found {ports!r}")
        super().__init__("gpus:index:ManagedNetwork", f"{name}-network", {}, opts)
        declared = registry.manifests()[provider].network
        public = spec.get("expose") in ("public", "token")
        request = NetworkRequest(
            name=name,
            world=world,
            settings=settings.get(provider, {}),
            regions=regions,
            ports=tuple(int(port) for port in ports) if public else (),
            parent=self,
            made=_made(),
        )
        self.links = dict(declared(request)) if declared is not None else {}
        self.register_outputs({"links": self.links})


def _served(spec: Mapping[str, Any]) -> tuple[int, ...]:
    """The ports that a workload listens at."""
    workload = spec.get("workload")
    if not isinstance(workload, dict):
        return ()
    from providers.workloads.launch.recipes import listens

    tasks = [task for task in workload.get("services") or (workload,) if isinstance(task, dict)]
    stated = [
        (str(task.get("launcher")), port)
        for task in tasks
        if isinstance(port := task.get("port") or 0, (int, float))
    ]
    return tuple(found for launcher, port in stated if (found := listens(launcher, int(port))))


def declare() -> dict[str, GpuCluster]:
    """Declares every cluster of the stack's configuration (`gpus:world`, `gpus:clusters`) and
    exports what each came to; by name.

    All that is wrong with the configuration is told at once, before anything is declared, and ends
    the program.
    """
    _end_quietly()
    _check_keys()
    config = pulumi.Config("gpus")
    world = config.get("world")
    if world not in (REHEARSAL, LIVE):
        found = "nothing" if world is None else repr(world)
        raise pulumi.RunError(
            f"gpus:world: wanted {REHEARSAL} or {LIVE}, found {found}; a world is set, never"
            f" inferred from credentials: pulumi config set gpus:world {REHEARSAL}"
        )
    clusters = _clusters(config)
    settings = account_settings(world)
    specs: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for name, entry in clusters.items():
        spec = {"gpu": entry} if isinstance(entry, str) else entry
        if not isinstance(spec, dict):
            problems.append(
                f'{name}: wanted a mapping such as {{gpu: "H100:8"}}, found {_kind(entry)}'
            )
            continue
        ours = sorted(set(spec) & RESERVED)
        if ours:
            problems.append(
                f"{name}: wanted a field of a cluster, found {', '.join(map(repr, ours))}"
            )
        specs[name] = {
            key: value for key, value in spec.items() if key not in ours and value is not None
        }
        try:
            specs[name] = _files(name, specs[name])
        except pulumi.RunError as error:
            problems.append(str(error))
            del specs[name]["workload"]
        try:
            specs[name].update(
                {
                    key: _key(name, value)
                    for key, value in specs[name].items()
                    if key == "ssh_key" and isinstance(value, str)
                }
            )
        except pulumi.RunError as error:
            problems.append(str(error))
            del specs[name]["ssh_key"]
    problems += _checked(world, settings, specs)
    if problems:
        raise pulumi.RunError(
            screened("\n".join(f"gpus:clusters.{problem}" for problem in problems))
        )
    networks = {
        name: ManagedNetwork(name, spec=spec, world=world, settings=settings)
        for name, spec in specs.items()
        if spec.get("network") == "managed"
    }
    owner = _one_ownership(world, settings, list(networks.values()))
    made: dict[str, GpuCluster] = {}
    for name, spec in specs.items():
        made[name] = GpuCluster(
            name,
            world=world,
            settings=settings,
            ownership=owner,
            managed_network=networks.get(name),
            **spec,
        )
        with_token = spec.get("expose") == "token"
        pulumi.export(
            name, summary(made[name], token_output=token_output(name) if with_token else "")
        )
        if with_token:
            pulumi.export(token_output(name), made[name].token)
    return made


def _checked(
    world: str, settings: Mapping[str, Mapping[str, str]], specs: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """What the plugin finds wrong with the clusters, one line each: a failing registration would
    tell of one, and leave a traceback for the rest.
    """
    asked = {
        "world": world,
        "settings": dict(settings),
        "clusters": {name: dict(spec) for name, spec in specs.items()},
    }
    answer = cast("Any", pulumi.runtime.invoke("gpu:index:check", asked)).value or {}
    found = answer.get("problems") or {}
    return [str(line) for name in specs for line in found.get(name) or ()]


_COSTS = frozenset({"running", "starting", "pending", "degraded", "unsettled"})
"""The statuses in which machines are billed at their price. What is stopped or ended costs its
disks at most, and nobody knows what.
"""


TOKEN_OUTPUT = "_token"  # noqa: S105 - how an output's name ends


def token_output(name: str) -> str:
    """The stack's output that is a service's token and nothing else, so that a shell can take it.
    No cluster's name has an underscore.
    """
    return f"{name}{TOKEN_OUTPUT}"


def tried_by(
    provider: str, urls: Sequence[str], shown: str = "", login: str = "", *, rehearsed: bool = False
) -> str:
    """The line that tries a service with a token; `shown` is the command that shows it, `login` the
    one that logs in there, which can also carry the service's port here, encrypted. Without quotes,
    which Pulumi's screen escapes. A cloud's own proxy wants what `Console.proxy` says instead.
    `--oauth2-bearer`: curl.se/docs/manpage, 2026-11.
    """
    if not urls:
        return ""
    from providers.adapters.registry import manifests

    manifest = manifests().get(provider)
    passed, meaning = manifest.console.proxy if manifest is not None else ("", "")
    notes = [meaning] if meaning else []
    address = urlsplit(urls[0])
    if address.scheme == "http":
        # The address of a machine has no certificate.
        notes.append(
            "the token travels in clear"
            + (
                f"; encrypted: {login} -L {address.port}, then localhost:{address.port}"
                if login
                else ""
            )
        )
    notes += ["a rehearsal: nothing listens there"] if rehearsed else []
    key = passed or f"--oauth2-bearer $({shown})"
    return f"curl {key} {urls[0]}/v1/models" + (f" # {'; '.join(notes)}" if notes else "")


def summary(cluster: GpuCluster, *, token_output: str = "") -> dict[str, pulumi.Output[Any]]:
    """What a stack shows of a cluster: status, where, gpu, the price per hour as long as it is
    billed, what else is to be known of it, and how to reach it; of a service with a token also the
    line that tries it, by the output that holds the token.
    """
    place = pulumi.Output.all(cluster.provider, cluster.zone, cluster.region)
    gpu = pulumi.Output.all(cluster.gpu_type, cluster.gpu_count, cluster.nodes, cluster.capacity)
    shown = f"pulumi stack output {token_output} -s {pulumi.get_stack()} --show-secrets"
    login = f"gpus ssh {token_output.removesuffix(TOKEN_OUTPUT)} -s {pulumi.get_stack()}"
    tried = pulumi.Output.all(cluster.provider, cluster.endpoints, cluster.world).apply(
        lambda part: tried_by(part[0], part[1] or (), shown, login, rehearsed=part[2] == REHEARSAL)
    )
    return {
        "status": cluster.status,
        "where": place.apply(lambda part: " ".join(filter(None, (part[0], part[1] or part[2])))),
        "gpu": gpu.apply(lambda part: _gpu(*part)),
        "price_usd_per_hour": (
            pulumi.Output.all(cluster.status, cluster.price_usd_per_hour).apply(
                lambda part: part[1] if part[0] in _COSTS else None
            )
        ),
        "detail": cluster.detail.apply(lambda text: text or None),
        "ssh": cluster.ssh,
        "endpoints": cluster.endpoints,
        **({"try": tried} if token_output else {}),
    }


def _gpu(gpu_type: str, gpu_count: float | None, nodes: float | None, capacity: str) -> str:
    """`2 x H100:8 spot`; `none` where nothing runs."""
    return (
        f"{f'{int(nodes or 1)} x ' if (nodes or 1) > 1 else ''}{gpu_type}:{int(gpu_count or 0)}"
        f" {capacity}"
        if gpu_type
        else "none"
    )


def account_settings(world: str) -> dict[str, dict[str, str]]:
    """What the accounts need, from the stack's configuration: for each adapter the settings that its
    manifest lists, live also from the environment where it says so.
    """
    from pulumi.runtime.config import get_config_secret_keys_env

    from providers.adapters.registry import manifests

    listed = {
        f"{name}:{key}"
        for name, manifest in manifests().items()
        for key in manifest.credentials.settings
    }
    for key in sorted(listed & set(get_config_secret_keys_env())):
        raise pulumi.RunError(
            f"{key}: wanted plain text, found a secret; it would stand in the state as plain text,"
            " so set it without --secret"
        )
    found = {}
    for name, manifest in manifests().items():
        credentials = manifest.credentials
        if not credentials.settings:
            continue
        config = pulumi.Config(name)
        section = {
            key: value for key in credentials.settings if (value := config.get(key)) is not None
        }
        if world == LIVE:
            for key, variable in credentials.from_environment:
                if not section.get(key) and (text := os.environ.get(variable)):
                    section[key] = text
        if section:
            found[name] = section
    return found


def _delete_first(opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    # Diff's own flag is not asked under `--replace` and taint; an adopted machine would then be
    # deleted after the new one was made of it.
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(delete_before_replace=True))


_SHOWN = 32
"""The exit code by which Pulumi's Python runner says that what there is to say has been said."""


def _end_quietly() -> None:
    """Ends the program without a traceback when the engine interrupts it: it does so in the middle
    of a call, as soon as a resource has failed, and after Ctrl-C. The engine has the reason on the
    screen by then. A handler of the program's own stays.
    """
    import contextlib
    import signal
    import sys

    def end(_signal: int, _frame: object) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(_SHOWN)

    if not any(word.endswith("pulumi-language-python-exec") for word in sys.orig_argv):
        return  # a program inside another one (a test, the Automation API): its host decides
    found = signal.getsignal(signal.SIGINT)
    if found is signal.default_int_handler or getattr(found, "__module__", "").startswith(
        "asyncio"
    ):
        with contextlib.suppress(
            ValueError
        ):  # not the main thread: a host of its own, with its own ways
            signal.signal(signal.SIGINT, end)


def _made() -> dict[str, Any]:
    """What this run of the program has made once for all clusters; kept on the stack, since one
    process may run several programs.
    """
    root = pulumi.runtime.settings.get_root_resource()
    if root is None:
        return {}
    return cast("dict[str, Any]", root.__dict__.setdefault("_gpus_made", {}))


def _one_ownership(
    world: str, settings: Mapping[str, Mapping[str, str]], networks: Sequence[ManagedNetwork] = ()
) -> Ownership:
    made = _made()
    if "ownership" not in made:
        _end_quietly()
        # Made after the networks, so that it goes before them: what it finds and deletes may still
        # use one.
        opts = pulumi.ResourceOptions(depends_on=list(networks))
        made["world"], made["ownership"] = (
            world,
            Ownership(
                "ownership", world=world, settings=settings, max_spend=_max_spend(), opts=opts
            ),
        )
    if made["world"] != world:
        raise pulumi.RunError(
            f"world: wanted one world for all clusters of a stack, found {made['world']} and"
            f" {world}; make a stack for each"
        )
    return cast("Ownership", made["ownership"])


def _max_spend() -> float | None:
    """`gpus:max_spend` of the stack's configuration: US dollars a calendar month for all its
    clusters together.
    """
    text = pulumi.Config("gpus").get("max_spend")
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1e9:
        raise pulumi.RunError(
            f"gpus:max_spend: wanted US dollars a calendar month, more than 0, found {text!r}"
        )
    return found


def _check_keys() -> None:
    from pulumi.runtime.config import CONFIG, get_config_secret_keys_env

    from providers.engine import validate

    if unknown := validate.unknown_keys(CONFIG.get(), get_config_secret_keys_env()):
        raise pulumi.RunError("\n".join(map(str, unknown)))
    if "gpus:clusters" in get_config_secret_keys_env():
        raise pulumi.RunError(
            "gpus:clusters: wanted no secret inside, found one; it would stand in the state as"
            " plain text, so give it a key of its own"
        )


_LEVELS_MAX = 50


def _clusters(config: pulumi.Config) -> dict[str, Any]:
    from providers.model import foreign

    text = config.get("clusters")
    is_deep = False
    try:
        clusters = None if text is None else foreign.loads(text)
    except foreign.TooDeepError:
        clusters, is_deep = None, True
    except ValueError:
        clusters = text
    if is_deep or foreign.too_deep(clusters, _LEVELS_MAX):
        raise pulumi.RunError(
            f"gpus:clusters: wanted at most {_LEVELS_MAX} levels of lists and mappings, found more"
        )
    if not isinstance(clusters, dict) or not clusters:
        found = (
            "nothing"
            if clusters is None
            else "an empty mapping"
            if clusters == {}
            else _kind(clusters)
        )
        raise pulumi.RunError(
            "gpus:clusters: wanted a map of clusters by name, such as {train: {gpu:"
            f' "H100:8"}}}}, found {found}'
        )
    return clusters


def _kind(value: Any) -> str:
    names = {
        list: "a list",
        str: f"the text {str(value)[:80]!r}",
        bool: "a truth value",
        int: f"the number {value}",
        float: f"the number {value}",
    }
    return names.get(type(value), "nothing" if value is None else type(value).__name__)


def _plain(value: Any) -> Any:
    """Models as mappings of what was set; everything else as it is."""
    if isinstance(value, pulumi.Output):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _root() -> Path:
    """The project's folder: as the engine says, else the nearest one above that holds a Pulumi.yaml
    (older language hosts do not say it, and run the program in the folder that `main` names).
    """
    from pathlib import Path

    if told := pulumi.runtime.settings.get_root_directory():
        return Path(told)
    here = Path.cwd()
    return next(
        (
            each
            for each in (here, *here.parents)
            if (each / "Pulumi.yaml").is_file() or (each / "Pulumi.yml").is_file()
        ),
        here,
    )


def _files(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The entry with the content of its workload's local files, relative to the project's folder.
    What holds content already is left as it is.
    """
    from providers.errors import SpecError
    from providers.model.workload import with_files

    try:
        return cast("dict[str, Any]", with_files(spec, _root()))
    except SpecError as error:
        raise pulumi.RunError(f"{name}.{error.problems[0]}") from None


def _key(name: str, text: str) -> str:
    """The public key itself, where a path of a `.pub` file is given; `~` is the home, other paths
    start at the project's folder.
    """
    if not text.strip().endswith(".pub") or " " in text.strip():
        return text
    from pathlib import Path

    from providers.model import regular

    try:
        return (
            regular.content(_root() / Path(text.strip()).expanduser(), regular.KEY_MAX)
            .decode()
            .strip()
        )
    except (OSError, UnicodeDecodeError, RuntimeError) as error:  # RuntimeError: a home of nobody
        raise pulumi.RunError(
            f"{name}.ssh_key: wanted a readable public key file, found {error}"
        ) from None
