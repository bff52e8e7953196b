"""The plan of each cluster in this process: made once its check and diff have come, shown, and kept
for the invoke that returns it.

Owns what a preview has to know of a cluster beforehand, and when a cluster without a place ends the
call. Buys nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from providers.errors import GpusError
from providers.model.screen import log_width
from providers.plugin import grpc_errors, siblings
from providers.plugin.preview import CREATE, REPLACE, UPDATE, PreviewContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.engine.runtime.world import World
    from providers.planner.plan import Plan
    from providers.plugin.diff import Verdict
    from providers.plugin.inputs import Checked
    from providers.plugin.session import Session


class Plans:
    """What is known of the clusters of one process, by URN, and their plans."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._contexts: dict[str, PreviewContext] = {}

    def of(self, urn: str) -> PreviewContext:
        """What is known of a cluster; an empty context before its check."""
        return self._contexts.get(urn, PreviewContext())

    def note(self, urn: str, **fields: Any) -> None:
        """Adds to what is known of a cluster."""
        self._contexts[urn] = self.of(urn)._replace(**fields)

    def start(self, urn: str, checked: Checked) -> None:
        """Starts anew with a checked cluster. What it replaces is kept: before it replaces, the
        engine checks once more.
        """
        previous = self.of(urn)
        kept = previous if previous.action == REPLACE else PreviewContext()
        owner, spec = checked.values.get("owner"), checked.spec
        self._contexts[urn] = kept._replace(
            ask=None if spec is None else spec.ask(),
            setup=None if spec is None else spec.setup(),
            plan=None,
            owner=owner if isinstance(owner, str) else "",
            inputs=checked.values,
        )

    async def make(self, urn: str, values: Mapping[str, Any]) -> None:
        """Makes and keeps the plan of a checked cluster. Raises GpusError where nothing is
        acceptable; then the table is shown too.
        """
        from providers.engine.market import planning
        from providers.engine.reconcile.condition import OVER, Condition, condition_of
        from providers.planner import render
        from providers.plugin import inputs, preview

        context, name = self.of(urn), str(values.get("cluster"))
        if context.ask is None or context.plan is not None:
            return
        settings = inputs.settings_of(values)
        replaces = (
            context.action == REPLACE
            and context.record is not None
            and condition_of(context.record) not in (*OVER, Condition.PREEMPTED)
        )
        world = str(values["world"])
        ask = await asyncio.to_thread(
            planning.with_paid, context.ask, context.owner, name, world=world, settings=settings
        )
        plan = await asyncio.to_thread(
            planning.walked,
            ask,
            setup=context.setup,
            world=world,
            settings=settings,
            replaces=replaces,
        )
        planning.presentable(plan, name)
        if not plan.candidates:
            self._session.log("info", urn, render.as_text(plan, log_width(), title=name))
            raise GpusError(preview.refusal(name, plan, context))
        setup = context.setup
        assert setup is not None
        budgets, of_plan = self._session.budgets, (plan.ask, setup, plan)

        async def told(world: World) -> tuple[Plan, str, str]:
            fit, limit = await budgets.previewed(world, values, *of_plan)
            return fit, limit, await budgets.hedged(world, values, *of_plan)

        plan, limit, hedge = await self._session.in_world(urn, str(values["world"]), values, told)
        self.note(urn, plan=plan, limit=limit, hedge=hedge)

    async def before_create(self, urn: str, values: Mapping[str, Any]) -> None:
        """Finds what a creation replaces, where the engine did not ask for the difference, and
        makes the plan.
        """
        from providers.plugin import inputs, preview

        context = self.of(urn)
        if context.action != REPLACE:
            settings = inputs.settings_of(values)
            found = await asyncio.to_thread(
                preview.standing,
                str(values["world"]),
                settings,
                context.owner,
                str(values["cluster"]),
            )
            record, action = found or (None, CREATE)
            self.note(
                urn,
                action=action,
                record=record,
                reason="asked for (--replace, or tainted)" if action == REPLACE else "",
            )
        await self.make(urn, values)

    async def note_deleted(self, urn: str, values: Mapping[str, Any]) -> None:
        """Notes where what is to be replaced is deleted already: a run was cut short between the
        deletion and the purchase.
        """
        from providers.plugin import inputs, preview

        record = self.of(urn).record
        if record is not None and await asyncio.to_thread(
            preview.deleted, str(values["world"]), inputs.settings_of(values), record
        ):
            self.note(urn, record=None)

    async def kept_if_unserved(
        self, urn: str, values: Mapping[str, Any], verdict: Verdict
    ) -> Verdict:
        """The verdict, without a replacement where no place can serve it: the update then says so.
        An error here would end the other clusters' run.
        """
        try:
            await self.make(urn, values)
        except GpusError as error:
            self.note(urn, action=UPDATE, refused=error)
            return verdict._replace(
                changes=tuple(change._replace(replaces=False) for change in verdict.changes)
            )
        return verdict

    async def refuse(
        self, urn: str, values: Mapping[str, Any], error: Exception, *, preview: bool
    ) -> None:
        """Raises the error, after the other clusters have been begun. The preview of an `up` only
        shows it: the others are to be bought.
        """
        session, name = self._session, str(values.get("cluster"))
        fails = siblings.only_previews() if preview else True
        if fails is False:
            session.log("error", urn, grpc_errors.line(error))
            return
        if fails is None:
            session.log(
                "info",
                urn,
                "a preview that finds no place fails; `pulumi up --skip-preview` acquires the other"
                " clusters",
            )
        progress = session.shown if preview else session.begun
        progress.begin(name)
        await progress.others(name, session.declared)
        raise error

    async def answer(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of the invoke `plan`. Raises SpecError for a bad declaration."""
        from providers.plugin import preview

        urn = str(arguments.get("urn", ""))
        context = self._contexts.get(urn)
        if context is not None and context.ask is None and "gpu" not in arguments:
            text = "the GPU is not known yet, so neither are places and prices"
            return {"text": text, "candidates": 0, "change": "unknown", "warnings": []}
        if context is not None and not context.limit and context.inputs:
            values = context.inputs
            limit = await self._session.in_world(
                urn,
                str(values["world"]),
                values,
                lambda world: self._session.budgets.standing(world, values),
            )
            context = context._replace(limit=limit)
        return await asyncio.to_thread(
            preview.answer, arguments, context, tuple(self._session.declared)
        )
