"""What can be read of a declared cluster that is over, without its machines: the end of its output,
and what it saved to a bucket.

Owns the refusals for all else. Copies from a bucket with the bucket's own program on this machine,
as the start-up script does there; asks no cloud otherwise.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NoReturn

from providers.adapters import registry
from providers.engine.journal.orders import EVERY
from providers.engine.readiness.output import kept
from providers.engine.runtime.world import open_world
from providers.errors import GpusError
from providers.remote.files import no_link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.adhoc.stack_clusters import Declared

PROGRAMS = {
    "gs": (("gcloud", "storage", "cp"), ("gcloud", "storage", "rsync", "-r")),
    "s3": (("aws", "s3", "cp"), ("aws", "s3", "sync")),
}
"""By a bucket's scheme: what copies a file from it, and what copies a folder."""


def log(one: Declared, number: int) -> str:
    """The end of what its machine of that number wrote. Raises GpusError where none was kept."""
    text = kept(one.record, number)
    if text is not None:
        return text
    nodes = one.record.placement.nodes
    if not 0 <= number < nodes:
        raise GpusError(
            f"{one.record.cluster}: wanted the number of one of its {nodes} machines,"
            f" from 0, found {number}"
        )
    if one.record.kind == "job":
        raise GpusError(
            f"{_is_over(one)}; what it wrote could not be kept then, or was bought from another"
            " machine"
        )
    raise GpusError(f"{_is_over(one)}, and what it wrote went with it; {one.again()}")


def refuse(one: Declared, wanted: str) -> NoReturn:
    """Says why nobody logs in there any more, and what there is instead."""
    found = saved(one)
    instead = []
    if kept(one.record, 0) is not None:
        instead.append(f"`gpus logs {one.record.cluster}` shows the end of what it wrote")
    if found is not None:
        instead.append(
            f"`gpus cp {one.record.cluster}:{PurePosixPath(found[0]).name} .`"
            f" brings what it saved in {found[1]}"
        )
    if one.record.kind != "job":
        instead.append(one.again())
    elif "job" in registry.manifests()[one.record.provider].capabilities.workload_kinds:
        instead.append("`on_done: keep` keeps the machine of the next one")
    raise GpusError("; ".join([f"{_is_over(one)}: wanted {wanted}, found no machine", *instead]))


def keeps(one: Declared, there: str) -> bool:
    """True for what the job's bucket has: its checkpoint's folder, or something within. Reads the
    journal.
    """
    found = saved(one)
    return found is not None and _within(PurePosixPath(found[0]), PurePosixPath(there)) is not None


def fetch(one: Declared, there: str, local: str) -> Path:
    """Copies what the job saved, or a file or folder of it, to this machine; its path here. Runs
    the bucket's program.

    `there` names the checkpoint's folder by its path or its last part, or something within; a
    folder with a dot in its name ends with a slash. Raises GpusError for all else.
    """
    found = saved(one)
    if found is None:
        raise GpusError(
            f"{_is_over(one)}: wanted {there}, found nothing of it: it was declared without"
            " `checkpoint`, which would have kept a folder"
        )
    path, bucket = found
    rest = _within(PurePosixPath(path), PurePosixPath(there))
    if rest is None:
        name = one.record.cluster
        raise GpusError(
            f"{_is_over(one)}: wanted {there}, found that only {path} was kept, in {bucket}: gpus"
            f" cp {name}:{path} {local}"
        )
    source = "/".join((bucket.rstrip("/"), *rest.parts))
    record = one.record
    if not registry.is_real(record.provider, record.world, dict(record.account or ())):
        raise GpusError(
            f"{_is_over(one)}: a rehearsal's job is played, so it saved nothing; live, this copies"
            f" {source} to {local}"
        )
    target = Path(local).expanduser()
    if not local.endswith("/"):
        no_link(target)
    # A bucket has no folders to ask about: what has a dot in its name is a file, unless a slash
    # follows.
    folder = not rest.suffix or there.endswith("/")
    command = _copying(source, target, folder=folder)
    if shutil.which(command[0]) is None:
        raise GpusError(
            f"wanted {command[0]} on this machine to copy {source}, found none; with it:"
            f" {' '.join(command)}"
        )
    (target if folder else target.parent).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = next(
            (text.strip() for text in reversed(done.stderr.splitlines()) if text.strip()),
            f"it ended with {done.returncode}",
        )
        raise GpusError(
            f"wanted {source} here, found that `{' '.join(command)}` failed: {why[:200]}"
        )
    return target


def saved(one: Declared) -> tuple[str, str] | None:
    """(folder on the machine, bucket's URL) of what the job kept, as the journal has its start-up
    script; None for nothing. Reads the journal.
    """
    from providers.workloads.launch.start_script import checkpoint

    record = one.record
    world = open_world(record.world)
    try:
        entries = world.journal.orders(
            record.world, record.owner, record.cluster, record.generation, EVERY
        )
    finally:
        world.close()
    return next(
        (
            found
            for entry in reversed(entries)
            if (found := checkpoint(entry.order.setup.script)) is not None
        ),
        None,
    )


def _within(path: PurePosixPath, there: PurePosixPath) -> PurePosixPath | None:
    """What of the folder is meant: `out`, `out/x` and `/opt/out/x` are within `/opt/out`; None for
    what is not.
    """
    whole = there if there.is_absolute() else path.parent / there
    return (
        whole.relative_to(path) if whole.is_relative_to(path) and ".." not in whole.parts else None
    )


def _copying(source: str, target: Path, *, folder: bool) -> Sequence[str]:
    of_file, of_folder = PROGRAMS[source.partition(":")[0]]
    return (*(of_folder if folder else of_file), source, str(target))


def _is_over(one: Declared) -> str:
    return f"{one.record.cluster}: {one.told()}"
