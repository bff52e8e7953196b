"""`pulumi-resource-gcp ENGINE_ADDRESS`: the stand-in plugin's process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from providers.plugin.server import serve

if TYPE_CHECKING:
    from providers.plugin.server import Service


def make(_engine: str) -> Service:
    """The servicer; it logs nothing."""
    from providers.plugin.pulumi_gcp.servicer import StandIn

    return StandIn()


sys.exit(serve(make))
