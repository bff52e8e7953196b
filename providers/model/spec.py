"""The declaration as users write it: `Gpu`, `Fallback`, `Cluster`, in Python or as the mapping of a
stack file. A declaration that is wrong reports every problem at once, each with its property path.

Owns what a cluster compiles to and how an entry is read. Whether a GPU name is known and sold is
the planner's business. No I/O. Imported on first use: pydantic costs about 0.1 s.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from providers.errors import Problem, SpecError, shortened
from providers.model import ask as asks
from providers.model import duration, foreign, wording
from providers.model.ask import Ask, PriceOverride
from providers.model.machine import MANAGED, Setup
from providers.model.money import micro_usd
from providers.model.secret import REGISTRY_PASSWORD, TLS_CERTIFICATE
from providers.model.spec_block import block_terms
from providers.model.spec_checks import check_cluster
from providers.model.spec_choices import choices_of
from providers.model.spec_fields import ClusterFields, Fallback, Gpu

__all__ = ["Cluster", "Fallback", "Gpu", "asked_names", "read_cluster"]

_TEXT_MAX = 80


class Cluster(ClusterFields):
    """What GPUs are wanted, not where. `name` is the cluster's name; the rest is the content of a
    stack file's entry.
    """

    model_config = ConfigDict(defer_build=False)

    def __repr__(self) -> str:
        return f"Cluster({', '.join(f'{name}={text}' for name, text in self._set_texts())})"

    def _repr_html_(self) -> str:
        from providers.model.html import table

        title = f"cluster {self.name}"
        return table(("field", "value"), self._set_texts(), title=title, note="")

    def _set_texts(self) -> list[tuple[str, str]]:
        """What was declared, each as a text; long ones are cut."""
        set_ones = self.model_dump(mode="json", exclude_unset=True)
        return [(name, shortened(repr(value), _TEXT_MAX)) for name, value in set_ones.items()]

    def semantic(self) -> list[Problem]:
        return check_cluster(self)

    def ask(self) -> Ask:
        """The compiled form, as the planner reads it."""
        entries, problems = choices_of(self)
        if problems:
            raise SpecError(problems)
        return Ask(
            entries=tuple(entries),
            kind=self.kind,
            providers=self.providers or (),
            regions=self.regions or (),
            rank=self.rank,
            marketplaces=self.marketplaces,
            accept_suspect_prices=self.accept_suspect_prices,
            max_price_micro_usd=(
                None if self.max_price_per_hour is None else micro_usd(self.max_price_per_hour)
            ),
            price_overrides=tuple(
                PriceOverride(
                    micro_usd(o.price_usd_per_hour),
                    o.provider,
                    o.region,
                    o.machine_type,
                    o.gpu,
                    o.capacity,
                )
                for o in self.prices.overrides
            ),
            disk_gib=self.disk_gib,
            block=block_terms(self),
            options={name: dict(section) for name, section in self.options.items()},
            ports=tuple(self.ports),
            tls=self.tls is not None,
            workload=(
                None
                if self.workload is None
                else self.workload.record()._replace(workdir=self._workdir)
            ),
            secrets=tuple(
                (name, frozenset(references)) for name, references in sorted(self.fetched.items())
            ),
        )

    @property
    def fetched(self) -> dict[str, Mapping[str, str]]:
        """The references of all that the machines fetch: the secrets, their registry's password,
        and their proxy's certificate.
        """
        registry = None if self.workload is None else self.workload.registry
        password = registry.password if registry is not None else {}
        certificate = self.tls.certificate if self.tls is not None else {}
        own = {REGISTRY_PASSWORD: password, TLS_CERTIFICATE: certificate}
        return {**self.secrets, **{name: found for name, found in own.items() if found}}

    def setup(self) -> Setup:
        """Everything about the machines that is no choice of place. Of a managed network only that
        there is one: its wiring is known once it is made.
        """
        work = None if self.workload is None else self.workload.record()
        registry = None if work is None else work.registry
        return Setup(
            disk_gib=self.disk_gib,
            ttl_s=self.ask().entries[0].ttl_s,
            idle_s=None if self.idle_after is None else duration.seconds(self.idle_after),
            on_ttl=self.on_ttl,
            ssh_public_key=(self.ssh_key or "").strip(),
            labels=tuple(sorted(self.labels.items())),
            options=tuple(
                sorted((provider, dict(section)) for provider, section in self.options.items())
            ),
            ports=tuple(self.ports),
            state=self.state,
            network=MANAGED if self.network == "managed" else (),
            expose=self.expose,
            secrets=tuple(
                (name, tuple(sorted(references.items())))
                for name, references in sorted(self.fetched.items())
            ),
            # Those that serve are not given up for one that is lost.
            on_loss=(
                "replace-node"
                if self.replicas is not None and self.on_loss == "replace-all"
                else self.on_loss
            ),
            apart=self.replicas is not None,
            domain="" if self.tls is None else self.tls.domain,
            mounts=() if work is None else work.mounts,
            volumes=() if work is None else work.volumes,
            signs_in_to=registry.host if registry is not None and not registry.username else "",
            workdir=self._workdir,
            gated=work is not None and self.accept != "off",
        )

    @property
    def _workdir(self) -> str:
        return "" if self.workdir is None else self.workdir.digest

    def fingerprint(self) -> str:
        """Sixteen hex digits over what a machine *is*; leaves out secrets and policy (fallback,
        rank, caps, wait, ttl, labels, keys).
        """
        first = self.ask().entries[0]
        content = {
            "gpu": first.gpu,
            "count": first.gpu_count,
            "memory": first.min_memory_gib,
            "nodes": self.nodes,
            "kind": self.kind,
            "disk": self.disk_gib,
            "network": self.network,
            "options": {name: dict(section) for name, section in self.options.items()},
            "run": str(self.triggers.rerun or ""),
        }
        return hashlib.sha256(
            json.dumps(content, sort_keys=True, default=str).encode()
        ).hexdigest()[:16]


def read_cluster(name: str, raw: object) -> Cluster:
    """The cluster of a stack file's entry. Raises SpecError with every problem."""
    if isinstance(raw, str):
        if todo := unspaced(raw):
            raise SpecError([Problem("", _MAPPING, repr(raw)[: wording.FOUND_MAX], todo)])
        raw = {"gpu": raw}
    if not isinstance(raw, Mapping):
        found = "nothing" if raw is None else type(raw).__name__
        raise SpecError([Problem("", _MAPPING, found)])
    if foreign.too_deep(raw):
        raise SpecError([Problem("", foreign.LEVELS, "more")])
    named = (
        [Problem("name", "the name to stand as the key only", repr(raw["name"]), "remove it")]
        if "name" in raw and raw["name"] != name
        else []
    )
    data = {str(key): _plain(value) for key, value in raw.items() if key != "name"}
    try:
        cluster = Cluster(name=name, **data)
    except SpecError as error:
        raise SpecError([*named, *error.problems]) from None
    if named:
        raise SpecError(named)
    return cluster


