"""The edit table: what a changed declaration does to what runs. Pure.

Owns which edit replaces, which updates, and which touches nothing; and the property paths that a
preview shows. Prices and addresses are outputs and are never compared, so whatever moves at the
provider changes nothing. What is in no table below is policy (rank, caps, wait), or served by
something else (the managed firewall opens the ports), or only names an account (a machine is found
by its full native id, so another default project moves nothing that runs): such an edit updates the
state, never the machine's place. Must not import the engine or grpc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.plugin.properties import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

PLACEMENT = frozenset({"gpu", "fallback", "nodes", "regions", "providers", "spot", "capacity"})
"""Edits that replace only if what runs no longer satisfies the declaration."""
IN_PLACE = {
    "labels": "labels",
    "ttl": "ttl",
    "on_ttl": "ttl",
    "ssh_key": "ssh_key",
    "secrets": "secrets",
    "idle_after": "idle_after",
}
"""Edits that an adapter may carry out on a running machine, by the capability that says so. Where
it cannot, they wait for the next replacement: no machine is given up for them.
"""
IDENTITY = {
    "world": "another world",
    "owner": "the stack's ownership is made anew",
    "cluster": "another name",
    "kind": "another kind",
    "run": "a new run is asked for",
}
"""Edits that always mean another machine, and why."""

OF_OWNERSHIP = frozenset({"max_spend"})
"""What a cluster has from its stack's Ownership, where another value of it shows: once, not once
for each cluster. Pulumi keeps the new one all the same. The first value is an edit of the cluster
too: what it runs is counted from then on.
"""

STRAY = "stray"
"""The owner of an imported machine that bears no mark. Declaring it in a stack makes it that
stack's; it is still the same machine.
"""


_PRICE = {"micro_usd", "price_as_of", "price_source"}
_RUNS = {"queued", "pending", "starting", "running"}


class Change(NamedTuple):
    """One line of a detailed diff: `kind` is add | delete | update; `is_input` is False for what
    was observed.
    """

    path: str
    kind: str
    replaces: bool
    is_input: bool = True


class Verdict(NamedTuple):
    """What an edit comes to. `reason` is a line for the user, empty unless something is replaced:
    `gpu, fallback: ...`. `later` is one too, of what is only applied when the machine is replaced.
    """

    changes: tuple[Change, ...] = ()
    reason: str = ""
    later: str = ""

    @property
    def replaces(self) -> bool:
        """True when the old one goes before a new one comes."""
        return any(change.replaces for change in self.changes)


def ownership(old: Mapping[str, Any], new: Mapping[str, Any], *, counted: bool = True) -> Verdict:
    """The verdict for an Ownership: only another world makes a new one. Without `counted`, more has
    been spent than its state says.
    """
    changed = _changed(old, new)
    changes = [line for key in changed for line in _lines(key, old, new, replaces=key == "world")]
    if not counted:
        changes.append(Change("spending", "update", replaces=False, is_input=False))
    return Verdict(
        tuple(changes),
        (
            "another world: what was made in the old one is released there first"
            if "world" in changed
            else ""
        ),
    )


def cluster(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    outputs: Mapping[str, Any],
    satisfied: Callable[[], bool],
    in_place: Collection[str],
    outgrown: Callable[[], str] = lambda: "",
) -> Verdict:
    """The verdict for a Cluster.

    `old` and `new` are inputs in canonical form (UNKNOWN inside `new` where not known yet),
    `outputs` what the state holds. `satisfied` says whether what runs still satisfies the new
    declaration; it is asked only if that decides. `in_place` names what the provider it runs at can
    edit. `outgrown` says why what runs can't take another workload; it is asked only where that is
    run on the held machine.
    """
    changed = [key for key in _changed(old, new) if key not in OF_OWNERSHIP or old.get(key) is None]
    reasons: dict[str, str] = {}
    for key in changed:
        if key in IDENTITY and not (key == "owner" and old.get("owner") == STRAY):
            reasons[key] = IDENTITY[key]
    placed = bool(outputs.get("provider"))
    # A job that has ended is done: what only concerns a running one makes no new one.
    done = new.get("kind") == "job" and outputs.get("status") in ("ended", "failed")
    open_questions = [
        key for key in changed if key in PLACEMENT and not has_unknown(new.get(key)) and not done
    ]
    if placed and open_questions and not satisfied():
        reasons.update(
            dict.fromkeys(open_questions, "what runs no longer satisfies the declaration")
        )
    if (
        "disk_gib" in changed
        and not has_unknown(new.get("disk_gib"))
        and _larger(_disk(old, outputs), new.get("disk_gib"))
    ):
        reasons["disk_gib"] = "a larger disk needs a new machine"
    if (
        "workload" in changed
        and placed
        and not done
        and _rerun(outputs)
        and not has_unknown(new.get("workload"))
        and (why_not := outgrown())
    ):
        reasons["workload"] = why_not
    if "network" in changed:
        reasons["network"] = "another network needs a new machine"
    if "network_links" in changed and _moved(old, new, outputs):
        reasons["network_links"] = "another network needs a new machine"
    if "options" in changed and placed:
        provider = str(outputs["provider"])
        served = "service" in in_place and new.get("kind") == "service"
        if _section(old, provider) != _section(new, provider) and not served:
            reasons["options"] = f"another setting of {provider} needs a new machine"
    waits = [key for key in changed if key in IN_PLACE and placed and IN_PLACE[key] not in in_place]
    waits = [
        key
        for key in waits
        if key != "secrets" or "service" not in in_place or new.get("kind") != "service"
    ]
    changes = [line for key in changed for line in _lines(key, old, new, replaces=key in reasons)]
    if (
        new.get("state") == "stopped"
        and "state" not in changed
        and outputs.get("status") == "running"
    ):
        # Somebody started it.
        changes.append(Change("status", "update", replaces=False, is_input=False))
    if (outputs.get("record") or {}).get("to_release"):
        # It is over; what is left of its machines goes.
        changes.append(Change("handles", "update", replaces=False, is_input=False))
    why = [
        f"{', '.join(key for key in reasons if reasons[key] == text)}: {text}"
        for text in dict.fromkeys(reasons.values())
    ]
    if outputs.get("status") == "preempted":
        changes.append(Change("status", "update", replaces=True, is_input=False))
        why.append("the cloud took it back")
    if (drifted := _drift(outputs)) and new.get("state") != "stopped":
        # Somebody changed what was bought. What serves the declaration as it is now stays, and its
        # record follows.
        serves = satisfied()
        if serves or new.get("on_loss") != "report":
            changes += [
                Change(name, "update", replaces=not serves, is_input=False) for name in drifted
            ]
        if not serves and new.get("on_loss") != "report":
            why.append(str(outputs.get("detail")))
    later = (
        f"{outputs['provider']} cannot edit {' and '.join(waits)} on a running machine: applied"
        " when it is next replaced"
        if waits and not why
        else ""
    )
    if (
        "workload" in changed
        and placed
        and not why
        and new.get("kind") == "job"
        and not _rerun(outputs)
    ):
        told = (
            f"{outputs['provider']} runs the job as it was declared: change `run` for one with this"
            " workload"
        )
        later = f"{later}; {told}" if later else told
    return Verdict(tuple(changes), "; ".join(why), later)


def _drift(outputs: Mapping[str, Any]) -> list[str]:
    """The properties of running machines that are not as they were bought, whatever their price
    does.
    """
    bought = (outputs.get("record") or {}).get("bought") or {}
    return sorted(set(bought) - _PRICE) if outputs.get("status") in _RUNS else []


def _rerun(outputs: Mapping[str, Any]) -> bool:
    """True where a start-up script of ours runs the work, so that an edit of it is run anew on the
    held machine; a provider's own job takes none.
    """
    return "work" in ((outputs.get("record") or {}).get("applied") or {})


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]


def _disk(old: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    """GiB of the disk that was bought, which a smaller one declared since did not shrink; of an
    older record what was declared last.
    """
    bought = str(((outputs.get("record") or {}).get("applied") or {}).get("disk_gib"))
    return int(bought) if bought.isdigit() else old.get("disk_gib")


def _larger(old: Any, new: Any) -> bool:
    return new is not None and (old is None or new > old)


def _section(inputs: Mapping[str, Any], provider: str) -> Any:
    options = inputs.get("options")
    return options if options is UNKNOWN else (options or {}).get(provider)


def _moved(old: Mapping[str, Any], new: Mapping[str, Any], outputs: Mapping[str, Any]) -> bool:
    """True when the links that the placement uses differ; those of other regions do not matter. A
    link that is not known yet is another one.
    """
    before, after = old.get("network_links") or {}, new.get("network_links")
    if after is UNKNOWN:
        return True
    after = after or {}
    used = [
        key
        for key in {*before, *after}
        if "." not in key or key.endswith(f".{outputs.get('region')}")
    ]
    return any(before.get(key) != after.get(key) for key in used)


def has_unknown(value: Any) -> bool:
    """True when something inside is not known yet."""
    if isinstance(value, dict):
        return any(map(has_unknown, value.values()))
    if isinstance(value, list):
        return any(map(has_unknown, value))
    return value is UNKNOWN


def _lines(path: str, old: Any, new: Any, *, replaces: bool) -> list[Change]:
    """The deepest paths that differ. `old` and `new` hold the last step of `path`."""
    key: Any = path
    return _deeper(path, old.get(key), new.get(key), replaces=replaces)


def _deeper(path: str, old: Any, new: Any, *, replaces: bool) -> list[Change]:
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for key in sorted({*old, *new})
            for line in _deeper(
                f'{path}["{key}"]' if "." in key or "[" in key else f"{path}.{key}",
                old.get(key),
                new.get(key),
                replaces=replaces,
            )
        ]
    if isinstance(old, list) and isinstance(new, list):
        longest = max(len(old), len(new))
        pairs = [
            (old[i] if i < len(old) else None, new[i] if i < len(new) else None)
            for i in range(longest)
        ]
        return [
            line
            for index, pair in enumerate(pairs)
            for line in _deeper(f"{path}[{index}]", *pair, replaces=replaces)
        ]
    kind = "add" if old is None else "delete" if new is None else "update"
    return [Change(path, kind, replaces)]
