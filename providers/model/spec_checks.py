"""The rules between a declaration's fields: every problem at once, each with its path."""

from __future__ import annotations

import re

from providers.errors import Problem, SpecError
from providers.model import ask as asks
from providers.model import secret, wording
from providers.model.duration import seconds_of
from providers.model.spec_block import block_problems
from providers.model.spec_choices import choices_of
from providers.model.spec_fields import EMPTY_FALLBACK, ClusterFields, Fallback
from providers.model.workload_checks import problems as workload_problems

_NAME = re.compile(r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")
_DOMAIN = re.compile(
    r"^(?=.{4,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}\Z"
)
_LABEL_KEY = re.compile(r"^[a-z][a-z0-9_-]{0,62}$")
_LABEL_VALUE = re.compile(r"^[a-z0-9_-]{0,63}$")
_PUBLIC_KEY = re.compile(
    r"^(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)"
    r"|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" [A-Za-z0-9+/=]+( [^\r\n]*)?$"
)
_LABELS_MAX = 36
"""EC2 takes 50 tags, of which up to 13 are this product's own; Google takes 64 labels."""
"""Google's limit is 64 on a machine (Compute Engine, "Labels overview", 2026-11); four are the
product's own.
"""


def check_cluster(cluster: ClusterFields) -> list[Problem]:
    """What is wrong beyond each field's type."""
    problems: list[Problem] = []
    if not _NAME.match(cluster.name):
        meant = re.sub(r"[^a-z0-9]+", "-", cluster.name.lower()).strip("-")
        problems.append(
            Problem(
                "name",
                "lowercase letters, digits and -, at most 40, starting with a letter",
                repr(cluster.name),
                f"write {meant}" if _NAME.match(meant) else "",
            )
        )
    choices, wrong = choices_of(cluster)
    problems.extend(wrong)
    problems.extend(block_problems(cluster, choices))
    if "fallback" in cluster.model_fields_set and not cluster.fallback:
        problems.append(EMPTY_FALLBACK)
    problems.extend(_kind(cluster))
    problems.extend(_accept(cluster))
    problems.extend(_workload(cluster))
    problems.extend(_expose(cluster))
    problems.extend(_replicas(cluster))
    problems.extend(_tls(cluster))
    if cluster.ssh_key is not None and not _PUBLIC_KEY.match(cluster.ssh_key.strip()):
        found = "a private key" if "PRIVATE KEY" in cluster.ssh_key else "something else"
        problems.append(
            Problem(
                "ssh_key",
                'one public key, as in "ssh-ed25519 AAAA... me"',
                found,
                "give the .pub file's content",
            )
        )
    problems.extend(_labels(cluster))
    problems.extend(secret.problems(cluster.secrets))
    for field in ("providers", "regions"):
        names = getattr(cluster, field)
        if names is not None and not names:
            problems.append(Problem(field, "at least one", "an empty list", "leave it out for any"))
        if names and len(set(names)) != len(names):
            problems.append(Problem(field, "each once", ", ".join(names)))
    if cluster.on_ttl == "keep" and cluster.ttl is None and cluster.idle_after is None:
        problems.append(Problem("on_ttl", "a ttl to end", "none", "set ttl, or leave on_ttl out"))
    seconds_of(cluster.idle_after, "idle_after", problems, asks.TTL_LEAST_S)
    if cluster.acquire is not None:
        seconds_of(cluster.acquire.within, "acquire.within", problems, asks.TTL_LEAST_S)
    if cluster.hedge > 1 and cluster.kind == "job":
        problems.append(
            Problem(
                "hedge",
                "1 for a job, which could begin at both providers",
                str(cluster.hedge),
                "leave it out",
            )
        )
    for index, override in enumerate(cluster.prices.overrides):
        if override.capacity and override.capacity not in asks.CAPACITIES:
            problems.append(
                Problem(
                    f"prices.overrides[{index}].capacity",
                    "one of " + ", ".join(asks.CAPACITIES),
                    repr(override.capacity),
                )
            )
    return problems


def _expose(cluster: ClusterFields) -> list[Problem]:
    problems: list[Problem] = []
    if cluster.expose == "token" and (cluster.workload is None or cluster.kind != "service"):
        problems.append(
            Problem(
                "expose", "private or public: a token is for a service with a workload", "token"
            )
        )
    if cluster.kind == "machine" and cluster.expose == "public" and not cluster.ports:
        problems.append(Problem("expose", "ports to expose", "none", "list them under ports"))
    if cluster.kind == "machine" and cluster.expose == "public" and cluster.network != "managed":
        problems.append(
            Problem(
                "expose",
                "network: managed, which declares the firewall",
                f"network: {cluster.network}",
                "set network: managed",
            )
        )
    return problems


def _replicas(cluster: ClusterFields) -> list[Problem]:
    """Replicas are of a service with a workload, one machine each."""
    if cluster.replicas is None:
        return []
    if cluster.kind != "service" or cluster.workload is None:
        wanted = "kind: service with a workload, which a proxy can stand before"
        found = f"kind: {cluster.kind}" if cluster.kind != "service" else "no workload"
        return [Problem("replicas", wanted, found, "leave replicas out, or declare one")]
    spans = [("nodes", cluster.nodes)]
    spans += [
        (f"fallback[{index}].nodes", item.nodes)
        for index, item in enumerate(cluster.fallback)
        if isinstance(item, Fallback) and item.nodes is not None
    ]
    return [
        Problem(path, "1 with replicas: a replica is one machine", str(nodes), "leave it out")
        for path, nodes in spans
        if nodes != 1
    ]


def _tls(cluster: ClusterFields) -> list[Problem]:
    """A certificate is for the proxy of replicas, of a name, and fetched from somewhere."""
    if cluster.tls is None:
        return []
    found: list[Problem] = []
    if cluster.replicas is None:
        wanted = "replicas, whose proxy has the certificate"
        found.append(Problem("tls", wanted, "none", "declare some: replicas: 1 is enough"))
    domain = cluster.tls.domain
    if not _DOMAIN.match(domain):
        wanted = "a DNS name such as api.example.com"
        found.append(Problem("tls.domain", wanted, repr(domain)[: wording.FOUND_MAX]))
    if not cluster.tls.certificate:
        wanted = "a reference for at least one provider"
        todo = "as each of the secrets has"
        found.append(Problem(secret.TLS_PATH, wanted, "none", todo))
    return found


def _labels(cluster: ClusterFields) -> list[Problem]:
    problems: list[Problem] = []
    if len(cluster.labels) > _LABELS_MAX:
        problems.append(Problem("labels", f"at most {_LABELS_MAX}", str(len(cluster.labels))))
    for key, value in cluster.labels.items():
        if not _LABEL_KEY.match(key) or key.startswith("gpus-"):
            problems.append(
                Problem(
                    f"labels.{key}",
                    "a key of lowercase letters, digits, _ and -, at most 63, not starting with"
                    " gpus-",
                    repr(key)[: wording.FOUND_MAX],
                )
            )
        elif not _LABEL_VALUE.match(value):
            problems.append(
                Problem(
                    f"labels.{key}",
                    "lowercase letters, digits, _ and -, at most 63",
                    repr(value)[: wording.FOUND_MAX],
                )
            )
    return problems


_MACHINE_ONLY = {
    "state": "only a machine is stopped and kept",
    "ports": "a job listens on none, and a service's port stands in workload.port",
}


def _kind(cluster: ClusterFields) -> list[Problem]:
    """What only a machine can have."""
    if cluster.kind == "machine":
        return []
    found = [
        Problem(
            name,
            f"nothing for a {cluster.kind}: {why}",
            wording.shown(getattr(cluster, name)),
            "leave it out",
        )
        for name, why in _MACHINE_ONLY.items()
        if getattr(cluster, name) != type(cluster).model_fields[name].default
    ]
    if cluster.kind == "service" and cluster.ttl is not None:
        found.append(
            Problem(
                "ttl",
                "none for a service: it listens until it is destroyed",
                repr(cluster.ttl),
                "leave it out",
            )
        )
    if cluster.kind == "job" and cluster.expose == "public":
        found.append(
            Problem("expose", "private for a job: nothing of it listens", "public", "leave it out")
        )
    return found


def _accept(cluster: ClusterFields) -> list[Problem]:
    """What cannot be measured before it is used, or at all."""
    if cluster.accept == "off":
        return []
    if cluster.ready != "running":
        return []
    wanted = "off with `ready: running`: it is measured by login"
    return [Problem("accept", wanted, cluster.accept, "leave it out")]


def _workload(cluster: ClusterFields) -> list[Problem]:
    """What is wrong with what runs, and with what a choice changes of it."""
    found: list[Problem] = []
    for index, item in enumerate(cluster.fallback):
        if isinstance(item, Fallback) and item.override() is not None and cluster.workload is None:
            found.append(
                Problem(
                    f"fallback[{index}]",
                    "a workload to change",
                    "none",
                    "drop dtype, command and args, or declare a workload",
                )
            )
    if cluster.workload is None:
        if cluster.workdir is not None:
            todo = "declare one, or copy the folder with gpus cp"
            found.append(Problem("workdir", "a workload that runs in it", "none", todo))
        return found
    try:
        entries, broken = choices_of(cluster)
    except SpecError:
        return found
    if broken:
        return found
    several = any(entry.nodes > 1 for entry in entries)
    if cluster.ready == "running" and (
        several or cluster.expose == "token" or cluster.workdir is not None
    ):
        told = (
            "several nodes are told of each other"
            if several
            else "a service is told its token"
            if cluster.expose == "token"
            else "a folder is sent"
        )
        found.append(Problem("ready", f"checked: {told} by login", "running", "leave it out"))
    if several and cluster.replicas is None and cluster.on_loss == "replace-node":
        wanted = "replace-all or report: its workload runs on all nodes as one, which none can join"
        found.append(Problem("on_loss", wanted, "replace-node", "leave it out"))
    return [
        *found,
        *workload_problems(
            cluster.workload, cluster.kind, min((entry.gpu_count for entry in entries), default=1)
        ),
    ]
