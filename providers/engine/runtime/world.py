"""One world, opened: its adapters, its clock, its journal, and where lines for the user go.

Owns connecting (lazily, once) and the threads that cloud calls run in. Must not import a cloud's
SDK, asyncio or sqlite3 until they are needed: a plan opens a world too.
"""

from __future__ import annotations

import os
import threading
import time
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from providers.engine.runtime import deadlines
from providers.engine.runtime.pace import Pace
from providers.errors import (
    GpusError,
    NotConfigured,
    OutcomeUnknown,
    Problem,
    RateLimited,
    SpecError,
    Transient,
    Unclassified,
)
from providers.home import REHEARSAL_FILE
from providers.model.worlds import LIVE, REHEARSAL, WORLDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future, ThreadPoolExecutor

    from providers.adapters.base import Adapter, Manifest
    from providers.adapters.guard import Cloud
    from providers.catalog.table import OfferTable
    from providers.engine.journal.journal import Journal
    from providers.engine.journal.shared_lease import SharedLeases
    from providers.engine.record import Account
    from providers.engine.runtime.clock import Clock
    from providers.engine.runtime.deadlines import T
    from providers.model.worlds import RehearsedCloud


CALLS_AT_ONCE = 16
HELD_AT_ONCE = 32
"""So many answers a cloud may hold at once: each takes a thread and a connection."""
TURN_SLICE_S = 1.0
"""A stop is noticed within so long, while a turn is waited for."""
CALL_LIMIT_S = 120.0
"""Real seconds after which a single cloud call counts as lost. Every adapter sets shorter ones on
its sockets; this is the last resort.
"""


_NO_ACCOUNT = frozenset({"endpoint", "advice"})
"""Settings that say where a cloud is reached and what it is asked, not whose account it is; an
address of this machine changes with every run.
"""


def _account(section: Mapping[str, str]) -> Account:
    return tuple(sorted((key, value) for key, value in section.items() if key not in _NO_ACCOUNT))


def _is_sqlite(error: Exception) -> bool:
    return any(base.__module__ == "sqlite3" for base in type(error).__mro__)


def _of_the_store(error: Exception) -> bool:
    return isinstance(error, OSError) or _is_sqlite(error)


def _unusable(error: Exception) -> str:
    """The rehearsal's own file or folder cannot be used: one line with what to do."""
    from providers.home import home, remedy

    if (
        isinstance(error, OSError)
        and error.filename
        and str(error.filename).endswith(REHEARSAL_FILE)
    ):
        return f"{error.filename}: wanted the rehearsal's state, found that {error.strerror}"
    if isinstance(error, OSError):
        return f"wanted the rehearsal's state, found {error}"
    try:
        where = str(home() / REHEARSAL_FILE)
    except OSError:
        where = REHEARSAL_FILE
    todo = remedy(
        error, "move it away to begin afresh (what is rehearsed there is lost; it costs nothing)"
    )
    return f"{where}: wanted the rehearsal's state, found {error}; {todo}"


def _quiet(_severity: str, _text: str) -> None:
    """Where lines go when nobody listens."""


def _in_no_way(report: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """The same, and what it raises is dropped: a closed pipe, a full disk or a caller's own mistake
    must not end a purchase or a release half-way.
    """
    import contextlib

    def told(severity: str, text: str) -> None:
        with contextlib.suppress(Exception):
            report(severity, text)

    return told


def _aside(function: Callable[..., T], *arguments: Any) -> Future[T]:
    """The call in a thread of its own, which ends with the process though its cloud
    never answers.
    """
    from concurrent.futures import Future

    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="gpus-look", daemon=True).start()
    return future


def _unheard() -> None:
    """A call was given up: what its client's own loop says of it when the process ends is nobody's
    message.
    """
    import logging

    logging.getLogger("asyncio").setLevel(logging.CRITICAL)


def connected(manifest: Manifest, world: str, config: Mapping[str, str]) -> Adapter:
    """The adapter of a world by its manifest, not guarded; in a rehearsal it is given the server of
    its cloud. Raises NotConfigured.
    """
    given: list[RehearsedCloud] = []
    if world == REHEARSAL:
        from providers.rehearsal import start

        cloud = start.rehearsed(manifest.name)
        given = [] if cloud is None else [cloud]
    adapter: Adapter = manifest.connect(world, config, *given)
    return adapter


