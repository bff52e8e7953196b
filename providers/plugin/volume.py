"""The Volume's half of the protocol: check, diff, create, read, update, delete.

Owns what its deletion does: the data goes only where the resource said `delete_data: true`; else
the volume stays, and a line says so, with its price. What is made or grown has to fit into
`max_spend`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from pulumi.runtime.proto import provider_pb2

from providers.errors import GpusError
from providers.plugin import budget, copies, diff, grpc_errors, orphans
from providers.plugin.properties import UNKNOWN, decode, encode
from providers.plugin.session import in_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from providers.engine.record import Account
    from providers.engine.runtime.world import World
    from providers.errors import Problem
    from providers.model.machine import Handle
    from providers.model.volume import Volume, VolumeSpec
    from providers.plugin.diff import Verdict
    from providers.plugin.properties import Properties
    from providers.plugin.session import Session


class Volumes:
    """The volumes of one process. A `request` is the protocol's message."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def check(
        self, _urn: str, properties: Properties
    ) -> tuple[dict[str, Any], tuple[Problem, ...]]:
        """The inputs with the defaults filled in, and all that is wrong with them."""
        from providers.engine import volume_spec
        from providers.plugin import inputs

        known = properties.known()
        problems = inputs.own_problems(known, properties.unknown, ("world", "owner", "volume"))
        spec, found = volume_spec.read(str(known.get("volume")), known)
        filled = {} if spec is None else {"type": spec.type} if spec.type else {}
        return {**properties.values, **filled}, (*problems, *found)

    async def diff(self, request: Any) -> Verdict:
        """What an edit changes. Raises SpecError for one that would lose the data."""
        from providers.engine import volumes

        old, new = decode(request.old_inputs).values, decode(request.news).values
        changed = [
            key
            for key in sorted({*old, *new})
            if old.get(key) != new.get(key) and key not in ("settings", "max_spend")
        ]
        moved = "world" in changed
        if not moved:
            state = decode(request.olds).values
            volumes.refuse(spec_of({**old, "size_gib": state.get("size_gib", 0)}), spec_of(new))
        return diff.Verdict(
            tuple(diff.Change(key, "update", replaces=moved and key == "world") for key in changed),
            "another world: the volume of the old one is not deleted" if moved else "",
        )

    async def create(self, request: Any) -> tuple[str, Any]:
        """(id, outputs); at preview no id."""
        urn, values = request.urn, decode(request.properties).values
        if request.preview:
            await self._previewed(urn, values)
            return "", encode({**declared(values), **priced(values), "native_id": UNKNOWN})
        from providers.engine import volumes
        from providers.model.volume import stack_id

        spec, owner = spec_of(values), str(values["owner"])
        stack, project = orphans.stack_of(urn)

        async def work(world: World) -> tuple[Volume, Account]:
            await copies.refuse_copy(world, owner, urn)
            former = await asyncio.to_thread(former_owners, world, project, stack)
            account = await asyncio.to_thread(world.account, spec.provider)
            title = f"volume {spec.name} of the Pulumi stack {project}/{stack}"
            async with self._paid(world, values):
                found = await volumes.create(
                    world, spec, owner, stack_id(project, stack), former, title
                )
            return found, account

        made, account = await self._session.under_way(urn, values, work)
        return resource_id(str(values["world"]), made.handle), encode(
            outputs(made, values, account)
        )

    async def read(self, request: Any) -> Any:
        """The response to a refresh; an empty one where its cloud says that it does not exist."""
        from providers.engine import volumes

        state, values = decode(request.properties).values, decode(request.inputs).values
        world, handle = parse_id(request.id)
        account = account_of(state)
        try:
            found = await in_time(
                self._session.in_world(
                    request.urn,
                    world,
                    values,
                    lambda opened: volumes.read(
                        opened, handle, account, str(values.get("owner") or "")
                    ),
                ),
                world,
            )
        except Exception as error:
            if not state:
                raise
            # What is not known stays as it was.
            return grpc_errors.kept(self._session.log, request, error)
        if found is None:
            if not state:
                raise GpusError(
                    f"{request.id}: wanted a volume, found none; write"
                    f" WORLD/PROVIDER/NATIVE_ID, as `gpus sweep` lists it"
                )
            self._session.log(
                "warning", request.urn, f"{handle.native_id} is gone, and its data with it"
            )
            return provider_pb2.ReadResponse()
        if not values:
            values = imported(found, world)
        return provider_pb2.ReadResponse(
            id=request.id,
            properties=encode(outputs(found, {**values, **declared(state)}, account)),
            inputs=encode(values),
        )

    async def update(self, request: Any) -> Any:
        """The outputs after an edit; at preview those of the state, with the new price."""
        from providers.engine import volumes

        values, state = decode(request.news).values, decode(request.olds).values
        grows = int(values.get("size_gib") or 0) > int(state.get("size_gib") or 0)
        if request.preview:
            await self._previewed(request.urn, values, is_bought=grows)
            return encode({**state, **priced(values)})
        world, handle = parse_id(request.id)
        account, spec, owner = account_of(state), spec_of(values), str(values["owner"])

        async def work(opened: World) -> Volume:
            await copies.refuse_copy(opened, owner, request.urn)
            async with self._paid(opened, values, is_bought=grows):
                return await volumes.update(opened, handle, spec, owner, account)

        after = await self._session.under_way(request.urn, values, work, world=world)
        return encode(outputs(after, values, account))

    async def delete(self, request: Any) -> None:
        """Deletes the volume where `delete_data` was declared; else it stays, and is billed on."""
        values, state = decode(request.old_inputs).values, decode(request.properties).values
        world, handle = parse_id(request.id)
        if values.get("delete_data") is not True:
            await self._kept(request.urn, world, handle, {**values, **declared(state)}, state)
            self._session.log(
                "warning",
                request.urn,
                f"kept, and billed on: {told({**values, **declared(state)})},"
                f" {handle.native_id}. The next `up` that declares it takes it over, with its data;"
                " to delete it, declare it with delete_data: true, run `up`, then remove it",
            )
            return
        from providers.engine import volumes

        async def work(opened: World) -> None:
            owner = str(state.get("owner") or values["owner"])
            await asyncio.to_thread(copies.refuse, opened, owner, request.urn)
            await volumes.delete(opened, str(values["volume"]), handle, account_of(state))

        await self._session.under_way(request.urn, values, work, world=world)

    async def _kept(
        self,
        urn: str,
        world: str,
        handle: Handle,
        values: Mapping[str, Any],
        state: Mapping[str, Any],
    ) -> None:
        """Writes down that the volume costs on. A journal that can't be written keeps no stack."""
        from providers.engine import volume_costs

        known = (str(values["owner"]), spec_of(values), handle.native_id, account_of(state))
        with suppress(GpusError):
            await self._session.in_world(
                urn, world, values, lambda opened: volume_costs.keep(opened, *known)
            )

    async def _previewed(
        self, urn: str, values: Mapping[str, Any], *, is_bought: bool = True
    ) -> None:
        """Says what a volume would cost. Raises GpusError where that does not fit."""
        world = str(values["world"])

        async def fits(opened: World) -> str:
            return await self._affordable(opened, values)

        limited = is_bought and budget.limit(values) is not None
        line = await self._session.in_world(urn, world, values, fits) if limited else ""
        self._session.log("info", urn, f"{told(values)}{f'; max_spend {line}' if line else ''}")

    async def _affordable(self, world: World, values: Mapping[str, Any]) -> str:
        """The arithmetic under the stack's limit; empty without one, and where nothing more is
        paid. Raises GpusError where it does not fit.
        """
        from providers.engine import volume_costs

        limit, spec = await self._session.budgets.of(world, values), spec_of(values)
        if limit is None:
            return ""
        costs = volume_costs.spell(world, "", spec)
        return volume_costs.afford(limit, spec, costs.micro_usd, costs.began_at)

    @asynccontextmanager
    async def _paid(
        self, world: World, values: Mapping[str, Any], *, is_bought: bool = True
    ) -> AsyncIterator[None]:
        """What makes a volume, or grows one: within the limit, and counted after it however it
        ended.
        """
        from providers.engine import volume_costs

        if is_bought:
            await self._affordable(world, values)
        try:
            yield
        finally:
            limit = await self._session.budgets.of(world, values)
            if limit is not None:
                with suppress(GpusError):
                    known = await asyncio.to_thread(
                        volume_costs.of_journal, world, (str(values["owner"]),)
                    )
                    volume_costs.learn(limit, known, spec_of(values), world.clock.now())


