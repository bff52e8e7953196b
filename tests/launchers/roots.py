"""Root file systems of Debian and Ubuntu, made by debootstrap once and kept beside the tools of this
machine, and images of a test's daemon that are made of them.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from providers.rehearsal.nodes import image
from tests.launchers.docker import Daemon

DEBIAN, UBUNTU = "bookworm", "jammy"
"""As the rehearsal's machines have it, and as Google's and Amazon's images with NVIDIA's driver."""
_COMPONENTS = {DEBIAN: "main", UBUNTU: "main,universe"}
_PACKAGES = re.compile(r"--no-install-recommends (.*?)&&", re.DOTALL)


def packages() -> list[str]:
    """What the image of the rehearsal's machines installs, and what comes with Docker."""
    found = _PACKAGES.search((image.CONTEXT / "Dockerfile").read_text())
    assert found is not None
    return sorted({*found[1].replace("\\", " ").split(), "apparmor", "git"})


def root(suite: str) -> Path:
    """The file system as a tarball. It has the packages of the rehearsal's machines, so that their
    image is made in seconds. Skips where it cannot be made, with the reason.
    """
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap: apt-get install debootstrap")
    wanted = ",".join(packages())
    digest = hashlib.sha256(f"{suite} {wanted}".encode()).hexdigest()[:12]
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpus" / "roots"
    kept.mkdir(parents=True, exist_ok=True)
    made = kept / f"{suite}-{digest}.tar"
    with (kept / f"{suite}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=kept) as folder:
                _bootstrap(suite, Path(folder), wanted)
                new = made.with_suffix(".new")
                words = ["tar", "-C", f"{folder}/root", "--exclude=./var/cache/apt/archives/*"]
                subprocess.run([*words, "-cf", str(new), "."], check=True)
            new.rename(made)
    return made


def _bootstrap(suite: str, folder: Path, wanted: str) -> None:
    # Ubuntu's keys are in no package of Debian's; what is made here runs in containers only.
    unsigned = ["--no-check-gpg"] if suite == UBUNTU else []
    words = ["debootstrap", *unsigned, "--variant=minbase", f"--include={wanted}"]
    words += [f"--components={_COMPONENTS[suite]}", suite, f"{folder}/root"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no root file system of {suite} can be made here: {done.stdout[-300:]}")


def imported(daemon: Daemon, suite: str, name: str) -> None:
    """Makes it an image of the daemon."""
    daemon.call("import", str(root(suite)), name)
