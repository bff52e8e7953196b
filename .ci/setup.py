"""Makes the working environment: `.venv`, the Pulumi tool chain in it, local state in `.state`, the
declared stacks.

Owns everything that `make setup` does. Plain standard library, since it runs before anything is
installed. Safe to run again: each step first looks whether it is done. Nothing that git tracks is
changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
ENVIRONMENT = REPOSITORY / ".venv"
STATE = REPOSITORY / ".state"
BIN = ENVIRONMENT / "bin"
SELECTED = "train-h100x8"
PULUMI_VERSION = "3.276.0"
OLDEST_PULUMI = (3, 200)
LANGUAGE_HOST_VERSION = "3.78.0"
"""The newest version of the Go module `sdk/v3` that still holds the Python language host."""
UV_VERSION = "0.13.9"
OLDEST_UV = (0, 5)
TOOLS = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")
INSTALLER = "https://get.pulumi.com"
OTHER_PASSPHRASE = "incorrect passphrase"  # noqa: S105 - what is said, not a secret
"""What `pulumi stack init` says (CLI 3.276) where the salt of the stack's file was made with
another one than the environment's.
"""

STARTED = (
    *("pip", "pulumi", "grpc", "google/protobuf", "opentelemetry", "dill", "yaml", "semver"),
    *("packaging", "psutil", "pydantic", "pydantic_core", "annotated_types", "typing_inspection"),
    "typing_extensions.py",
)
"""What the processes of a preview import: Pulumi's language host, the program and the plugin."""


SERVERS = (
    ("docker.io", "dockerd"),
    ("busybox-static", "busybox"),
    ("openssh-server", "sshd"),
    ("rsync", "rsync"),
    ("debootstrap", "debootstrap"),
    ("docker-registry", "docker-registry"),
    ("openmpi-bin", "mpirun"),
    ("haproxy", "haproxy"),
    ("chromium", "chromium"),
)
"""Debian's packages of the real servers and tools that tests start, and a program of each."""


class SetupError(Exception):
    """One clear message: what is missing and how to get it."""


def say(text: str) -> None:
    """A line on the screen, at once."""
    print(f"setup: {text}", flush=True)


def run(
    command: list[str],
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    slow: str = "",
) -> str:
    """The command's output. `slow` names a step worth a line every half minute. Raises SetupError
    with the end of the output.
    """
    started = time.monotonic()
    over = threading.Event()

    def heartbeat() -> None:
        while not over.wait(30):
            say(f"{slow}: {int(time.monotonic() - started)} s so far")

    if slow:
        threading.Thread(target=heartbeat, daemon=True).start()
    try:
        done = subprocess.run(
            command, env=env, cwd=cwd, capture_output=True, text=True, check=False
        )
    finally:
        over.set()
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise SetupError(f"`{' '.join(command)}` ended with {done.returncode}:\n{tail}")
    return done.stdout


