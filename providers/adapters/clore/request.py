"""The request for one server: what an order says to the market, and with it to the host's owner.
Owns what of the user's goes into it. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.clore import figures, label, market, orders, pricing
from providers.adapters.clore.options import IMAGE, OWN_IMAGES
from providers.errors import NotConfigured, Unsupported
from providers.model.ask import SPOT
from providers.model.place import Scope
from providers.model.secret import referred

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from providers.adapters.clore.options import Options
    from providers.model.machine import Order
    from providers.model.offer import Candidate

HTTP_PORT = 8888
JUPYTER_IMAGE = "cloreai/jupyter:ubuntu24.04-v2"


def body(
    order: Order,
    candidate: Candidate,
    chosen: Options,
    terms: pricing.Terms,
    per_day: Decimal,
    jupyter_token: str,
    variable: Callable[[str], str],
) -> dict[str, object]:
    """The request. Nothing in it comes from this machine's environment but what `secrets` names, if
    the hosts are trusted with it, and a token for jupyter: a host's owner can read all of it.
    Raises NotConfigured and Unsupported as `secrets` does.
    """
    ports = (
        {orders.SSH_PORT: "tcp"}
        | dict.fromkeys(order.setup.ports, "tcp")
        | dict.fromkeys(label.ports(*order.label[:2]), "tcp")
    )
    made: dict[str, object] = {
        "currency": terms.coin,
        "image": chosen.image,
        "renting_server": figures.ordered_server(candidate.machine_type),
        "type": candidate.capacity,
        "env": {**dict(chosen.env), **secrets(order, chosen, variable)},
        # Other images than the market's own bring no sshd: the market's entry point then takes the
        # place of theirs, starts one and runs `command`.
        "autossh_entrypoint": not chosen.image.startswith(OWN_IMAGES),
    }
    if chosen.jupyter:
        if not jupyter_token:
            message = "clore: wanted a token for jupyter, found none; set CLORE_JUPYTER_TOKEN"
            raise NotConfigured(
                message,
                provider=market.PROVIDER,
                code="jupyter-token",
                scopes=(Scope(market.PROVIDER),),
            )
        ports[HTTP_PORT] = "http"
        made["jupyter_token"] = jupyter_token
        made["image"] = JUPYTER_IMAGE if chosen.image == IMAGE else chosen.image
    made["ports"] = {str(port): kind for port, kind in sorted(ports.items())}
    # One key is all that an order takes: the user's goes first.
    if key := order.setup.ssh_public_key or order.setup.own_public_key:
        made["ssh_key"] = key
    if chosen.command:
        made["command"] = chosen.command
    made["spotprice" if candidate.capacity == SPOT else "required_price"] = float(per_day)
    return made


def secrets(order: Order, chosen: Options, variable: Callable[[str], str]) -> dict[str, str]:
    """The values, read when the order is sent: `variable` gives one of the environment. Raises
    NotConfigured for one that is not there, Unsupported where hosts are not trusted.
    """
    wanted = referred(order.setup.secrets)
    if wanted and not chosen.trust_marketplace:
        message = (
            "clore: wanted no secrets for a stranger's machine, found some; set"
            " options.clore.trust_marketplace, or leave Clore out"
        )
        raise Unsupported(
            message,
            provider=market.PROVIDER,
            code="secrets",
            scopes=(Scope(market.PROVIDER),),
            block_s=0.0,
        )
    names = {name: reference.removeprefix("env:") for name, reference in wanted}
    if missing := [each for each in names.values() if not variable(each)]:
        message = (
            f"clore: wanted the secrets' values in the environment, found no {', '.join(missing)};"
            " set them where pulumi runs"
        )
        raise NotConfigured(
            message, provider=market.PROVIDER, code="secrets", scopes=(Scope(market.PROVIDER),)
        )
    return {name: variable(each) for name, each in names.items()}
