"""The edit table: what a changed declaration does to what runs. Pure.

Owns which edit replaces, which updates, and which touches nothing; and the property paths that a
preview shows. Prices and addresses are outputs and are never compared, so whatever moves at the
provider changes nothing. What is in no table below is policy (rank, caps, wait), or served by
something else (the managed firewall opens the ports), or only names an account (a machine is found
by its full native id, so another default project moves nothing that runs): such an edit updates the
state, never the machine's place. What follows without an edit (a spot loss, drift) is the
condition's row in `engine.reconcile.steps`. Must not import grpc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.plugin.properties import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from providers.engine.reconcile.on_workload import WorkloadEdit
    from providers.engine.record import ClusterRecord

PLACEMENT = frozenset(
    {"gpu", "fallback", "nodes", "replicas", "regions", "providers", "spot", "capacity"}
)
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
    "owner": "the stack's ownership is made again",
    "cluster": "another name",
    "kind": "another kind",
}
"""Edits that always mean another machine, and why."""

OF_OWNERSHIP = frozenset({"max_spend"})
"""What a cluster has from its stack's Ownership, where another value of it shows: once, not once
for each cluster. Pulumi keeps the new one all the same. The first value is an edit of the cluster
too: what it runs is counted from then on.
"""

STRAY = "stray"
"""The owner of an imported machine that carries no label. Declaring it in a stack makes it that
stack's; it is still the same machine.
"""


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
    record: ClusterRecord,
    satisfied: Callable[[], bool],
    in_place: Collection[str],
    outgrown: Callable[[], str] = lambda: "",
) -> Verdict:
    """The verdict for a Cluster: what its edits do, and what its condition does where none is made
    (see `engine.reconcile.steps`).

    `old` and `new` are inputs in canonical form (UNKNOWN inside `new` where not known yet),
    `record` what the state holds. `satisfied` says whether what runs still satisfies the new
    declaration; it is asked only if that decides. `in_place` names what the provider it runs at can
    edit. `outgrown` says why what runs can't take another workload; it is asked only where that is
    run on the present machine.
    """
    from providers.engine.reconcile.condition import NOTHING_YET, condition_of
    from providers.engine.reconcile.on_preview import DiffCase
    from providers.engine.reconcile.steps import STEPS
    from providers.engine.record import UNTOLD

    changed = [key for key in _changed(old, new) if key not in OF_OWNERSHIP or old.get(key) is None]
    reasons = {
        key: IDENTITY[key]
        for key in changed
        if key in IDENTITY and not (key == "owner" and old.get("owner") == STRAY)
    }
    if "triggers" in changed and asked(old, "rerun") != asked(new, "rerun"):
        reasons["triggers"] = "a new run is asked for"
    reasons |= _placement(changed, new, record, satisfied)
    reasons |= _bought_with(changed, old, new, record)
    another = _another_workload(changed, new, record)
    if "workload" in changed and not has_unknown(new.get("workload")):
        why = another.replaces or (outgrown() if _runs_ours(record) else "")
        reasons |= {"workload": why} if why else {}
    if "workload" in changed and _other_volumes(old, new, record):
        reasons["workload"] = "other volumes need a new machine"
    if "options" in changed and _other_options(old, new, record, in_place):
        reasons["options"] = f"another setting of {record.provider} needs a new machine"
    if condition_of(record) in NOTHING_YET:
        # There is nothing to replace: what is looked for is another from now on.
        reasons = {key: text for key, text in reasons.items() if key in IDENTITY}
    changes = [line for key in changed for line in _lines(key, old, new, replaces=key in reasons)]
    if new.get("state") == "stopped" and "state" not in changed and record.status == "running":
        # Somebody started it.
        changes.append(Change("status", "update", replaces=False, is_input=False))
    if UNTOLD in dict(record.applied):
        # A replica has to learn of the others, or a machine to get the workload that is declared.
        changes.append(Change("status", "update", replaces=False, is_input=False))
    if record.to_release:
        # It is over; what is left of its machines goes.
        changes.append(Change("handles", "update", replaces=False, is_input=False))
    why_replaced = [
        f"{', '.join(key for key in reasons if reasons[key] == text)}: {text}"
        for text in dict.fromkeys(reasons.values())
    ]
    difference = STEPS[condition_of(record)].replaces(
        DiffCase(record, str(new.get("on_loss")), new.get("state") == "stopped", satisfied)
    )
    changes += [
        Change(name, "update", replaces=difference.replaces, is_input=False)
        for name in difference.outputs
    ]
    why_replaced += [difference.because] if difference.because else []
    later = [] if why_replaced else [another.later, _later(changed, new, record, in_place)]
    return Verdict(tuple(changes), "; ".join(why_replaced), "; ".join(filter(None, later)))


def _another_workload(
    changed: Collection[str], new: Mapping[str, Any], record: ClusterRecord
) -> WorkloadEdit:
    """What the condition's row says of another workload, or of another folder that it runs in."""
    from providers.engine.reconcile.on_workload import WorkloadCase, WorkloadEdit
    from providers.engine.reconcile.steps import another_workload

    if not record.provider or not {"workload", "workdir"} & {*changed}:
        return WorkloadEdit()
    case = WorkloadCase(record, new.get("workload") is not None, new.get("state") == "stopped")
    return another_workload(case)


