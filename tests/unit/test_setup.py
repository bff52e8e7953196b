import contextlib
import importlib.util
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.present import present

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def setup(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("project_setup", REPOSITORY / ".ci" / "setup.py")
    module = importlib.util.module_from_spec(present(spec))
    present(present(spec).loader).exec_module(module)
    monkeypatch.setattr(module, "ENVIRONMENT", tmp_path / ".venv")
    monkeypatch.setattr(module, "BIN", tmp_path / ".venv" / "bin")
    module.BIN.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return module


def tool(folder: Path, name: str, says: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_recent_pulumi_on_path_is_used(setup, tmp_path, monkeypatch) -> None:
    """What is on PATH and recent enough is taken; nothing is fetched or built."""
    tool(tmp_path / "other", "pulumi", "v3.300.1")
    tool(tmp_path / "other", "pulumi-language-python")
    monkeypatch.setenv(
        "PATH", f"{setup.BIN}{os.pathsep}{tmp_path / 'other'}{os.pathsep}/usr/bin:/bin"
    )
    assert setup.found_on_path() == tmp_path / "other"


def test_an_old_pulumi_on_path_is_not_used(setup, tmp_path, monkeypatch, capsys) -> None:
    """An old CLI is named and passed over."""
    tool(tmp_path / "other", "pulumi", "v3.90.0")
    tool(tmp_path / "other", "pulumi-language-python")
    monkeypatch.setenv("PATH", f"{tmp_path / 'other'}{os.pathsep}/usr/bin:/bin")
    assert setup.found_on_path() is None
    assert "v3.90.0" in capsys.readouterr().out


def test_the_environment_does_not_find_its_own_tools(setup, monkeypatch) -> None:
    """An activated environment must not take its own links for an installation."""
    tool(setup.BIN, "pulumi", "v3.300.1")
    tool(setup.BIN, "pulumi-language-python")
    monkeypatch.setenv("PATH", f"{setup.BIN}{os.pathsep}/usr/bin:/bin")
    assert setup.found_on_path() is None


def test_cached_tools_are_linked_without_any_fetch(setup, monkeypatch) -> None:
    """The second set-up on a machine only makes links."""
    for name in setup.TOOLS:
        tool(setup.cache(), name)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(
        setup, "official_installer", lambda into: pytest.fail("asked for the installer")
    )
    setup.get_tools()
    setup.get_tools()
    assert sorted(path.name for path in setup.BIN.iterdir()) == sorted(setup.TOOLS)


def test_without_installer_and_go_the_message_says_how_to_get_them(setup, monkeypatch) -> None:
    """What is missing is named with how to get it."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(setup.SetupError, match=r"go.dev"):
        setup.go_build(setup.cache())


def test_an_interrupted_build_leaves_nothing_in_the_cache(setup, tmp_path) -> None:
    """The cache holds a finished tool chain or none."""
    for name in (*setup.TOOLS, "unrelated"):
        tool(tmp_path / "built", name)
    setup.publish(tmp_path / "built", setup.cache())
    assert sorted(path.name for path in setup.cache().iterdir()) == sorted(setup.TOOLS)
    assert [path.name for path in setup.cache().parent.iterdir()] == [setup.cache().name]


def test_activation_is_written_once_and_respects_what_is_set(setup, monkeypatch) -> None:
    """Running set-up twice changes nothing; a backend and a passphrase that the user has set stay."""
    (setup.BIN / "activate").write_text("# python's own\n")
    setup.activation()
    once = (setup.BIN / "activate").read_text()
    setup.activation()
    assert (setup.BIN / "activate").read_text() == once
    show = (
        f'. "{setup.BIN / "activate"}"; echo'
        ' "$PULUMI_BACKEND_URL|${PULUMI_CONFIG_PASSPHRASE-unset}|$GPUS_HOME"'
    )
    bare = {"PATH": "/usr/bin:/bin"}
    shown = subprocess.run(
        ["sh", "-c", show], env=bare, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert shown == f"file://{REPOSITORY}/.state||{REPOSITORY}/.state/gpus"
    own = {
        **bare,
        "PULUMI_BACKEND_URL": "s3://mine",
        "PULUMI_CONFIG_PASSPHRASE_FILE": "/x",
        "GPUS_HOME": "/y",
    }
    shown = subprocess.run(
        ["sh", "-c", show], env=own, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert shown == "s3://mine|unset|/y"


def test_a_stack_file_of_another_passphrase_is_left_out_with_a_line(
    setup, tmp_path, monkeypatch, capsys
) -> None:
    """Set-up with a passphrase of one's own makes what it can, names the stacks whose files were
    made with another one, and says what to do.
    """
    monkeypatch.setattr(setup, "REPOSITORY", tmp_path)
    monkeypatch.setattr(setup, "STATE", tmp_path / ".state")
    (tmp_path / "stacks").mkdir()
    for name in ("mine", "train-h100x8"):
        (tmp_path / "stacks" / f"Pulumi.{name}.yaml").write_text(f"of: {name}\n")
    tool(setup.BIN, "pulumi")
    (setup.BIN / "pulumi").write_text(f"""#!/bin/sh
echo "$*" >> {tmp_path}/asked
case "$*" in *ls*) echo '[]';; *init*h100*) echo 'error: could not create secrets manager for new stack: incorrect passphrase' >&2; exit 255;; esac
""")
    setup.make_stacks()
    said = capsys.readouterr().out
    assert (
        "left out" in said
        and "is set: train-h100x8; to make one with yours, delete the line encryptionsalt" in said
    )
    asked = (tmp_path / "asked").read_text()
    assert "stack init mine" in asked and "stack select" not in asked
    assert not (setup.STATE / "stacks.json").exists(), "the next set-up tries again"


def test_a_failing_step_is_one_message_without_traceback(tmp_path) -> None:
    """No traceback for anything a user can cause: here, a Python that cannot make environments."""
    broken = tmp_path / "ensurepip.py"
    broken.write_text("raise ImportError\n")
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / ".ci" / "setup.py")],
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("setup: this Python cannot make environments")
    assert "Traceback" not in done.stderr


def test_a_recent_uv_on_path_is_used_and_an_old_one_is_not(setup, tmp_path, monkeypatch) -> None:
    """The packages are installed by the uv that is there, if it is recent enough; else by one kept
    in the cache.
    """
    tool(tmp_path / "other", "uv", "uv 0.13.0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'other'}{os.pathsep}/usr/bin:/bin")
    assert setup.uv_tool() == str(tmp_path / "other" / "uv")
    tool(tmp_path / "other", "uv", "uv 0.1.0")
    kept = setup.cache_folder() / f"uv-{setup.UV_VERSION}" / "bin"
    tool(kept, "uv")
    assert setup.uv_tool() == str(kept / "uv")


def test_uv_trusts_the_systems_certificates(setup, monkeypatch) -> None:
    """A network's own certificate authority is in the system's store and not in uv's own."""
    monkeypatch.setenv("UV_NATIVE_TLS", "")
    monkeypatch.delenv("UV_NATIVE_TLS")
    seen: list[str | None] = []

    def kept(_command: list[str], **_: Any) -> str:
        seen.append(os.environ.get("UV_NATIVE_TLS"))
        return ""

    monkeypatch.setattr(setup, "uv_tool", lambda: "uv")
    monkeypatch.setattr(setup, "run", kept)
    with contextlib.suppress(setup.SetupError, OSError):
        setup.make_environment(development=False)
    assert seen and set(seen) == {"1"}


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("requirements.lock", ["aws", "clore", "modal"]),
        ("requirements-dev.lock", ["aws", "clore", "modal", "dev"]),
    ],
)
def test_the_lock_file_satisfies_every_declared_dependency(lock, extras) -> None:
    """A dependency that is added or raised without `make lock` fails here."""
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = [
        *project["dependencies"],
        *(line for extra in extras for line in project["optional-dependencies"][extra]),
    ]
    lines = [
        line.split(";")[0].strip(" \\")
        for line in (REPOSITORY / lock).read_text().splitlines()
        if "==" in line and not line.startswith(" ")
    ]
    locked = {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines)
    }
    for requirement in map(Requirement, declared):
        if requirement.name != "gpus":
            assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), (
                f"{requirement}: run `make lock`"
            )


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_file_pins_by_hash_and_names_no_host(lock) -> None:
    """What is installed is what was locked, from whatever registry the machine uses."""
    text = (REPOSITORY / lock).read_text()
    assert "--hash=sha256:" in text
    assert "://" not in text