_MAPPING = 'a mapping such as {gpu: "H100:8"}'


def unspaced(text: str) -> str:
    """What to do about `gpu:L4`, which YAML takes for a text; empty for another text."""
    found = re.match(r"\s*(\w+):(\S+)", text)
    if found is None or found[1] not in ClusterFields.model_fields:
        return ""
    return f"write a space after each colon, as in {found[1]}: {found[2]}"


def asked_names(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(path, GPU name) of everything in a raw entry that reads as a GPU, however broken the rest
    is.
    """
    found: list[tuple[str, str]] = []

    def look(path: str, value: Any) -> None:
        text = value.get("gpu", value.get("type")) if isinstance(value, Mapping) else value
        if isinstance(text, str):
            try:
                found.append((path, asks.gpu_text(text, path).type))
            except SpecError:
                return
        if isinstance(value, Mapping) and isinstance(value.get("fallback"), (list, tuple)):
            for index, item in enumerate(value["fallback"]):
                look(f"{path}.fallback[{index}]", item)

    gpu = raw.get("gpu")
    for index, item in enumerate(gpu) if isinstance(gpu, (list, tuple)) else ():
        look(f"gpu[{index}]", item)
    if not isinstance(gpu, (list, tuple)):
        look("gpu", gpu)
    fallback = raw.get("fallback")
    for index, item in enumerate(fallback) if isinstance(fallback, (list, tuple)) else ():
        look(f"fallback[{index}]", item)
    return found


def _plain(value: Any) -> Any:
    """Whole floats as ints (Pulumi's wire knows only floats), lists as tuples."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
