"""`ManagedNetwork`: a network of one cluster, made of its provider's resources. Owns who declares
it; its layout is the adapter's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi

from providers.adapters.base import NetworkRequest
from providers.resources.program import end_with, made_once

if TYPE_CHECKING:
    from collections.abc import Mapping


class ManagedNetwork(pulumi.ComponentResource):
    """A network of one cluster's own, where its provider can make one: a subnet in each of its
    regions, all traffic among the nodes, and its ports from everywhere if it is exposed. `links` is
    what the cluster needs of it.
    """

    links: dict[str, pulumi.Output[str]]

    def __init__(
        self,
        name: str,
        *,
        spec: Mapping[str, Any],
        world: str,
        settings: Mapping[str, Mapping[str, str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        regions = spec.get("regions")
        if (
            not isinstance(regions, (list, tuple))
            or not all(isinstance(region, str) for region in regions)
            or not regions
        ):
            end_with(
                f"{name}.regions: wanted the regions that network: managed makes subnets in, found"
                f" {regions!r}; list them, as in [us-central1]"
            )
        from providers.adapters import registry

        able = registry.networked()
        allowed = spec.get("providers") or able
        provider = next((each for each in able if each in allowed), "")
        if not isinstance(allowed, (list, tuple)) or not provider:
            end_with(
                f"{name}.network: wanted {' or '.join(able)} among the providers, found"
                f" {spec.get('providers')!r}; only there network: managed can be made"
            )
        ports = spec.get("ports") or _served(spec)
        if not isinstance(ports, (list, tuple)) or not all(
            isinstance(port, (int, float)) for port in ports
        ):
            end_with(f"{name}.ports: wanted a list such as [8000], found {ports!r}")
        super().__init__("gpus:index:ManagedNetwork", f"{name}-network", {}, opts)
        declared = registry.manifests()[provider].declare_network
        public = spec.get("expose") in ("public", "token")
        request = NetworkRequest(
            name=name,
            world=world,
            settings=settings.get(provider, {}),
            regions=regions,
            ports=tuple(int(port) for port in ports) if public else (),
            parent=self,
            made=made_once(),
        )
        self.links = dict(declared(request)) if declared is not None else {}
        self.register_outputs({"links": self.links})


def _served(spec: Mapping[str, Any]) -> tuple[int, ...]:
    """The ports at which a workload is reached."""
    workload = spec.get("workload")
    if not isinstance(workload, dict):
        return ()
    if spec.get("replicas") is not None:
        from providers.workloads.launch import proxy

        return (proxy.port(tls=spec.get("tls") is not None),)
    from providers.workloads.launch.recipes import listens

    tasks = [task for task in workload.get("services") or (workload,) if isinstance(task, dict)]
    stated = [
        (str(task.get("launcher")), port)
        for task in tasks
        if isinstance(port := task.get("port") or 0, (int, float))
    ]
    return tuple(found for launcher, port in stated if (found := listens(launcher, int(port))))
