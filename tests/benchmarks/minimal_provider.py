"""The smallest provider that Pulumi's own Python SDK hosts: a resource that is what it was asked to
be. What a stack of our clusters is compared with. `python -m` with the engine's address starts it.
"""

from __future__ import annotations

import sys

from pulumi.provider.experimental.provider import (
    CheckRequest,
    CheckResponse,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    DiffRequest,
    DiffResponse,
    Provider,
)
from pulumi.provider.experimental.server import main


class Minimal(Provider):
    """Creates nothing anywhere."""

    async def check(self, request: CheckRequest) -> CheckResponse:
        return CheckResponse(request.new_inputs)

    async def diff(self, _request: DiffRequest) -> DiffResponse:
        return DiffResponse(changes=False)

    async def create(self, request: CreateRequest) -> CreateResponse:
        return CreateResponse(request.urn, request.properties)

    async def delete(self, _request: DeleteRequest) -> None:
        return


if __name__ == "__main__":
    main(sys.argv[1:], "0.1.0", Minimal())
