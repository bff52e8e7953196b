"""The one error tree. Owns every failure the product can name; imports nothing of the package but
plain records.

    GpusError                     something the user should read: what was wanted, what was found,
    what to do
    ├── SpecError                 the declaration is wrong; carries every problem at once, each with
    its path
    ├── AllFailed                 the walk ended without a machine; carries every attempt and the
    refusals
    ├── Busy                      another live run holds this cluster
    ├── TakenOver                 another run has it by now, from another home
    ├── NoHome                    the folder of what is kept between runs cannot be used: nothing is
    bought without it
    └── CloudError                one provider said no (or said nothing); `scopes` is what to leave
    alone, and how long
        ├── Unsupported           this cloud can never do it
        │   └── NotEnabled        the account has not enabled the zone or region
        ├── NotConfigured         keys are missing
        ├── BadCredentials        keys were refused
        ├── NoCapacity            none right now
        ├── QuotaExceeded         the account's limit
        ├── InsufficientFunds     the wallet is empty
        ├── OfferGone             the offer was sold or withdrawn meanwhile
        ├── PriceRose             the offer costs more than when it was listed
        ├── RateLimited           ask again later; nothing happened
        ├── Transient             a passing fault; nothing happened
        ├── OutcomeUnknown        a create may have happened; it must be found before anything else
        is bought
        ├── HalfMade              machines exist that are not what was ordered; they must be deleted
        first
        │   ├── NotWhatWasSold    another machine than the one that was ordered
        │   ├── Degraded          the machine that was ordered, slower or less sound than it should
        be
        │   └── NotReady          they are what was ordered, and were not ready within the wait:
        slow is not sold out
        └── Unclassified          a code no table knows; handled as OutcomeUnknown, and reported
        loudly

Classes follow who must act. An adapter maps a cloud's codes to them in one table; words in messages
are never matched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.machine import Attempt, Handle
    from providers.model.place import Scope


_PART_MAX = 600
"""Characters of one part of a problem: what is longer was never meant to be read on a screen."""


def printable(text: str) -> str:
    """The text on one line and without anything that a terminal would obey: whatever is not
    printable stands as its escape. Pure.
    """
    if text.isprintable():
        return text
    return "".join(
        (
            each
            if each.isprintable()
            else each.encode("unicode_escape", "surrogatepass").decode("ascii")
        )
        for each in text
    )


def shortened(text: str, most: int) -> str:
    """At most so many characters. What is cut off is cut between words: half a link or half a path
    would lead somewhere else. Pure.
    """
    if len(text) <= most:
        return text
    whole, space, _ = text[: most - 2].rpartition(" ")
    # One word that long is no text: there, its beginning is all there is.
    return f"{whole}..." if space and len(whole) >= most // 2 else f"{text[: most - 3]}..."


_MESSAGE_MAX = 240
_WORDS_MIN = 80
"""Characters of a provider's words that are shown in any case."""


def with_words(message: str, words: str) -> str:
    """`message (its own words: ...)`: ours whole, since the remedy stands in it, then the
    provider's in what is left of a message's length. Pure.
    """
    if not words:
        return message
    return (
        f"{message} (its own words:"
        f" {shortened(' '.join(words.split()), max(_WORDS_MIN, _MESSAGE_MAX - len(message)))})"
    )


def in_words(path: str) -> str:
    """A property path as people say it: `the second fallback` for `fallback[1]`, `train: spot of
    the first fallback` for `train.fallback[0].spot`, only `providers` for `providers[0]`.
    """
    if "[" not in path:
        return path
    import re

    path = re.sub(r"\b(providers|regions)\[\d+\]$", r"\1", path)
    found = re.fullmatch(
        r"((?P<whole>.+)\.)?(?P<list>fallback|gpu)\[(?P<at>\d)\](\.(?P<rest>.+))?",
        path,
    )
    if found is None:
        return path
    what = "fallback" if found["list"] == "fallback" else "choice of gpu"
    rest = f"{found['rest']} of " if found["rest"] else ""
    whole = f"{found['whole']}: " if found["whole"] else ""
    return f"{whole}{rest}the {_ORDINALS[int(found['at'])]} {what}"


_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)


class Problem(NamedTuple):
    """One fault of a declaration. `path` is the property path, as in `fallback[1].gpu`. As text it
    is one line of printable characters, whatever was found.
    """

    path: str
    wanted: str
    found: str
    todo: str = ""

    def __str__(self) -> str:
        path, wanted, found, todo = (
            printable(part if len(part) <= _PART_MAX else f"{part[:_PART_MAX]}...") for part in self
        )
        text = f"wanted {wanted}, found {found}"
        text = f"{in_words(path)}: {text}" if path else text
        return f"{text}; {todo}" if todo else text


def too_large(path: str, what: str, size: int, most: int, todo: str) -> Problem | None:
    """The problem of a start-up script, or the like, beyond what its cloud takes. Pure."""
    return (
        Problem(path, f"{what} of at most {most:,} bytes", f"{size:,}", todo)
        if size > most
        else None
    )