def former_owners(world: World, project: str, stack: str) -> tuple[str, ...]:
    """Every owner that this stack has had in the present backend, as far as this machine's journal
    knows. A like-named stack of another backend is another one: what it has is not this one's.
    """
    from providers.engine.journal import backend

    if not world.has_journal:
        return ()
    here = backend.current()
    return tuple(
        known.owner
        for known in world.journal.owners(world.name)
        if (known.project, known.stack, known.backend) == (project, stack, here)
    )


def resource_id(world: str, handle: Handle) -> str:
    """`live/gcp/projects/P/zones/Z/disks/N`."""
    return f"{world}/{handle.provider}/{handle.native_id}"


def parse_id(resource: str) -> tuple[str, Handle]:
    """(world, the volume). Raises GpusError for anything else."""
    from providers.model.machine import Handle
    from providers.model.worlds import WORLDS

    world, _, rest = resource.partition("/")
    provider, _, native = rest.partition("/")
    if world not in WORLDS or not provider or not native:
        raise GpusError(f"{resource!r} is no volume's id: wanted WORLD/PROVIDER/NATIVE_ID")
    return world, Handle(provider, native)


def spec_of(values: Mapping[str, Any]) -> VolumeSpec:
    """The volume that checked inputs declare."""
    from providers.engine.market.mounting import zones
    from providers.model.volume import VolumeSpec

    provider, place = str(values.get("provider")), str(values.get("place") or "")
    return VolumeSpec(
        str(values.get("volume")),
        provider,
        place,
        int(values.get("size_gib") or 0),
        str(values.get("type") or ""),
        zones(provider).get(place, ""),
    )