def check_machine() -> None:
    """Python and git are there, and Python can make environments."""
    if sys.version_info < (3, 11):
        raise SetupError(
            f"Python 3.11 or newer is needed, this is {platform.python_version()}. Install it (apt"
            " install python3.11-venv, brew install python@3.12, or python.org), then name it:"
            " make PYTHON=python3.11 up"
        )
    if shutil.which("git") is None:
        raise SetupError(
            "git is needed and not on PATH. Install it: apt install git, brew install git, or"
            " git-scm.com"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise SetupError(
            "this Python cannot make environments. On Debian and Ubuntu: apt install python3-venv"
        ) from None


def make_environment(*, development: bool) -> None:
    """`.venv` with the package and exactly what the lock file names; with `development`, what the
    tests need too.
    """
    stamp = ENVIRONMENT / "installed.json"
    have = json.loads(stamp.read_text()) if stamp.exists() else {}
    tools = development or bool(have.get("development"))
    lock = REPOSITORY / ("requirements-dev.lock" if tools else "requirements.lock")
    wanted = hashlib.sha256(
        (REPOSITORY / "pyproject.toml").read_bytes() + lock.read_bytes() + sys.version.encode()
    ).hexdigest()
    if have.get("of") == wanted and (BIN / "gpus").exists():
        return
    uv = uv_tool()
    # A network's own certificate authority stands in the system's store alone.
    os.environ.setdefault("UV_NATIVE_TLS", "1")
    if have.get("python") != sys.version or not (BIN / "python").exists():
        say("making .venv")
        fresh = ["--quiet", "--seed", "--clear", "--python", sys.executable]
        run([uv, "venv", *fresh, str(ENVIRONMENT)])
    say(
        f"installing the Python packages{' and the test tools' if tools else ''} (up to a minute"
        " the first time)"
    )
    into = ["--quiet", "--python", str(BIN / "python")]
    run([uv, "pip", "sync", *into, "--require-hashes", str(lock)], slow="installing")
    # A plain path entry: the default import hook of an editable install costs every Python start 10
    # ms.
    plain_path = ["--config-settings", "editable_mode=compat"]
    run(
        [uv, "pip", "install", *into, *plain_path, "--no-deps", "-e", str(REPOSITORY)],
        slow="installing",
    )
    stamp.write_text(json.dumps({"of": wanted, "development": tools, "python": sys.version}))


def uv_tool() -> str:
    """The path of uv, which installs from a lock file in seconds: the one on PATH, else one kept in
    the cache, got by pip once.
    """
    found = shutil.which("uv", path=outside_path())
    if found is not None:
        answer = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        version = re.match(r"uv (\d+)\.(\d+)", answer.stdout)
        if version and (int(version[1]), int(version[2])) >= OLDEST_UV:
            return found
    kept = cache_folder() / f"uv-{UV_VERSION}"
    tool = kept / "bin" / "uv"
    if not tool.exists():
        say(f"getting uv {UV_VERSION}, which installs the packages")
        run([sys.executable, "-m", "venv", "--clear", str(kept)])
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
        pip = [str(kept / "bin" / "python"), "-m", "pip"]
        run([*pip, "install", *quiet, f"uv=={UV_VERSION}"])
    return str(tool)


def install_servers() -> None:
    """The real servers that some tests start, by apt where that is allowed; elsewhere a line says
    why they will be skipped.
    """
    missing = [package for package, tool in SERVERS if shutil.which(tool) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        say(
            f"{' and '.join(missing)} missing, and not to be installed here (needs root, and"
            " apt-get): the tests that start them are skipped"
        )
        return
    say(f"installing {' and '.join(missing)} for the tests that start them")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        run(["apt-get", "update", "-q"], env=quiet, slow="apt-get update")
        run(["apt-get", "install", "-qy", *missing], env=quiet, slow="apt-get install")
    except SetupError as error:
        say(f"{error}\nthe tests that start them are skipped")


def compile_sources() -> None:
    """Bytecode of the package and of what a preview imports, which uv does not make: where
    PYTHONDONTWRITEBYTECODE is set, each start would compile anew.
    """
    folders = [
        path
        for packages in ENVIRONMENT.glob("lib/python*/site-packages")
        for name in STARTED
        if (path := packages / name).exists()
    ]
    quiet = [str(BIN / "python"), "-m", "compileall", "-q"]
    run([*quiet, *map(str, (REPOSITORY / "providers", *folders))])


def outside_path() -> str:
    """PATH without this environment's own folder."""
    return os.pathsep.join(
        part
        for part in os.environ.get("PATH", "").split(os.pathsep)
        if part and Path(part).resolve() != BIN.resolve()
    )


def found_on_path() -> Path | None:
    """The folder of a Pulumi installation that is recent enough, or None."""
    cli = shutil.which("pulumi", path=outside_path())
    host = shutil.which("pulumi-language-python", path=outside_path())
    if cli is None or host is None:
        return None
    answer = subprocess.run(
        [cli, "version"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
    )
    version = re.match(r"v?(\d+)\.(\d+)", answer.stdout.strip())
    if not version or (int(version[1]), int(version[2])) < OLDEST_PULUMI:
        oldest = ".".join(map(str, OLDEST_PULUMI))
        say(
            f"the pulumi on PATH ({answer.stdout.strip() or 'no answer'}) is older than {oldest}:"
            f" getting {PULUMI_VERSION} beside it"
        )
        return None
    return Path(cli).resolve().parent


def cache_folder() -> Path:
    """Where tools are kept: outside the checkout, so that a second checkout has them."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpus"


def cache() -> Path:
    """Where the Pulumi tool chain is kept, by version and machine."""
    return (
        cache_folder()
        / f"pulumi-{PULUMI_VERSION}-{platform.system().lower()}-{platform.machine().lower()}"
    )


def official_installer(into: Path) -> bool:
    """Pulumi's own installer, into the cache. False when it cannot be had from here."""
    say(f"getting Pulumi {PULUMI_VERSION} by the official installer")
    try:
        with urllib.request.urlopen(INSTALLER, timeout=10) as answer:
            script = answer.read()
    except OSError as error:
        say(f"the installer cannot be reached from here ({getattr(error, 'reason', error)})")
        return False
    if not script.startswith(b"#!"):
        say("what answered is not the installer")
        return False
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "install.sh"
        path.write_bytes(script)
        try:
            where = ["--install-root", scratch, "--no-edit-path"]
            run(
                ["sh", str(path), "--version", PULUMI_VERSION, *where],
                slow="installing Pulumi",
            )
        except SetupError as error:
            say(f"the installer failed: {str(error).splitlines()[-1]}")
            return False
        publish(Path(scratch) / "bin", into)
    return True


def publish(built: Path, into: Path) -> None:
    """Moves the finished tools into the cache in one step, so that an interrupted run leaves
    nothing half done there.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{into.name}-", dir=into.parent))
    for tool in built.iterdir():
        if tool.name.startswith("pulumi"):
            shutil.copy2(tool, staged / tool.name)
    staged.chmod(0o755)
    shutil.rmtree(into, ignore_errors=True)
    staged.rename(into)


def go_build(into: Path) -> None:
    """The tool chain from its Go modules, with the ordinary Go client."""
    go = shutil.which("go")
    if go is None:
        raise SetupError(
            "the Pulumi CLI is not on PATH, the official installer cannot be reached, and Go is not"
            " there to build it. Install Pulumi (pulumi.com/docs/install) or Go 1.25 or newer"
            " (go.dev/doc/install), then run this again"
        )
    say(
        f"building Pulumi {PULUMI_VERSION} with Go: 4 to 9 minutes on 2 cores, once; kept in {into}"
    )
    env = {**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"}
    with tempfile.TemporaryDirectory() as scratch:
        built = Path(scratch) / "bin"
        built.mkdir()
        jobs = (
            (
                "pulumi-language-python",
                "sdk/v3",
                LANGUAGE_HOST_VERSION,
                "sdk/v3/python/cmd/pulumi-language-python",
            ),
            ("pulumi", "pkg/v3", PULUMI_VERSION, "pkg/v3/cmd/pulumi"),
        )
        for tool, module, version, package in jobs:
            folder = Path(scratch) / tool
            folder.mkdir()
            (folder / "go.mod").write_text(
                "module gpus.invalid/toolchain\n\ngo 1.24\n\nrequire"
                f" github.com/pulumi/pulumi/{module} v{version}\n"
            )
            run(
                [go, "build", "-o", str(built / tool), f"github.com/pulumi/pulumi/{package}"],
                env=env,
                cwd=folder,
                slow=f"building {tool}",
            )
        listed = run(
            [go, "mod", "download", "-json", f"github.com/pulumi/pulumi/sdk/v3@v{PULUMI_VERSION}"],
            env=env,
            cwd=Path(scratch) / "pulumi",
        )
        source = Path(json.loads(listed)["Dir"]) / "python" / "cmd" / "pulumi-language-python-exec"
        shutil.copy(source, built / source.name)
        (built / source.name).chmod(0o755)
        publish(built, into)


def get_tools() -> None:
    """The Pulumi CLI and the Python language host, first on the environment's PATH."""
    if found_on_path() is not None:
        for tool in TOOLS:
            (BIN / tool).unlink(missing_ok=True)
        return
    kept = cache()
    if not all((kept / tool).exists() for tool in TOOLS) and not official_installer(kept):
        go_build(kept)
    for tool in TOOLS:
        link = BIN / tool
        if not link.is_symlink() or link.resolve() != (kept / tool).resolve():
            link.unlink(missing_ok=True)
            link.symlink_to(kept / tool)


ACTIVATION = REPOSITORY / ".ci" / "activate.sh"
BEGIN, END = "# ---- gpus: rehearsal by default", "# ---- gpus: end"


def activation() -> None:
    """What `. .venv/bin/activate` sets beyond Python's own."""
    script = BIN / "activate"
    text = re.sub(rf"\n{BEGIN}.*?{END}\n", "", script.read_text(), flags=re.DOTALL)
    project = f"GPUS_PROJECT={shlex.quote(str(REPOSITORY))}"
    wanted = f"{text}\n{BEGIN}\n{project}\n{ACTIVATION.read_text()}{END}\n"
    if script.read_text() != wanted:
        script.write_text(wanted)


def environ() -> dict[str, str]:
    """The activated environment, for the commands that set-up itself runs."""
    env = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{outside_path()}",
        "VIRTUAL_ENV": str(ENVIRONMENT),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    env.setdefault("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true")
    env.setdefault("PULUMI_BACKEND_URL", f"file://{STATE}")
    if "PULUMI_CONFIG_PASSPHRASE_FILE" not in env:
        env.setdefault("PULUMI_CONFIG_PASSPHRASE", "")
    return env


def make_stacks() -> None:
    """The local state and every stack that a file declares; `train-h100x8` selected unless another
    one is.
    """
    STATE.mkdir(mode=0o700, exist_ok=True)
    (STATE / "gpus").mkdir(mode=0o700, exist_ok=True)
    declared = sorted(
        path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        for path in (REPOSITORY / "stacks").glob("Pulumi.*.yaml")
    )
    env = environ()
    local = env["PULUMI_BACKEND_URL"] == f"file://{STATE}"
    marker = STATE / "stacks.json"
    if (
        local
        and marker.exists()
        and json.loads(marker.read_text()) == declared
        and (STATE / ".pulumi" / "stacks").exists()
    ):
        return
    listed = json.loads(run(["pulumi", "stack", "ls", "--json"], env=env, cwd=REPOSITORY) or "[]")
    existing = {stack["name"].rsplit("/", 1)[-1] for stack in listed}
    left_out = []
    for stack in declared:
        if stack in existing:
            continue
        path = REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml"
        before = path.read_bytes()
        try:
            run(
                ["pulumi", "stack", "init", stack, "--no-select", "--non-interactive"],
                env=env,
                cwd=REPOSITORY,
            )
        except SetupError as error:
            if OTHER_PASSPHRASE not in str(error):
                raise
            left_out.append(stack)
        else:
            say(f"made the stack {stack}")
        if path.read_bytes() != before:
            path.write_bytes(before)
    if left_out:
        todo = (
            "to make one with yours, delete the line encryptionsalt of its file, and `pulumi stack"
            " init` it"
        )
        say(
            "left out, since their files were made with another passphrase than the one that is"
            f" set: {', '.join(left_out)}; {todo}"
        )
    if not any(stack.get("current") for stack in listed) and SELECTED not in left_out:
        run(["pulumi", "stack", "select", SELECTED, "--non-interactive"], env=env, cwd=REPOSITORY)
    if local and not left_out:
        marker.write_text(json.dumps(declared))


def main() -> int:
    """0 when the environment is ready."""
    parser = argparse.ArgumentParser(description="Make the working environment.")
    parser.add_argument("--development", action="store_true", help="with the test tools")
    parser.add_argument(
        "--servers",
        action="store_true",
        help="with Docker, busybox and sshd by apt, for the tests that start them",
    )
    arguments = parser.parse_args()
    # What is made here can be used by its owner, and changed by no stranger, whatever the umask.
    os.umask(os.umask(0o077) & 0o077 | 0o002)
    started = time.monotonic()
    try:
        check_machine()
        make_environment(development=arguments.development)
        if arguments.servers:
            install_servers()
        compile_sources()
        get_tools()
        activation()
        make_stacks()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: stopped; run it again to go on", file=sys.stderr)
        return 130
    say(f"ready in {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
