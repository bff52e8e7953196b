"""A proxy in front of loopback: Pulumi's parts talk to each other there by gRPC, which takes the
proxy for them too. Owns the line about it. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROXIES, EXCEPT = ("grpc_proxy", "https_proxy", "http_proxy"), ("no_grpc_proxy", "no_proxy")
"""What gRPC reads, the first that is set of each; in lower case only (grpc,
doc/environment_variables.md, 2026-11).
"""
ADDRESS = "127.0.0.1"


def proxied(environ: Mapping[str, str]) -> str:
    """What to do where Pulumi's parts would look for each other at a proxy; empty where they do
    not.
    """
    proxy = next((name for name in PROXIES if environ.get(name)), "")
    spared = next((environ[name] for name in EXCEPT if environ.get(name)), "")
    if not proxy or {ADDRESS, "*", ".1"} & {each.strip() for each in spared.split(",")}:
        return ""
    wanted = ",".join(filter(None, (spared, ADDRESS, "localhost")))
    return (
        f"{proxy} is set and no_proxy does not spare {ADDRESS}, over which Pulumi's parts talk to"
        f" each other: `pulumi` ends in a gRPC error; export no_proxy={wanted}"
    )