def _placement(
    changed: Collection[str],
    new: Mapping[str, Any],
    record: ClusterRecord,
    satisfied: Callable[[], bool],
) -> dict[str, str]:
    """Edits of where it may run, where what runs no longer satisfies them. A job that has ended is
    done: what only concerns a running one makes no new one.
    """
    from providers.engine.record import finished

    asked = [key for key in changed if key in PLACEMENT and not has_unknown(new.get(key))]
    if not asked or not record.provider or finished(record) or satisfied():
        return {}
    return dict.fromkeys(asked, "what runs no longer satisfies the declaration")


def _bought_with(
    changed: Collection[str],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    record: ClusterRecord,
) -> dict[str, str]:
    """Edits of what a machine is bought with: its disk, its network and its certificate."""
    reasons: dict[str, str] = {}
    size = new.get("disk_gib")
    if "disk_gib" in changed and not has_unknown(size) and _larger(_disk(old, record), size):
        reasons["disk_gib"] = "a larger disk needs a new machine"
    if "tls" in changed and _certificate(old) != _certificate(new):
        reasons["tls"] = "another certificate is fetched when a machine is made"
    if "network" in changed:
        reasons["network"] = "another network needs a new machine"
    if "network_links" in changed and _moved(old, new, record):
        reasons["network_links"] = "another network needs a new machine"
    return reasons


def _other_options(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    record: ClusterRecord,
    in_place: Collection[str],
) -> bool:
    """True where the options of the provider that it runs at differ, and cannot be deployed in
    place.
    """
    served = "service" in in_place and new.get("kind") == "service"
    return (
        bool(record.provider)
        and _section(old, record.provider) != _section(new, record.provider)
        and not served
    )


def _later(
    changed: Collection[str],
    new: Mapping[str, Any],
    record: ClusterRecord,
    in_place: Collection[str],
) -> str:
    """What of the edits waits for the next replacement or run."""
    if not record.provider:
        return ""
    from providers.engine.messages import rerun_command

    deployed = "service" in in_place and new.get("kind") == "service"
    waits = [
        key
        for key in changed
        if key in IN_PLACE and IN_PLACE[key] not in in_place and not (key == "secrets" and deployed)
    ]
    texts = []
    if waits:
        texts.append(
            f"{record.provider} cannot edit {' and '.join(waits)} on a running machine: applied"
            " when it is next replaced"
        )
    if "workload" in changed and new.get("kind") == "job" and not _rerun(record):
        texts.append(
            f"{record.provider} runs the job as it was declared:"
            f" {rerun_command(record.cluster)} starts one with this workload"
        )
    return "; ".join(texts)


def _other_volumes(old: Mapping[str, Any], new: Mapping[str, Any], record: ClusterRecord) -> bool:
    """True where what runs has other volumes than it is to mount."""
    from providers.engine.record import finished

    if not record.provider or finished(record) or has_unknown(new.get("workload")):
        return False
    before, after = ((each.get("workload") or {}).get("volumes") or {} for each in (old, new))
    return bool(before != after)


def _runs_ours(record: ClusterRecord) -> bool:
    """True where an edit of the workload is run on the present machine."""
    from providers.engine.record import finished

    return bool(record.provider) and not finished(record) and _rerun(record)


def _rerun(record: ClusterRecord) -> bool:
    """True where a start-up script of ours runs the work, so that an edit of it is run again on the
    present machine; a provider's own job takes none.
    """
    return "work" in dict(record.applied)


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]


def _disk(old: Mapping[str, Any], record: ClusterRecord) -> Any:
    """GiB of the disk that was bought, which a smaller one declared since did not shrink; of an
    older record what was declared last.
    """
    bought = str(dict(record.applied).get("disk_gib"))
    return int(bought) if bought.isdigit() else old.get("disk_gib")


def _larger(old: Any, new: Any) -> bool:
    return new is not None and (old is None or new > old)


def _section(inputs: Mapping[str, Any], provider: str) -> Any:
    options = inputs.get("options")
    return options if options is UNKNOWN else (options or {}).get(provider)


def _certificate(inputs: Mapping[str, Any]) -> Any:
    """Where the proxy's certificate is fetched; None for none."""
    tls = inputs.get("tls")
    return tls.get("certificate") if isinstance(tls, dict) else tls


def _moved(old: Mapping[str, Any], new: Mapping[str, Any], record: ClusterRecord) -> bool:
    """True when the links that the placement uses differ; those of other regions do not matter. A
    link that is not known yet is another one.
    """
    before, after = old.get("network_links") or {}, new.get("network_links")
    if after is UNKNOWN:
        return True
    after = after or {}
    here = f".{record.placement.region}"
    used = [key for key in {*before, *after} if "." not in key or key.endswith(here)]
    return any(before.get(key) != after.get(key) for key in used)


def asked(inputs: Mapping[str, Any], command: str) -> Any:
    """How often a command (rerun, reclaim) asked, by the inputs."""
    triggers = inputs.get("triggers")
    return triggers.get(command, 0) if isinstance(triggers, dict) else triggers or 0


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
