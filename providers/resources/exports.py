"""A stack's outputs of its clusters: status, place, price, and how to reach each.
Owns their words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pulumi

from providers.model.placement import Placement
from providers.model.workload import here

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.resources.cluster import GpuCluster
    from providers.resources.volume import GpuVolume
PLANNED = "planned"
"""The status that a preview shows of a cluster that is still to be launched."""
TOKEN_OUTPUT = "_token"  # noqa: S105 - how an output's name ends


def token_output(name: str) -> str:
    """The stack's output that is a service's token and nothing else, so that a shell can take it.
    No cluster's name has an underscore.
    """
    return f"{name}{TOKEN_OUTPUT}"


def tried_by(
    provider: str, urls: Sequence[str], shown: str = "", login: str = "", *, played: bool = False
) -> str:
    """The line that tries a service with a token; `shown` is the command that shows it, `login` the
    one that logs in there, which can also carry the service's port here, encrypted. Without quotes,
    which Pulumi's screen escapes. A cloud's own proxy wants what `Console.proxy` says instead.
    `--oauth2-bearer`: curl.se/docs/manpage, 2026-11.
    """
    if not urls:
        return ""
    from providers.adapters.registry import manifests

    manifest = manifests().get(provider)
    passed, meaning = manifest.console.proxy if manifest is not None else ("", "")
    notes = [meaning] if meaning else []
    address = urlsplit(urls[0])
    if address.scheme == "http" and address.port:
        local = here(address.port)
        carried = str(local) if local == address.port else f"{local}:{address.port}"
        # The address of a machine has no certificate.
        notes.append(
            "the token travels in clear"
            + (f"; encrypted: {login} -L {carried}, then localhost:{local}" if login else "")
        )
    notes += ["a rehearsal: nothing listens there"] if played else []
    key = passed or f"--oauth2-bearer $({shown})"
    return f"curl {key} {urls[0]}/v1/models" + (f" # {'; '.join(notes)}" if notes else "")


def summary(cluster: GpuCluster, *, token_output: str = "") -> pulumi.Output[dict[str, Any]]:
    """What a stack shows of a cluster: status, where, gpu, the price per hour as long as it is
    billed, what else is to be known of it, and how to reach it; of a service with a token also the
    line that tries it, by the output that holds the token. What there is nothing of is left out.
    """
    from providers.engine.record import BILLED

    place = pulumi.Output.all(cluster.provider, cluster.zone, cluster.region)
    gpu = pulumi.Output.all(cluster.gpu_type, cluster.gpu_count, cluster.nodes, cluster.capacity)
    shown = f"pulumi stack output {token_output} -s {pulumi.get_stack()} --show-secrets"
    login = f"gpus ssh {token_output.removesuffix(TOKEN_OUTPUT)} -s {pulumi.get_stack()}"
    tried = pulumi.Output.all(cluster.provider, cluster.endpoints, cluster.world).apply(
        lambda part: tried_by(
            part[0],
            part[1] or (),
            shown,
            login,
            played=_played(part[2], part[0], cluster.accounts.get(part[0], {})),
        )
    )
    fields: dict[str, pulumi.Output[Any]] = {
        "status": cluster.status,
        "where": place.apply(lambda part: _where(*part)),
        "gpu": gpu.apply(lambda part: _gpu(*part)),
        "price_usd_per_hour": (
            pulumi.Output.all(cluster.status, cluster.price_usd_per_hour).apply(
                lambda part: part[1] if part[0] in BILLED else None
            )
        ),
        "detail": cluster.detail,
        "ssh": cluster.ssh,
        "endpoints": cluster.endpoints,
        **({"try": tried} if token_output else {}),
    }
    return _known({**fields, "status": or_planned(cluster.status)})


def _where(provider: str | None, zone: str | None, region: str | None) -> str:
    placed = Placement(zone=zone or "", region=region or "")
    return " ".join(filter(None, (provider, placed.where)))


def or_planned(field: pulumi.Output[Any]) -> pulumi.Output[Any]:
    """The field; where a preview cannot know it, that it is planned."""
    return field.apply(
        lambda value: PLANNED if pulumi.contains_unknowns(value) else value, run_with_unknowns=True
    )


def _known(fields: Mapping[str, Any]) -> pulumi.Output[dict[str, Any]]:
    """The fields that are not empty and that a preview knows: Pulumi would show each other one as
    `<null>`, `[]` or `[unknown]`.
    """
    return pulumi.Output.all(**fields).apply(
        lambda found: {
            name: value
            for name, value in found.items()
            if not pulumi.contains_unknowns(value) and value not in (None, "", [])
        },
        run_with_unknowns=True,
    )


def volume_summary(volume: GpuVolume) -> pulumi.Output[dict[str, Any]]:
    """What a stack shows of a volume: what it is, where, who has it, and its price a month. What
    there is nothing of is left out.
    """
    fields = {
        **volume.declared,
        "native_id": volume.native_id,
        "users": volume.users,
        "price_usd_per_month": volume.price_usd_per_month,
    }
    return _known(fields)


def _played(world: str, provider: str, settings: Mapping[str, str]) -> bool:
    """Whether nothing of a machine of this provider runs, by the settings of its account."""
    from providers.adapters.registry import is_real
    from providers.rehearsal.nodes import mode

    return not (is_real(provider, world, settings) or mode.here(provider))


def _gpu(gpu_type: str, gpu_count: float | None, nodes: float | None, capacity: str) -> str:
    """`2 x H100:8 spot`; `none` where nothing runs."""
    return (
        f"{f'{int(nodes or 1)} x ' if (nodes or 1) > 1 else ''}{gpu_type}:{int(gpu_count or 0)}"
        f" {capacity}"
        if gpu_type
        else "none"
    )
