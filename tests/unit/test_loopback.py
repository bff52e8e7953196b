"""A company's proxy is never asked for this machine's own addresses: the activation spares them,
and commands on a stack say what is missing.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from providers.cli.loopback import proxied
from tests.present import present

REPOSITORY = Path(__file__).parents[2]


def activated(shell, tmp_path, **environ):
    """What the variables are after the activation's lines, in that shell."""
    spec = importlib.util.spec_from_file_location("setup_script", REPOSITORY / ".ci" / "setup.py")
    setup = importlib.util.module_from_spec(present(spec))
    sys.modules["setup_script"] = setup
    present(present(spec).loader).exec_module(setup)
    script = (
        "GPUS_PROJECT=/p\n"
        + setup.ACTIVATION.read_text()
        + '\nprintf "%s|%s" "$no_proxy" "$NO_PROXY"'
    )
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environ}
    return subprocess.run(
        [shell, "-euc", script], env=clean, capture_output=True, text=True, check=True
    ).stdout.split("|")


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("environ", "lower", "upper"),
    [
        ({}, "127.0.0.1,localhost", "127.0.0.1,localhost"),
        (
            {"no_proxy": "corp.example"},
            "corp.example,127.0.0.1,localhost",
            "corp.example,127.0.0.1,localhost",
        ),
        (
            {"NO_PROXY": "corp.example,.lan"},
            "corp.example,.lan,127.0.0.1,localhost",
            "corp.example,.lan,127.0.0.1,localhost",
        ),
        ({"no_proxy": "a", "NO_PROXY": "b"}, "a,127.0.0.1,localhost", "b,127.0.0.1,localhost"),
        ({"no_proxy": "127.0.0.1,localhost"}, "127.0.0.1,localhost", "127.0.0.1,localhost"),
        ({"no_proxy": "*"}, "*", "*"),
    ],
)
def test_the_activation_spares_loopback_and_keeps_what_the_user_has(
    tmp_path, shell, environ, lower, upper
) -> None:
    """C16 (pulumi#2651, #2134): both spellings, and a second activation changes nothing."""
    first = activated(shell, tmp_path, http_proxy="http://127.0.0.1:9", **environ)
    assert first == [lower, upper]
    assert activated(shell, tmp_path, no_proxy=first[0], NO_PROXY=first[1]) == first


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, ""),
        ({"HTTP_PROXY": "http://p:1"}, ""),
        ({"http_proxy": "http://p:1"}, "export no_proxy=127.0.0.1,localhost"),
        (
            {"https_proxy": "http://p:1", "no_proxy": "corp"},
            "export no_proxy=corp,127.0.0.1,localhost",
        ),
        ({"grpc_proxy": "http://p:1", "NO_PROXY": "127.0.0.1"}, "grpc_proxy is set"),
        ({"http_proxy": "http://p:1", "no_proxy": "localhost, 127.0.0.1"}, ""),
        ({"http_proxy": "http://p:1", "no_proxy": "*"}, ""),
    ],
)
def test_a_proxy_before_loopback_is_told_with_what_to_set(environ, says) -> None:
    """What gRPC reads decides: lower case alone."""
    line = proxied(environ)
    assert bool(line) == bool(says) and says in line and "\n" not in line


def test_commands_on_a_stack_say_it(tmp_path) -> None:
    """`gpus plan -s` shows the plan all the same, and the line on stderr."""
    env = {
        **os.environ,
        "http_proxy": "http://127.0.0.1:9",
        "no_proxy": "",
        "NO_PROXY": "",
        "GPUS_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "providers.cli", "plan", "-s", "serve-l4"],
        check=False,
        cwd=REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "export no_proxy=127.0.0.1,localhost" in done.stderr
