"""What is asked of Modal for a job or a service: one app with one function, as plain values. Owns
the compilation, what is written on the app, its money, and what of it can drift; pure, imports no
client.

An app serves one order: its name holds the order's token, so that the same order always meets the
same app.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from providers.adapters.modal import gpu, request
from providers.adapters.modal.buckets import BucketMount, bucket_mounts
from providers.adapters.modal.gpu import PROVIDER
from providers.adapters.modal.options import Options, fits, for_kind, problems, timeout_s
from providers.errors import Unsupported
from providers.model import duration, foreign
from providers.model.money import HOURS_PER_MONTH, dollars, per_hour, usd
from providers.model.note import Costs, Stops
from providers.model.offer import AT_MOST
from providers.model.place import Scope
from providers.model.secret import REGISTRY_PASSWORD, referred, without_registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from providers.model.machine import Order, Setup
    from providers.model.offer import Candidate, Offer
    from providers.model.volume_mount import VolumeMount

JOB, SERVICE = "job", "service"
FUNCTION = {JOB: "run", SERVICE: "serve"}
"""The one function of an app, by kind."""
APP_PREFIX = "gpus-"
KIND, CALL, FACETS, CONTENT = "gpus-kind", "gpus-call", "gpus-facets", "gpus-content"
"""Tags of an app: its kind, a job's call, what can be read back and compared, and a digest of all
that was declared.
"""
TAG_MAX = 63

CPU_MICRO_USD, MEMORY_MICRO_USD = 47_160, 7_992
"""Function rates per hour, of a physical core ($.0000131/s) and of a GiB ($.00000222/s). Source:
modal.com/pricing, seen 2026-09-01.
"""
JOB_SCALEDOWN_S = 2
"""Seconds that a job's container idles after the job, billed: the least that Modal takes."""
_EXACT = ".x"


class Deployment(NamedTuple):
    """One app. `gpus` is Modal's ordered list, `timeout_s` the limit of one attempt (0 leaves it to
    Modal), `public` a URL without a token.
    """

    kind: str
    name: str
    gpus: tuple[str, ...]
    options: Options
    tags: dict[str, str]
    timeout_s: int = 0
    public: bool = False
    regions: tuple[str, ...] = ()
    """Where its containers may run; none: anywhere."""
    secrets: tuple[tuple[str, str], ...] = ()
    """(variable, the Modal secret that holds it), besides the whole secrets of the options."""
    mounts: tuple[BucketMount, ...] = ()
    volumes: tuple[VolumeMount, ...] = ()
    registry: str = ""
    """The Modal secret with which the image is pulled; empty for none."""

    @property
    def function(self) -> str:
        """The name of its function."""
        return FUNCTION[self.kind]


def compile_order(order: Order) -> Deployment:
    """The app for an order: its candidates are the function's GPU list. Raises Unsupported, naming
    what a function can't be; nothing is sent.
    """
    first, setup = order.candidates[0], order.setup
    choices = [(candidate.gpu_type, candidate.exact) for candidate in order.candidates]
    for candidate in order.candidates:
        gpu.text(candidate.gpu_type, candidate.gpu_count, exact=candidate.exact)
    reasons = []
    if first.nodes > 1:
        reasons.append(
            f"a {first.kind} is made of single containers; {first.nodes} nodes would need Modal's"
            " clustered functions"
        )
    if first.capacity != "on-demand":
        reasons.append(f"Modal sells on-demand containers only, not {first.capacity}")
    if reasons:
        raise Unsupported(
            f"Modal: {'; '.join(reasons)}",
            provider=PROVIDER,
            code="function",
            scopes=(Scope(PROVIDER),),
            block_s=0.0,
        )
    tags = {
        **dict(setup.labels),
        request.OWNER: order.label.owner,
        request.CLUSTER: order.label.cluster,
        request.GENERATION: order.label.generation,
        request.FINGERPRINT: order.label.fingerprint,
        request.ORDER: order.token,
        request.NAME: app_name(order),
        request.PLACE: first.region or request.ANYWHERE,
        request.GPU: gpu_tag(choices, first.gpu_count),
        KIND: first.kind,
    }
    return compiled(tags, setup)


