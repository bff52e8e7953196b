"""`GpuCluster`, a cluster of machines as a Pulumi resource. Owns what has to happen in the program:
its check, and the plan on every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pulumi

from providers.model.screen import screened
from providers.model.worlds import REHEARSAL
from providers.resources.config import account_settings, detail_of, with_files
from providers.resources.network import ManagedNetwork
from providers.resources.ownership import Ownership, delete_first, one_ownership
from providers.resources.program import end_with, made_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from providers.model.spec import Fallback
    from providers.model.worlds import WorldName
    from providers.resources.args import ClusterArgs, FallbackArgs, GpuChoice
    from providers.resources.volume import GpuVolume


class GpuCluster(pulumi.CustomResource):
    """One cluster of GPU machines, got wherever there is capacity.

    The keywords are the fields of a stack file's entry (`providers.Cluster` documents them); plain
    values, or Outputs. `ssh_key` may also be the path of a `.pub` file. `volumes` are those that
    its workload mounts. `accounts` are the settings that it was declared with. `plugin.schema`
    documents the outputs.
    """

    schema: pulumi.Output[int]
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

    def __init__(
        self,
        name: str,
        *,
        gpu: GpuChoice | Sequence[GpuChoice | Fallback | FallbackArgs] | None = None,
        world: WorldName = REHEARSAL,
        settings: Mapping[str, Mapping[str, str]] | None = None,
        ownership: Ownership | None = None,
        managed_network: ManagedNetwork | None = None,
        volumes: Sequence[GpuVolume] = (),
        opts: pulumi.ResourceOptions | None = None,
        **fields: Unpack[ClusterArgs],
    ) -> None:
        found = settings if settings is not None else account_settings(world)
        spec = {
            key: plain(value)
            for key, value in {"gpu": gpu, **cast("dict[str, Any]", fields)}.items()
            if value is not None
        }
        spec = with_files(name, spec)
        if volumes:
            from providers.engine import volume_spec

            spec = volume_spec.mounted(spec, {each.volume_name: each.declared for each in volumes})
            opts = pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(depends_on=list(volumes))
            )
        if not made_once().get("checked") and _is_plain(spec):
            # A registration that fails would leave Pulumi's own words about its end on the screen.
            problems = problems_of(world, found, {name: spec}, complete=False)
            if problems:
                end_with(screened("\n".join(problems)))
        if spec.get("network") == "managed" and managed_network is None:
            managed_network = ManagedNetwork(name, spec=spec, world=world, settings=found)
        owner = ownership or one_ownership(
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
        for output in GpuCluster.__annotations__:
            props.setdefault(output, None)
        super().__init__("gpu:index:Cluster", name, props, delete_first(opts))
        self.accounts = found
        self._arguments = {"world": world, "settings": dict(found), "cluster": name, **spec}
        self._plan: pulumi.Output[dict[str, Any] | None] | None = None
        if pulumi.runtime.is_dry_run():
            # The plugin shows it under the cluster.
            self._plan = self.plan

    @property
    def plan(self) -> pulumi.Output[dict[str, Any] | None]:
        """What the plan of this run came to, as a mapping; None where there was none. A preview
        makes it always, an `up` for whoever asks: it asks every market.
        """
        if self._plan is None:
            planned = self._planned(self._arguments)
            self._plan = pulumi.Output.from_input(cast("Any", planned))
        return self._plan

    async def _planned(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The plan, asked for once the cluster itself was checked and compared: the plugin then
        knows what it runs and shows the table.
        """
        known: dict[str, Any] = {"urn": await self.urn.future(), "detail": detail_of()}
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


def problems_of(
    world: str,
    settings: Mapping[str, Mapping[str, str]],
    specs: Mapping[str, Mapping[str, Any]],
    *,
    complete: bool = True,
) -> list[str]:
    """What the plugin finds wrong with clusters, one line each; `complete` where these are all of
    the stack. A failing registration would report one, and leave a traceback for the rest.
    """
    asked = {
        "world": world,
        "settings": dict(settings),
        "clusters": {name: dict(spec) for name, spec in specs.items()},
        "complete": complete,
        "stack": pulumi.get_stack(),
    }
    answer = cast("Any", pulumi.runtime.invoke("gpu:index:check", asked)).value or {}
    found = answer.get("problems") or {}
    return [str(line) for name in specs for line in found.get(name) or ()]


def _is_plain(value: Any) -> bool:
    """Whether all of it is known now: nothing in it is an Output or awaited."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, int, float))


def plain(value: Any) -> Any:
    """Models as mappings of what was set; everything else as it is."""
    if isinstance(value, pulumi.Output):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
