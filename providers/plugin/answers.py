"""What is told of a cluster: its outputs before the purchase, after it, after an edit or a look;
and that it is there, but not yet as declared.

Owns what an earlier state adds to what was seen. Asks no cloud; may read a service's token from
this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from pulumi.runtime.proto import provider_pb2, status_pb2

from providers.errors import GpusError, Problem, printable
from providers.model.screen import screened
from providers.plugin import outputs, properties

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from providers.engine.record import ClusterRecord
    from providers.model.machine import Setup


def failures(problems: Iterable[Problem]) -> list[provider_pb2.CheckFailure]:
    """Problems as the protocol says them: the property, and the rest of the sentence."""
    return [
        provider_pb2.CheckFailure(
            property=printable(problem.path), reason=str(problem._replace(path=""))
        )
        for problem in problems
    ]


def unplaced(values: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs before the purchase: what depends on the place is not known."""
    return {
        "schema": outputs.SCHEMA,
        "world": values["world"],
        **dict.fromkeys(outputs.PLACED, properties.UNKNOWN),
    }


def written(
    held: ClusterRecord,
    setup: Setup | None,
    values: Mapping[str, Any],
    before: Mapping[str, Any] | None,
) -> Any:
    """The outputs as the protocol's struct; `before` is what the state holds, None at a purchase.
    May read one file.
    """
    token = _token(held, values, before or {})
    out = outputs.write(
        held, setup, public=values.get("expose") in ("public", "token"), token=token
    )
    if before is not None:
        # What only the purchase knew: neither a look nor an edit knows the attempts, nor an address
        # that it did not ask for.
        for name in ("attempts", "ssh", "endpoints"):
            same = before.get("generation") == held.generation and (
                name == "attempts"
                or (not held.machines and held.status == before.get("status") == "running")
            )
            if same and not out[name] and before.get(name):
                out[name] = before[name]
    return properties.encode(out, ("token",) if token else ())


async def or_emptied(work: Awaitable[ClusterRecord]) -> ClusterRecord:
    """The work's result; of a replacement that lost both machines the record of that, which a state
    keeps.
    """
    from providers.engine.reconcile.lost_both import Emptied

    try:
        return await work
    except Emptied as error:
        return error.held


def half_made(held: ClusterRecord, struct: Any, values: Mapping[str, Any]) -> bytes:
    """The protocol's way to say that it exists, and what is still to be done: the status that goes
    with a failed call, ready to be sent.
    """
    return init_failed(outputs.resource_id(held), struct, held.reasons, values)


def init_failed(
    resource: str, struct: Any, reasons: Sequence[str], values: Mapping[str, Any]
) -> bytes:
    """The same for any resource, by its id."""
    status = status_pb2.Status(
        code=grpc.StatusCode.FAILED_PRECONDITION.value[0], message=screened(reasons[0])
    )
    detail = provider_pb2.ErrorResourceInitFailed(
        id=resource,
        properties=struct,
        reasons=[screened(reason) for reason in reasons],
        inputs=properties.encode(values),
    )
    status.details.add().Pack(detail)
    return bytes(status.SerializeToString())


def _token(held: ClusterRecord, values: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """The token of a service whose callers need one: as the state has it, else as this machine
    keeps it; empty for everything else.
    """
    from providers.engine import keys, record

    if values.get("expose") != "token" or not record.works(held):
        return ""
    if before.get("generation") == held.generation and before.get("token"):
        return str(before["token"])
    try:
        return keys.token(held.world, held.owner, held.cluster)
    except GpusError:
        return ""
