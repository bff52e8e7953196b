"""One round of a watch: look, see what an update would buy, buy it unless the cap for this hour is
reached. Owns the cap and what a round came to.

What was bought lately is counted from three memories, the highest counts: this machine's journal,
the moments of launch in the stack's state, and the backend's history of updates. So a restart
forgets nothing, and a pipeline that begins on an empty machine still counts.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from providers.engine.own_machine import of_machine
from providers.engine.record import WAITING
from providers.errors import GpusError
from providers.model.worlds import REHEARSAL
from providers.watch.idle import ended
from providers.watch.stack import Failed, Locked, Stack, State

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR_S = 3_600.0
LOCK_PAUSE_S = 5.0
UNCHANGED, CHANGED, BOUGHT, CAPPED, BUSY, FAILED, STOPPED = (
    "unchanged",
    "changed",
    "bought",
    "capped",
    "busy",
    "failed",
    "stopped",
)
"""What a round comes to. `busy`: another update of the stack did not end in time."""


class Round(NamedTuple):
    """One round, as the log has it. `bought` names the clusters that machines were got for, or
    would have been.
    """

    at: float
    result: str
    text: str
    bought: tuple[str, ...] = ()
    bought_last_hour: int = 0
    clusters: tuple[dict[str, Any], ...] = ()
    lines: tuple[str, ...] = ()
    seconds: float = 0.0
    spending: dict[str, Any] | None = None
    next_look: float = 0.0
    """When a cluster that waits has its next place asked, in epoch seconds; 0 where none waits."""

    def as_json(self) -> dict[str, Any]:
        """Plain types, for one line of the log."""
        out = self._asdict()
        for name in ("at", "next_look"):
            when = datetime.fromtimestamp(out[name], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            out[name] = when if out[name] else None
        return out


class Watch:
    """The rounds of one stack. `pause(seconds)` waits and says whether to go on; `now` is in epoch
    seconds.
    """

    def __init__(
        self,
        stack: Stack,
        most: int,
        patience_s: float,
        now: Callable[[], float],
        pause: Callable[[float], bool],
    ) -> None:
        self._stack, self._most, self._patience_s, self._now, self._pause = (
            stack,
            most,
            patience_s,
            now,
            pause,
        )
        self._money: dict[str, Any] | None = None
        self.stopping = False

    def stop(self) -> None:
        """Ends the round in order: no further command is begun, and the one under way is told to
        stop.
        """
        self.stopping = True
        self._stack.stop()

    def round(self) -> Round:
        """One round. What fails is a result, never an exception, but for what no later round could
        mend (no such stack).
        """
        began = self._now()
        while True:
            try:
                result = self._round(began)
            except Locked as error:
                # Another update is waited for, never cancelled; what it did is seen by beginning
                # anew.
                if (
                    self._now() - began < self._patience_s
                    and not self.stopping
                    and self._pause(LOCK_PAUSE_S)
                ):
                    continue
                result = Round(
                    began, BUSY, f"another update is under way, and had not ended in time: {error}"
                )
            except Failed as error:
                result = Round(began, FAILED, str(error), clusters=self._known(), lines=error.lines)
            except OSError as error:
                # A full disk may have room again in a later round.
                result = Round(began, FAILED, of_machine(error))
            break
        if self.stopping:
            result = result._replace(result=STOPPED, text=f"stopped; {result.text}")
        spending = self._money
        if spending is not None and spending["spent_usd"] > spending["max_spend_usd"]:
            sums = f"${spending['spent_usd']:,.2f} spent of ${spending['max_spend_usd']:,.2f}"
            line = f"max_spend: {sums} this month; nothing is bought, what runs goes on"
            result = result._replace(lines=(line, *result.lines))
        return result._replace(seconds=round(self._now() - began, 1), spending=spending)

    def _known(self) -> tuple[dict[str, Any], ...]:
        """The clusters after a run that failed; none where the state cannot be read either."""
        try:
            return _clusters(self._stack.state())
        except GpusError:
            return ()

    def _round(self, began: float) -> Round:
        state = self._stack.state()
        self._money = money(state)
        idle = ended(state, 2 * self._patience_s)
        if idle.ended:
            # Written into the state at once: elsewhere nobody would know why it has gone.
            self._stack.refresh()
            state = self._stack.state()
        planned = self._stack.preview()
        count = bought_since(self._stack, state, began - HOUR_S)
        held = self._held(state, planned.buys, count)
        capped = (
            f"{count} bought in the last hour, at most {self._most} may be: {', '.join(held)} waits"
        )
        if held and held == planned.buys:
            return Round(
                began, CAPPED, capped, held, count, _clusters(state), (*idle.lines, *planned.lines)
            )
        if self.stopping:
            return Round(
                began,
                STOPPED,
                "nothing was changed",
                (),
                count,
                _clusters(state),
                (*idle.lines, *planned.lines),
            )
        done = self._stack.up([each.urn for each in state.clusters if each.name in held])
        after = self._stack.state()
        lines = (*idle.lines, *([capped] if held else []), *done.lines)
        next_look = _next_look(after, held)
        launched = tuple(
            cluster.name
            for cluster in after.clusters
            if cluster.name in done.buys and _launches(cluster) - _launched(state)
        )
        if launched:
            bought = (each for each in after.clusters if each.name in launched)
            text = f"bought {', '.join(f'{each.name} ({each.where})' for each in bought)}"
            return Round(
                began,
                BOUGHT,
                text,
                launched,
                count + len(launched),
                _clusters(after),
                lines,
                next_look=next_look,
            )
        looks = _waiting(state) & _waiting(after)
        changed = ", ".join(
            f"{name} ({operation})"
            for name, operation in done.operations.items()
            if name not in looks
        )
        nothing = f"still looking for {', '.join(sorted(looks))}" if looks else "nothing to do"
        text = f"changed {changed}" if changed else nothing
        if idle.ended:
            text = (
                f"released {', '.join(idle.ended)}, which had nothing to"
                f" do{f'; {text}' if changed else ''}"
            )
        return Round(
            began,
            CHANGED if changed or idle.ended else UNCHANGED,
            text,
            (),
            count,
            _clusters(after),
            lines,
            next_look=next_look,
        )

    def _held(self, state: State, buys: tuple[str, ...], count: int) -> tuple[str, ...]:
        """Those of `buys` that the cap holds back: all, where what is missing is beyond it; else
        what waits for capacity and would be beyond it if all of that had room now.
        """
        looks = {
            each.name: each.next_look
            for each in state.clusters
            if each.status == WAITING and each.name in buys
        }
        missing = len(buys) - len(looks)
        # With nothing bought for an hour, more may be lost at once than the cap: they are bought in
        # one round.
        if missing and count + missing > self._most and (count or not self._most):
            return buys
        room = max(0, self._most - count - missing)
        late = sorted(looks, key=lambda name: looks[name])[room:]
        return tuple(name for name in buys if name in late)


def _next_look(state: State, held: tuple[str, ...]) -> float:
    """When the first place is asked again, in epoch seconds here, whatever the world's clock says;
    0 where nothing waits but what is `held`.
    """
    moments = [each.next_look for each in state.clusters if each.name not in held]
    first = min(filter(None, moments), default=0.0)
    return first - _ahead(state) if first else 0.0


def _ahead(state: State) -> float:
    """How far the world's clock is ahead: a rehearsal's may be."""
    from providers.engine.runtime.world import open_world

    if state.world != REHEARSAL:
        return 0.0
    world = open_world(state.world, {})
    try:
        return world.clock.now() - datetime.now(UTC).timestamp()
    finally:
        world.close()


def bought_since(stack: Stack, state: State, since: float) -> int:
    """Placements that were acquired since then, as far as journal, state and history know; the
    world's clock counts where it is a rehearsal's.
    """
    if not state.owner:
        return stack.updates(since)
    from providers.engine.runtime.world import open_world

    world = open_world(state.world, {})
    try:
        shift = (
            world.clock.now() - datetime.now(UTC).timestamp() if state.world == REHEARSAL else 0.0
        )
        moments = (
            [launch.launched_at for launch in world.journal.launches(state.world, state.owner)]
            if world.has_journal
            else []
        )
    except GpusError:
        moments, shift = [], 0.0
    finally:
        world.close()
    journal = sum(moment >= since + shift for moment in moments)
    held = sum(_moment(cluster.launched_at) >= since + shift for cluster in state.clusters)
    return max(journal, held, stack.updates(since))


def money(state: State) -> dict[str, Any] | None:
    """What the stack has spent this month and what is to come, in US dollars, as its state and this
    machine's journal know; None without a limit.
    """
    if state.max_spend is None or not state.owner:
        return None
    from providers.engine import budget as spending
    from providers.engine import volume_costs
    from providers.engine.runtime.world import open_world

    world = open_world(state.world, {})
    try:
        now = world.clock.now()
        known = volume_costs.of_journal(world, (state.owner,))
    except GpusError:
        return None
    finally:
        world.close()
    budget = spending.Budget(
        0, spending.merged(spending.read(state.ownership.get("spending")), known, now)
    )
    sums = budget.sums(now)
    found = {
        "month": spending.month(now),
        "max_spend_usd": state.max_spend,
        "spent_usd": sums.spent / 1e6,
        "to_come_usd": sums.running / 1e6,
    }
    return {**found, "unknown": [*sums.unknown, *sums.uncounted]}


def _launched(state: State) -> set[tuple[str, str]]:
    return {pair for cluster in state.clusters for pair in _launches(cluster)}


def _launches(cluster: Any) -> set[tuple[str, str]]:
    """What tells one purchase of a cluster from the next: each of its machines, which are others
    then.
    """
    return {(cluster.name, str(handle)) for handle in cluster.outputs.get("handles") or ()}


def _waiting(state: State) -> set[str]:
    """The clusters that wait for capacity."""
    return {cluster.name for cluster in state.clusters if cluster.status == WAITING}


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _clusters(state: State) -> tuple[dict[str, Any], ...]:
    kept = ("name", "status", "detail", "where", "price_usd_per_hour", "launched_at")
    return tuple(
        {key: value for key, value in cluster._asdict().items() if key in kept}
        for cluster in state.clusters
    )