class World:
    """Rehearsal or live. Made by `open_world`; safe from several threads.

    `stop` is the user's orderly Ctrl-C: once set, no further attempt is started, and what is half
    made is released.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Mapping[str, str]],
        report: Callable[[str, str], None],
        manifests: Mapping[str, Manifest],
        offers: OfferTable | None,
        clock: Clock | None,
        call_limit_s: float,
        share: Callable[[], SharedLeases | None],
    ) -> None:
        self.name = name
        self.settings = settings
        self.report = _in_no_way(report)
        self.manifests = manifests
        self.offers = offers
        """The bundled catalog, unless one was given."""
        self.stop = threading.Event()
        self.call_limit_s = call_limit_s
        self._clock = clock
        self._share = share
        self._lock = threading.RLock()
        self._adapters: dict[str, Cloud] = {}
        self._elsewhere: dict[tuple[str, Account], Cloud] = {}
        self._refusals: dict[str, NotConfigured] = {}
        self._connecting: dict[str, threading.Lock] = {}
        self._journal: Journal | None = None
        self._drafted = False
        self._holds = threading.BoundedSemaphore(HELD_AT_ONCE)
        self._paces: dict[str, Pace] = {}
        self._pool: ThreadPoolExecutor | None = None

    def is_played(self, provider: str, account: Account | None = None) -> bool:
        """Whether this provider's machines are stand-ins: in a rehearsal, all but the user's own.
        Connects as `adapter` does.
        """
        return self.name == REHEARSAL and self.adapter(provider, account).world == REHEARSAL

    @property
    def clock(self) -> Clock:
        """The real clock, or the rehearsal's: see `providers.engine.runtime.clock`."""
        with self._lock:
            if self._clock is None:
                from providers.engine.runtime.clock import RealClock, RehearsalClock

                if self.name == REHEARSAL:
                    from providers.rehearsal.store import open_store

                    try:
                        self._clock = RehearsalClock(open_store())
                    except Exception as error:
                        if _of_the_store(error):
                            raise GpusError(_unusable(error)) from error
                        raise
                else:
                    self._clock = RealClock()
            return self._clock

    @cached_property
    def leases(self) -> SharedLeases | None:
        """Who has a cluster, for all homes that share a backend; None where nothing can tell."""
        return self._share()

    @property
    def journal(self) -> Journal:
        """The journal of this machine's user. Raises GpusError when it can't be read or written."""
        with self._lock:
            if self._journal is None:
                from providers.engine.journal.journal import Journal
                from providers.home import JOURNAL_FILE, home

                self._journal = Journal(home() / JOURNAL_FILE)
            return self._journal

    @property
    def has_journal(self) -> bool:
        """False where nothing was ever bought by this user: then reading the journal would only
        make an empty one.
        """
        from providers.home import JOURNAL_FILE, home

        if self._drafted:
            return True
        try:
            return (home() / JOURNAL_FILE).exists()
        except OSError:
            return False

    def with_journal(self, journal: Journal) -> World:
        """The same world, its adapters, clock and threads, with another journal. Only the original
        is to be closed.
        """
        import copy

        self.begin(int)  # the threads are shared, so they must be there
        other = copy.copy(self)
        other._journal, other._drafted = journal, True  # noqa: SLF001 - of this class
        return other

    def is_at_work(self, owner: str, cluster: str) -> bool:
        """Whether another live process has the cluster: in this home, or on this machine by a
        shared lease.
        """
        shared = self.leases is not None and self.leases.is_at_work(self.name, owner, cluster)
        return shared or self.journal.holder(self.name, owner, cluster) is not None

    def account(self, provider: str) -> Account:
        """Where something bought at this provider now is: its settings, with what its adapter found
        for itself (a default project).

        Where an endpoint is, is no part of it. Connects as `adapter` does.
        """
        found = self.adapter(provider).account
        return _account({**self.settings.get(provider, {}), **found})

    def adapter(self, provider: str, account: Account | None = None) -> Cloud:
        """The connected adapter; connects on first use, once, which may take a local look for
        credentials. Raises NotConfigured.

        With an `account`, the adapter of that one, whatever the settings say now: what was bought
        there is looked up there. A refusal is remembered: credentials that appear later are seen by
        the next process.
        """
        section = self.settings.get(provider, {})
        if account is None or account == _account(section):
            return self._default(provider)
        try:
            if account == self.account(provider):
                return self._default(provider)
        except NotConfigured:
            if provider not in self.manifests:
                raise
        with self._connecting.setdefault(provider, threading.Lock()):
            key = (provider, account)
            if key not in self._elsewhere:
                here = {name: value for name, value in section.items() if name in _NO_ACCOUNT}
                self._elsewhere[key] = self._connect(provider, {**here, **dict(account)})
            return self._elsewhere[key]

    def _default(self, provider: str) -> Cloud:
        if provider not in self.manifests:
            known = ", ".join(sorted(self.manifests)) or "none"
            raise NotConfigured(
                f"{provider}: there is no adapter for it (there are: {known})", provider=provider
            )
        with self._connecting.setdefault(provider, threading.Lock()):
            if provider in self._refusals:
                raise self._refusals[provider]
            if provider not in self._adapters:
                try:
                    self._adapters[provider] = self._connect(
                        provider, self.settings.get(provider, {})
                    )
                except NotConfigured as error:
                    self._refusals[provider] = error
                    raise
            return self._adapters[provider]

    def _connect(self, provider: str, config: Mapping[str, str]) -> Cloud:
        from providers.adapters.guard import Cloud

        try:
            return Cloud(connected(self.manifests[provider], self.name, config))
        except GpusError:
            raise
        except ImportError as error:
            raise NotConfigured(
                f"{provider}: its client library is missing ({error})", provider=provider
            ) from error
        except Exception as error:
            if self.name == REHEARSAL and _of_the_store(error):
                raise GpusError(_unusable(error)) from error
            raise

    def begin(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Starts a blocking call in the world's own threads; one of a bounded look in a thread that
        holds up nobody's end.
        """
        if deadlines.bounded():
            return _aside(function, *arguments)
        with self._lock:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor

                self._pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="gpus-cloud")
            return self._pool.submit(function, *arguments)

    def begin_held(self, function: Callable[..., T], *arguments: Any) -> Future[T] | None:
        """Starts a call whose answer the cloud may hold for minutes, in a thread that holds up
        nobody's end; None where as many are held as may be.
        """
        if not self._holds.acquire(blocking=False):
            return None
        future = _aside(function, *arguments)
        future.add_done_callback(lambda _: self._holds.release())
        return future

    async def call(self, provider: str, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a blocking, reading or repeatable cloud call, run in the world's own
        threads.

        Every failure is of the error tree: what no adapter classified is Unclassified, a call that
        never ends is Transient.
        """
        await self.turn(provider)
        return await self.wait_for(provider, self.begin(function, *arguments))

    async def turn(self, provider: str) -> None:
        """Waits until a provider may be asked again that has said that it is asked too often."""
        if (pace := self._paces.get(provider)) is None:
            return
        wait_s = min(pace.turn(self.clock.now()), deadlines.left_s())
        while wait_s > 0 and not self.stop.is_set():
            await self.clock.sleep(min(wait_s, TURN_SLICE_S))
            wait_s -= TURN_SLICE_S

    async def wait_for(self, provider: str, future: Future[T], *, creates: bool = False) -> T:
        """As `call`, of a call already begun. One that `creates` and never ends is OutcomeUnknown;
        it is left to end by itself.
        """
        import asyncio

        began, answered = time.monotonic(), False
        limit_s, named_s = deadlines.limit_s(self.call_limit_s)
        waiting = asyncio.wrap_future(future)
        # A call that was given up may still fail later; that is nobody's surprise.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            result = await asyncio.wait_for(asyncio.shield(waiting), limit_s)
        except TimeoutError as error:
            _unheard()
            message = f"{provider}: no answer within {named_s:.0f}s"
            raise (OutcomeUnknown if creates else Transient)(
                message, provider=provider, code=deadlines.NO_ANSWER
            ) from error
        except GpusError as error:
            answered = not isinstance(error, (Transient, OutcomeUnknown))
            if isinstance(error, RateLimited):
                self._paces.setdefault(provider, Pace()).refused(self.clock.now())
            raise
        except Exception as error:
            if self.name == REHEARSAL and _is_sqlite(error):
                raise GpusError(_unusable(error)) from error
            code = type(error).__name__
            raise Unclassified(
                f"{provider}: unexpected {code}; please report it",
                words=str(error),
                provider=provider,
                code=code,
            ) from error
        else:
            answered = True
            if provider in self._paces:
                self._paces[provider].answered()
            return result
        finally:
            deadlines.waited(time.monotonic() - began, answered=answered)

    def close(self) -> None:
        """Lets go of threads and files. Calls under way end by themselves."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(wait=False)
                self._pool = None
            if self._journal is not None:
                self._journal.close()
                self._journal = None


def _with_environment(
    world: str,
    settings: Mapping[str, Mapping[str, str]],
    manifests: Mapping[str, Manifest],
) -> dict[str, Mapping[str, str]]:
    """The settings, live with those that stand only in the environment, by whatever command."""
    found = dict(settings)
    for name, manifest in manifests.items() if world == LIVE else ():
        for key, variable in manifest.credentials.from_environment:
            if not found.get(name, {}).get(key) and (text := os.environ.get(variable)):
                found[name] = {**found.get(name, {}), key: text}
    return found


def open_world(
    name: str,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    report: Callable[[str, str], None] | None = None,
    *,
    manifests: Mapping[str, Manifest] | None = None,
    offers: OfferTable | None = None,
    clock: Clock | None = None,
    call_limit_s: float = CALL_LIMIT_S,
    share: Callable[[], SharedLeases | None] = lambda: None,
) -> World:
    """Opens a world: nothing is connected, read or written yet. Raises SpecError for an unknown
    name.

    `settings` is provider -> its configuration, strings only. `report(severity, text)` gets a line
    for the user, severity `progress` (passing), `info`, `warning` or `error`. `share` finds who
    tells of other homes, at the first question. The rest replaces what is otherwise found:
    adapters, catalog, clock.
    """
    if name not in WORLDS:
        raise SpecError([Problem("world", f"{REHEARSAL} or {LIVE}", repr(name))])
    say = report or _quiet
    if manifests is None:
        from providers.adapters import registry

        manifests = registry.manifests()
        for line in registry.problems():
            say("warning", line)
    return World(
        name,
        MappingProxyType(_with_environment(name, settings or {}, manifests)),
        say,
        manifests,
        offers,
        clock,
        call_limit_s,
        share,
    )