def account_of(state: Mapping[str, Any]) -> Account | None:
    """The account that it was made in."""
    from providers.engine.record import account_in

    return account_in(state.get("account"))


def told(values: Mapping[str, Any]) -> str:
    """`checkpoints: 500 GiB pd-balanced at gcp us-central1-a, $50.00/month (...)`."""
    from providers.catalog import volumes

    spec = spec_of(values)
    return f"{spec.name}: {spec}, {volumes.words(spec)}"


def priced(values: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs about its price; none where no source has one."""
    from providers.catalog import volumes

    spec = spec_of(values)
    found = volumes.price(spec)
    if found is None:
        return {}
    total = found.per_month(spec.size_gib)
    return {
        **({} if total is None else {"price_usd_per_month": total / 1e6}),
        "price_as_of": found.as_of,
        "price_source": found.source,
    }


def declared(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of inputs or outputs what says which volume it is."""
    names = ("world", "owner", "volume", "provider", "place", "size_gib", "type")
    return {name: values[name] for name in names if values.get(name) is not None}


def outputs(found: Volume, values: Mapping[str, Any], account: Account | None) -> dict[str, Any]:
    """A Volume's outputs."""
    from providers.engine.record import account_out

    spec = found.spec
    seen = {**declared(values), "owner": found.owner or values.get("owner")}
    if spec.size_gib:
        seen["size_gib"] = spec.size_gib
    return {
        **seen,
        **priced(seen),
        "native_id": found.handle.native_id,
        "status": found.status,
        "users": list(found.users),
        **({} if account is None else {"account": account_out(account)}),
    }


def imported(found: Volume, world: str) -> dict[str, Any]:
    """Inputs that declare exactly this."""
    spec = found.spec
    values = {
        "world": world,
        "owner": found.owner or diff.STRAY,
        "volume": spec.name,
        "provider": spec.provider,
        "place": spec.place,
        "size_gib": spec.size_gib,
        "type": spec.type,
    }
    return {key: value for key, value in values.items() if value}