def compiled(tags: Mapping[str, str], setup: Setup) -> Deployment:
    """The app of these tags with what the setup declares now. `setup.options` is Modal's own
    section. Raises Unsupported.
    """
    kind, section = tags[KIND], dict(setup.options)
    if found := (problems(section) or fits(kind, section, setup)):
        raise Unsupported(
            f"options.modal.{found[0]}", provider=PROVIDER, code="options", block_s=0.0
        )
    chosen = for_kind(section, kind)
    choices, count = ordered(tags)
    texts = tuple(gpu.text(name, count, exact=exact) for name, exact in choices)
    made = Deployment(
        kind,
        tags[request.NAME],
        texts,
        chosen,
        dict(tags),
        timeout_s(chosen, setup.ttl_s) if kind == JOB else 0,
    )
    made = made._replace(
        secrets=without_registry(setup.secrets),
        registry=dict(referred(setup.secrets)).get(REGISTRY_PASSWORD, ""),
        regions=request.asked(tags.get(request.PLACE, "")),
        mounts=bucket_mounts(setup),
        volumes=setup.volumes,
    )
    if kind == SERVICE:
        made = made._replace(public=setup.expose == "public")
    declared = [
        kind,
        list(texts),
        chosen,
        made.timeout_s,
        made.public,
        *([list(made.secrets)] if made.secrets else []),
        *([list(made.mounts)] if made.mounts else []),
        *([[each._replace(id="") for each in made.volumes]] if made.volumes else []),
        *([{"registry": made.registry}] if made.registry else []),
        *made.regions,
    ]
    import hashlib

    content = hashlib.sha256(json.dumps(declared).encode()).hexdigest()[:16]
    return made._replace(tags={**tags, FACETS: written(facets(made)), CONTENT: content})


def app_name(order: Order) -> str:
    """The app of an order."""
    return f"{APP_PREFIX}{order.node_names[0]}"


def gpu_tag(choices: Sequence[tuple[str, bool]], count: int) -> str:
    """`H100.x_A100-80GB.8`: the ordered list as a tag's value; `.x` after what is exactly this."""
    return f"{'_'.join(name + _EXACT if exact else name for name, exact in choices)}.{count}"


def ordered(tags: Mapping[str, str]) -> tuple[tuple[tuple[str, bool], ...], int]:
    """((GPU type, exact) in order, count) that an app was ordered with."""
    names, _, count = tags.get(request.GPU, "").rpartition(".")
    choices = tuple(
        (name.removesuffix(_EXACT), name.endswith(_EXACT)) for name in names.split("_") if name
    )
    return choices, foreign.whole(count, foreign.COUNT) or 0


def group(candidates: Sequence[Candidate]) -> int:
    """How many leading candidates go into one function's GPU list: of one place and one count, as
    far as a tag's value can hold them.
    """
    first = candidates[0]
    size = 0
    for candidate in candidates:
        listed = [(item.gpu_type, item.exact) for item in candidates[: size + 1]]
        same = (candidate.region, candidate.gpu_count, candidate.capacity) == (
            first.region,
            first.gpu_count,
            first.capacity,
        )
        if not same or len(gpu_tag(listed, first.gpu_count)) > TAG_MAX:
            break
        size += 1
    return max(1, size)


# What can drift


def facets(made: Deployment) -> dict[str, str]:
    """What of a service can be read back from Modal, each in a short form."""
    chosen = made.options
    return {
        "min": str(chosen.min_containers),
        "max": str(chosen.most_containers),
        "buffer": str(chosen.buffer_containers),
        "window": str(chosen.scaledown_window_s),
        "inputs": str(chosen.max_inputs),
        "access": "public" if made.public else "token",
        "volumes": str(len(chosen.volumes) + len(made.volumes)),
        "secrets": str(len(chosen.secrets) + len(made.secrets)),
    }


_LETTERS = {
    "min": "n",
    "max": "x",
    "buffer": "b",
    "window": "w",
    "inputs": "i",
    "access": "a",
    "volumes": "v",
    "secrets": "s",
}
_WORDS = {
    "min": "min_containers",
    "max": "max_containers",
    "buffer": "buffer_containers",
    "window": "scaledown_window",
    "inputs": "max_inputs",
    "gpus": "the GPU list",
}


def written(values: Mapping[str, str]) -> str:
    """Facets as a tag's value: `n1.x3.b0.w60.i0.atoken.v0.s0`."""
    return ".".join(f"{_LETTERS[name]}{value}" for name, value in values.items())


def drifted(tags: Mapping[str, str], found: Mapping[str, str]) -> str:
    """What differs between what was deployed and what Modal says now; nothing when all is as it
    was. `found` holds facets, and `gpus`.
    """
    by_letter = {text[0]: text[1:] for text in tags.get(FACETS, "").split(".") if text}
    choices, count = ordered(tags)
    wanted = {name: by_letter.get(letter, "") for name, letter in _LETTERS.items()}
    wanted["gpus"] = listed([gpu.text(name, count, exact=exact) for name, exact in choices])
    wanted["region"] = tags.get(request.PLACE, request.ANYWHERE)
    other = [name for name in wanted if name in found and found[name] != wanted[name]]
    return ", ".join(
        f"{_WORDS.get(name, name)} is {found[name] or 'none'} instead of {wanted[name]}"
        for name in other
    )