@pytest.mark.parametrize(
    ("root", "apt", "have"),
    [
        (True, True, ()),
        (True, True, ("dockerd",)),
        (True, True, ("dockerd", "busybox", "sshd")),
        (False, True, ()),
        (True, False, ()),
    ],
)
def test_servers_are_installed_where_that_is_allowed(
    setup, tmp_path, monkeypatch, capsys, root, apt, have
) -> None:
    """Only what is missing, by root and apt-get; otherwise one line says that their tests are
    skipped.
    """
    here = tmp_path / "tools"
    here.mkdir()
    for name in have:
        tool(here, name)
    if apt:
        (here / "apt-get").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')
        (here / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(here))
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0 if root else 1000)
    setup.install_servers()
    asked = (tmp_path / "asked").read_text().splitlines() if (tmp_path / "asked").exists() else []
    missing = [package for package, program in setup.SERVERS if program not in have]
    assert asked == (
        ["update -q", f"install -qy {' '.join(missing)}"] if missing and root and apt else []
    )
    assert ("skipped" in capsys.readouterr().out) is bool(missing and not (root and apt))


def test_a_mirror_that_does_not_answer_does_not_end_the_set_up(
    setup, tmp_path, monkeypatch, capsys
) -> None:
    """The tests that need it are skipped, and the end of what apt said is shown."""
    (tmp_path / "apt-get").write_text("#!/bin/sh\necho no route to the mirror >&2\nexit 100\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    setup.install_servers()
    assert "no route to the mirror" in (told := capsys.readouterr().out) and "skipped" in told


@pytest.mark.parametrize(
    ("umask", "within"), [(0o777, 0o077), (0o000, 0o002), (0o077, 0o077), (0o022, 0o022)]
)
def test_set_up_works_with_any_umask_and_lets_no_stranger_change_its_tools(
    setup, monkeypatch, umask, within
) -> None:
    """Its owner can use what it makes; others cannot write it; what the umask hides stays hidden."""
    seen = []
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    monkeypatch.setattr(setup, "check_machine", lambda: seen.append(os.umask(0o022)))
    for step in (
        "make_environment",
        "compile_sources",
        "get_tools",
        "activation",
        "make_stacks",
    ):
        monkeypatch.setattr(setup, step, lambda **_more: None)
    before = os.umask(umask)
    try:
        assert setup.main() == 0
    finally:
        os.umask(before)
    assert seen == [within]