class GpusError(Exception):
    """Something a user should read, in one clean line or a few."""


class SpecError(GpusError):
    """The declaration is wrong. `problems` holds all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class AllFailed(GpusError):
    """No candidate could be acquired. `attempts` are in the order they were made; `refusals` count
    rejected offers by rule. `final`: another try would end alike, until something is corrected.
    """

    def __init__(
        self,
        message: str,
        attempts: Sequence[Attempt] = (),
        refusals: Sequence[tuple[str, int]] = (),
        *,
        final: bool = False,
    ) -> None:
        self.final = final
        self.attempts: tuple[Attempt, ...] = tuple(attempts)
        self.refusals: tuple[tuple[str, int], ...] = tuple(refusals)
        super().__init__(message)


class Busy(GpusError):
    """Another live process holds the lease of this cluster."""


class TakenOver(GpusError):
    """Another run has the cluster by now, from another home: this one ends, and leaves nothing of
    its own.
    """


class NoHome(GpusError, OSError):
    """The folder of everything kept between runs cannot be used. An OSError too: whoever only looks
    goes on without it.
    """


class CloudError(GpusError):
    """A provider's refusal or failure.

    `code` is the cloud's own code. `scopes` says what is refused (widest that applies); empty means
    the offers of the attempt. `block_s` is how long to leave that alone, in seconds (0: not at
    all). `hints` are zones the cloud itself named as worth trying first.

    `message` says what was wanted, what was found and what to do, in our words, and is never cut.
    `words` are the provider's own, which stand last and are all that is shortened.
    """

    default_block_s: ClassVar[float] = 0.0

    def __init__(
        self,
        message: str,
        *,
        provider: str,
        code: str = "",
        scopes: Sequence[Scope] = (),
        block_s: float | None = None,
        hints: Sequence[str] = (),
        words: str = "",
    ) -> None:
        self.message, self.words = message, words
        self.provider = provider
        self.code = code
        self.scopes: tuple[Scope, ...] = tuple(scopes)
        self.block_s = self.default_block_s if block_s is None else block_s
        self.hints: tuple[str, ...] = tuple(hints)
        super().__init__(with_words(message, words))

    @property
    def closed(self) -> bool:
        """Whether the account can't use its scopes until somebody changes the account: no shortage
        that passes.
        """
        return False


class Unsupported(CloudError):
    """This cloud can never do it there; a day passes before it is asked again."""

    default_block_s = 86_400.0


class NotEnabled(Unsupported):
    """The account has not enabled the zone or the region. The message says how to."""

    @property
    def closed(self) -> bool:
        return True


class NotConfigured(CloudError):
    """Credentials or a project are missing."""


class BadCredentials(CloudError):
    """Credentials or rights were refused."""


class NoCapacity(CloudError):
    """Out of capacity right now. Ten minutes: stockouts last hours, but they move."""

    default_block_s = 600.0


class QuotaExceeded(CloudError):
    """The account's limit. `metric` and `limit` as the cloud names them; blocked for this run and
    an hour.
    """

    default_block_s = 3_600.0

    def __init__(self, message: str, *, metric: str = "", limit: str = "", **rest: object) -> None:
        self.metric = metric
        self.limit = limit
        super().__init__(message, **rest)  # type: ignore[arg-type]

    @property
    def closed(self) -> bool:
        return self.limit == "0"


class InsufficientFunds(CloudError):
    """The wallet or the billing account cannot pay."""


class OfferGone(CloudError):
    """Sold or withdrawn between listing and buying."""

    default_block_s = 600.0


class PriceRose(CloudError):
    """Costs more than when it was listed."""


class RateLimited(CloudError):
    """The cloud asks for patience. `retry_after_s` if it said how long."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0, **rest: object) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message, **rest)  # type: ignore[arg-type]


class Transient(CloudError):
    """A passing fault of a call that changed nothing."""


class OutcomeUnknown(CloudError):
    """A creating call may have been carried out. `token` is the request token to settle it by."""

    def __init__(self, message: str, *, token: str = "", **rest: object) -> None:
        self.token = token
        super().__init__(message, **rest)  # type: ignore[arg-type]


class HalfMade(CloudError):
    """Machines exist that are not what was ordered. `handles` names them: delete and confirm before
    going on.
    """

    def __init__(self, message: str, *, handles: Sequence[Handle] = (), **rest: object) -> None:
        self.handles: tuple[Handle, ...] = tuple(handles)
        super().__init__(message, **rest)  # type: ignore[arg-type]


class NotWhatWasSold(HalfMade):
    """What was delivered is another machine than the one that was ordered. The place is not asked
    again for a day.
    """

    default_block_s = 86_400.0


class Degraded(HalfMade):
    """What was delivered is the machine that was ordered, slower or less sound than it should be.
    Only acceptance says so.
    """


class NotReady(HalfMade):
    """Machines started as ordered, and they or what they run were not ready within the wait: no
    lack of capacity, so no place is blocked.
    """


class Unclassified(OutcomeUnknown):
    """A code that no table knows."""