def listed(texts: Sequence[str]) -> str:
    """A GPU list in one text, `H100:1 A100-80GB:1`."""
    return " ".join(texts)


# Money


def priced(offer: Offer, section: Mapping[str, object], kind: str) -> Offer:
    """The offer at function rates instead of a sandbox's: one container of a job, as many as a
    service may have at most.
    """
    if offer.node_micro_usd is None:
        return offer
    chosen = for_kind(section, kind)
    cores, memory_gib = offer.vcpus / 2, offer.memory_gib
    # The catalog rounds halves up.
    bare = offer.node_micro_usd - int(
        cores * request.CPU_MICRO_USD + memory_gib * request.MEMORY_MICRO_USD + 0.5
    )
    cores, memory_gib = max(cores, chosen.cpu), max(memory_gib, chosen.memory_gib)
    cpu, memory = round(cores * CPU_MICRO_USD), round(memory_gib * MEMORY_MICRO_USD)
    count = chosen.most_containers if kind == SERVICE else 1
    rest = f"CPU {usd(cpu):.4f} ({cores:g} core) + memory {usd(memory):.4f} ({memory_gib:g} GiB)"
    one = f"{offer.gpu_count:g} x {offer.gpu_type} {usd(bare):.4f} + {rest}"
    least = chosen.min_containers if kind == SERVICE else count
    sum_of = "" if least == count else AT_MOST
    several = f"{sum_of}{count} container{'s' if count > 1 else ''}, each "
    parts = one if kind == JOB else f"{several}{one}"
    return offer._replace(
        node_micro_usd=(bare + cpu + memory) * count,
        parts=parts,
        vcpus=cores * 2,
        memory_gib=memory_gib,
    )


def notes(candidate: Candidate, setup: Setup) -> tuple[str, ...]:
    """What a reader of the plan should know of a job's or a service's money and time, one sentence
    each.
    """
    sections = dict(setup.options)
    section = sections.get(PROVIDER)
    section = section if isinstance(section, dict) else {}
    if problems(section):
        return ()
    chosen = for_kind(section, candidate.kind)
    lines = (
        _job_notes(candidate, setup, chosen)
        if candidate.kind == JOB
        else _service_notes(candidate, setup, chosen)
    )
    if chosen.image and not chosen.add_python:
        here = for_kind({}, candidate.kind).python
        lines.append(
            Stops(
                f"the image {chosen.image} must hold Python {here}, which runs here; else write"
                f' add_python: "{here}"'
            )
        )
    return tuple(lines)


def _job_notes(candidate: Candidate, setup: Setup, chosen: Options) -> list[str]:
    limit = timeout_s(chosen, setup.ttl_s)
    attempts = chosen.retries + 1
    cost = (
        "at a price that is not known"
        if candidate.micro_usd is None
        else dollars(candidate.micro_usd * limit * attempts // 3_600)
    )
    tries = (
        f"{attempts} attempts of {duration.text(limit)}"
        if attempts > 1
        else f"one attempt of {duration.text(limit)}"
    )
    return [
        f"a job is billed while its container runs: at worst {tries}, {cost}; Modal starts an"
        " attempt again when it takes a container back"
    ]


def _service_notes(candidate: Candidate, setup: Setup, chosen: Options) -> list[str]:
    most = chosen.most_containers
    one = None if candidate.micro_usd is None else candidate.micro_usd // most
    if one is None:
        lines = ["neither the least nor a busy hour has a known price"]
    elif chosen.min_containers:
        floor = one * chosen.min_containers
        month = f"{dollars(floor * HOURS_PER_MONTH)} a month"
        lines = [
            f"at least {chosen.min_containers} container{'s' * (chosen.min_containers > 1)} at any"
            f" time: {per_hour(floor)}, {dollars(floor * 24)} a day, {month}"
        ]
    else:
        lines = [
            "without requests nothing runs: $0.00/h; one container is started first to prove that"
            " there is capacity"
        ]
    if one is not None:
        busy = f"when busy: {per_hour(one)} a container, at most {most}: {per_hour(one * most)}"
        lines.append(f"{busy}; idle ones end after {chosen.scaledown_window_s}s")
    if setup.expose == "public":
        lines.append(Costs("the URL is open to everybody, and requests start containers"))
    else:
        lines.append(
            "the URL wants a proxy token of the workspace (headers Modal-Key and Modal-Secret)"
        )
    return lines
