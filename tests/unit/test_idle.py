"""The machine's own timer for idleness: the shell that it is, and what it takes for idle."""

import os
import subprocess

import pytest

from providers.errors import SpecError
from providers.model import idle
from providers.model.spec import Cluster


def played(tmp_path, readings, limit_s):
    """Runs the timer with a driver that gives these readings, one each ten seconds; after how many
    it powered off (None: it went on to the end).
    """
    bins = tmp_path / "bin"
    bins.mkdir()
    (tmp_path / "timer").write_text(idle.timer(limit_s))
    (tmp_path / "readings").write_text("\n".join(readings) + "\n")
    tools = {
        "sleep": (
            'n=$(($(cat "$T/n" 2>/dev/null || echo 0) + 1)); echo $n > "$T/n"; [ $n -le $(wc -l <'
            ' "$T/readings") ]'
        ),
        "cut": 'echo $(($(cat "$T/n" 2>/dev/null || echo 0) * 10))',
        "nvidia-smi": (
            'line=$(sed -n "$(cat "$T/n")p" "$T/readings"); [ "$line" = broken ] && exit 9; echo'
            ' "$line" | tr " " "\\n"'
        ),
        "systemctl": 'echo "$@" > "$T/off"',
    }
    for name, body in tools.items():
        (bins / name).write_text(f"#!/bin/bash\n{body}\n")
        (bins / name).chmod(0o755)
    environment = {"PATH": f"{bins}:{os.environ['PATH']}", "T": str(tmp_path)}
    subprocess.run(["bash", str(tmp_path / "timer")], env=environment, timeout=30, check=False)
    return int((tmp_path / "n").read_text()) if (tmp_path / "off").exists() else None


@pytest.mark.parametrize(
    ("readings", "after"),
    [
        (["0 0"] * 5, 3),
        (["0 97", "0 0", "4 0", "0 0", "0 0"], 4),
        (["97 0", "0 0", "0 5", "0 0", "0 0"], None),
        (["0", "0", "broken", "0", "0", "0"], 6),
        (["[N/A]"] * 6, None),
    ],
    ids=["idle", "idle-later", "one-of-two-works", "silent-driver", "no-figure"],
)
def test_b34_the_timer_powers_off_after_so_much_quiet_and_no_sooner(
    tmp_path, readings, after
) -> None:
    """Thirty seconds without any GPU at 5 % or more; a driver that fails, or has no figure, begins
    the count anew.
    """
    assert played(tmp_path, readings, 30) == after


def test_what_a_machine_was_given_is_shell_and_can_be_read_back() -> None:
    """The whole script is valid shell, and its limit is found in it."""
    text = idle.script(7200)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert idle.limit_s(f"#!/bin/bash\nset -u\n{text}\n") == 7200
    assert idle.limit_s("#!/bin/bash\n") == 0
    assert idle.QUERY in text


@pytest.mark.parametrize(
    ("output", "percent"),
    [("0\n97\n", 97), (" 3 \n", 3), ("", None), ("[N/A]\n0\n", None), ("0 %\n", None)],
)
def test_a_utilisation_is_a_number_or_not_known(output, percent) -> None:
    """What the driver prints otherwise is never taken for idleness."""
    assert idle.busiest(output) == percent


def test_idle_after_is_a_duration_of_ten_minutes_or_more() -> None:
    """Anything else is a problem with its path; on_ttl: keep is fine with it."""
    assert Cluster(name="x", gpu="L4", idle_after="2h").setup().idle_s == 7200
    assert Cluster(name="x", gpu="L4", idle_after="2h", on_ttl="keep").setup().on_ttl == "keep"
    for value in ("1m", "soon"):
        with pytest.raises(SpecError, match="idle_after"):
            Cluster(name="x", gpu="L4", idle_after=value)
