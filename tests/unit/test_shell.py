"""Shell programs: files beside their modules, filled by variables; what a shell makes of them, with
the shells that run them.
"""

import ast
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import providers
from providers.adapters.aws import compile as aws
from providers.adapters.aws import first_boot
from providers.adapters.clore.options import COMMAND_MAX, running
from providers.adapters.modal import exec as modal_exec
from providers.adhoc import trial_run
from providers.model import shell
from providers.model.machine import Setup
from providers.model.workload import Checkpoint, Process, Program, Task, Workload, packed
from providers.rehearsal.nodes import image
from providers.workloads.launch.compile import program
from providers.workloads.launch.start_script import script
from tests.present import present

PACKAGE = Path(providers.__file__).parent
PROGRAMS = sorted(PACKAGE.rglob("*.sh"))
SHELLS = [words for words in (("bash",), ("dash",), ("busybox", "sh")) if shutil.which(words[0])]
HOSTILE = [
    "",
    "plain",
    "it's $(touch pwned) `touch pwned`",
    "two\nlines\n",
    '"$HOME" \\ \\n',
    "-n",
    "#",
    "*",
    " spaces  ",
    "é",
]


def run(words, text, **more):
    return subprocess.run(
        [*words, "-c", text], capture_output=True, text=True, timeout=60, check=False, **more
    )


@pytest.fixture
def beside(tmp_path):
    """A module's path, and what writes the program `it` beside it."""

    def written(text):
        shell.text_of.cache_clear()
        (tmp_path / "it.sh").write_text(text)
        return str(tmp_path / "module.py")

    return written


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_arrives_as_it_is(words, value, beside, tmp_path) -> None:
    """Whatever it holds: no shell expands it, and none of it becomes a command."""
    text = shell.program(
        beside('#!/bin/sh\nprintf "%s|" "$given" "$number"\n'), "it", given=value, number=3
    )
    assert run(words, text, cwd=tmp_path).stdout == f"{value}|3|"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("values", [[], HOSTILE])
def test_a_list_becomes_an_array(values, beside) -> None:
    """Each item is one element, an empty one too; no item makes an empty array."""
    module = beside(
        '#!/bin/bash\nset -u\necho "${#given[@]}"\nfor each in ${given[@]+"${given[@]}"}; do printf'
        ' "%s|" "$each"; done\n'
    )
    assert run(
        ("bash",), shell.program(module, "it", given=values)
    ).stdout == f"{len(values)}\n" + "".join(f"{value}|" for value in values)


def test_comments_are_not_sent(beside) -> None:
    """They would take room in user data; the first line, which names the shell, stays first."""
    text = shell.program(
        beside("#!/bin/sh\n# Why.\n\necho a # stays\n  # too\necho '#b'\n"), "it", given="x"
    )
    assert text == "#!/bin/sh\ngiven=x\necho a # stays\necho '#b'\n"


def test_a_program_is_not_sent_without_a_variable_that_it_reads(beside) -> None:
    """By its own lines at its top, or those of a part; arrays and what may be empty count too. What
    the environment sets does not.
    """
    module = beside(
        '#!/bin/bash\n: "${one:?}" "${two?}" "${HOME:?}"\ndeclare -a three four\necho "$one"\n'
    )
    for given in ({}, {"one": 1, "two": "", "three": []}, {"two": "", "three": [], "four": []}):
        with pytest.raises(TypeError, match=r"it\.sh reads .*(four|one)"):
            shell.program(module, "it", **given)
    assert (
        shell.program(module, "it", one=1, two="", three=[], four=["a b"])
        == "#!/bin/bash\none=1\ntwo=\nthree=()\nfour=('a b')\necho \"$one\"\n"
    )


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_program_that_was_not_filled_does_nothing(path) -> None:
    """Each names what it reads in its first lines, and ends there when that was not set."""
    text = path.read_text()
    assert text.startswith(("#!/bin/sh\n# ", "#!/bin/bash\n# "))
    assert max(map(len, text.splitlines())) <= 100
    if ': "${' not in text:
        pytest.skip("it reads no variables")
    shown = run(
        ("/bin/sh" if text.startswith("#!/bin/sh") else "/bin/bash",),
        text,
        env={"PATH": "/nowhere"},
    )
    assert shown.returncode != 0 and re.search(
        r"\w+: parameter (null or )?not set", shown.stderr
    ), shown.stderr


def test_programs_are_part_of_the_package() -> None:
    """Each lies in a folder that is a package, or is part of the rehearsal machines' image; the
    build takes files of that name along.
    """
    assert len(PROGRAMS) > 10
    assert all(
        (path.parent / "__init__.py").exists() or path.parent == image.CONTEXT for path in PROGRAMS
    )
    built = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-data"
    ]["providers"]
    assert "**/*.sh" in built


CONTROL = re.compile(
    r"\bif\b[^\n]*;\s*then\b|\b(while|until)\b[^\n]*;\s*do\b|\bfor \w+ in [^\n]*;\s*do\b|\bcase \S+"
    r" in\b|<<-?'?[A-Z]{3,}"
)


def test_no_shell_program_stands_in_a_python_text() -> None:
    """What has control flow is a file, which shellcheck reads."""
    assert not [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and CONTROL.search(node.value)
    ]


# Programs of several modules


def test_what_is_packed_in_user_data_runs_and_its_code_is_the_scripts() -> None:
    """EC2's user data: what is read back stands in the clear, the program itself is packed."""
    given = dict.fromkeys(("gpus_ttl_s", "gpus_start", "gpus_idle_s"), "")
    text = shell.program(
        aws.__file__, "user_data", **given, packed=packed(b'echo "it\'s $((1 + 1))"\n(exit 7)\n')
    )
    done = run(("bash",), text)
    assert (done.returncode, done.stdout) == (7, "it's 2\n")


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("succeeded 0", 0),
        ("ready", 0),
        ("failed 3 more words", 3),
        ("setup-wrong 4 the lines", 4),
        ("failed", 1),
    ],
)
def test_a_log_is_followed_to_the_word_that_ends_it(words, status, code, tmp_path) -> None:
    """What was written until then is shown; the code is that of the word. Another program's word
    ends nothing.
    """
    (tmp_path / "log").write_text("line 1\nline 2\n")
    (tmp_path / "status").write_text("gpus-work other failed 9\n")
    ends = "succeeded ready failed setup-wrong"
    given: dict[str, Any] = {
        "digest": "abc",
        "folder": str(tmp_path),
        "ends": ends,
        "well": "succeeded ready",
        "ill": "failed setup-wrong",
        "begin_s": 5,
    }
    text = shell.program(trial_run.__file__, "follow", first_line="+1", **given)
    with subprocess.Popen(
        [*words, "-c", text], stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}
    ) as process:
        assert present(process.stdout).readline() == "line 1\n"
        (tmp_path / "new").write_text(f"gpus-work abc {status}\n")
        (tmp_path / "new").rename(tmp_path / "status")
        rest = present(process.stdout).read()
    assert (process.returncode, rest) == (code, "line 2\n")


RELAY = """#!/bin/sh
echo "${0##*/} $*"
"""


@pytest.mark.parametrize(
    "words", [words for words in SHELLS if words != ("busybox", "sh")], ids=" ".join
)  # whose nc is its own
@pytest.mark.parametrize(
    ("there", "shown"),
    [
        (["python", "socat"], "python -c relay 'it' 8000\n"),
        (["socat", "nc"], "socat - TCP:localhost:8000\n"),
        (["nc"], "nc localhost 8000\n"),
        ([], ""),
    ],
)
def test_a_port_is_carried_by_what_the_image_has(words, there, shown, tmp_path) -> None:
    """The first of these that is there; without any the line says what is missing."""
    for name in there:
        (tmp_path / name).write_text(RELAY)
        (tmp_path / name).chmod(0o755)
    text = shell.program(modal_exec.__file__, "port", relay="relay 'it'")
    done = subprocess.run(
        [shutil.which(words[0]), *words[1:], "-c", text, "sh", "8000"],
        check=False,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == shown
    assert there or (done.returncode == 127 and "wanted python3, socat or nc" in done.stderr)


def test_largest_start_up_leaves_room_for_what_the_user_adds() -> None:
    """Clore's command takes every part of the script of one machine, which is all it rents; of
    EC2's user data three tenths are left for files.
    """
    key = "ssh-ed25519 " + "A" * 68 + " me"
    served = Process("main", "vllm serve x --port 8000", (("A", "b"),), 8000, "/health")
    made = Program(
        "service",
        (served, served._replace(name="other")),
        "vllm/vllm-openai:latest",
        ("pip install x",),
        (),
        Checkpoint("/c", "s3://b/c"),
        "--resume",
        nodes=2,
        rendezvous=True,
        token_env="GPUS_TOKEN",
    )
    alone = made._replace(nodes=1, rendezvous=False, workdir="0" * 16)
    command = running(alone, script(alone, inside=True, gated=True), {})["command"]
    assert isinstance(command, str)
    assert len(command) <= COMMAND_MAX
    setup = Setup(
        ssh_public_key=key,
        own_public_key=key,
        ttl_s=3_600,
        idle_s=3_600,
        secrets=(("HF_TOKEN", "ssm:/ml/hf"),),
        script=script(made._replace(led=True), release="shutdown -h now", gated=True),
    )
    assert len(first_boot.user_data(setup)) < first_boot.USER_DATA_MAX * 0.7


# Launchers that are programs


RAY = """#!/bin/sh
echo "ray $*" >>"$LOG"
case "$1" in
  health-check) [ ! -e "$LOG.seen" ] && touch "$LOG.seen" ;;
  start) exit "${START_ENDS_WITH:-0}" ;;
esac
"""


def on_ray(words, tmp_path, nodes, rank, further="", command='sh -c "exit \\$0" 3', **more):
    """(exit code, what Ray was told) of a node whose line is run by that shell."""
    made = program(Workload((Task(launcher="ray", command=command),)), "job", "L4", 2, nodes)
    tools = tmp_path / "tools"
    tools.mkdir()
    python = f"#!/bin/sh\necho noise\necho {nodes}\n"
    for name, text in {
        "ray": RAY,
        "python3": python,
        "sleep": "#!/bin/sh\n",
        "args": '#!/bin/sh\nprintf "%s|" "$RAY_ADDRESS" "$@" >>"$LOG"\n',
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    told = (
        {
            "GPUS_NODE_RANK": str(rank),
            "GPUS_LEADER": "10.0.0.1",
            "GPUS_ADDRESS": f"10.0.0.{rank + 1}",
        }
        if nodes > 1
        else {}
    )
    environ = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "LOG": str(tmp_path / "log"),
        **told,
        **more,
    }
    done = run(words, made.processes[0].line + further, env=environ)
    return done.returncode, (tmp_path / "log").read_text()


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
def test_a_job_on_one_machines_ray_ends_with_the_commands_code(words, tmp_path) -> None:
    """Ray is ended with it, whatever the command ended with."""
    code, log = on_ray(words, tmp_path, 1, 0)
    assert code == 3
    assert (
        log == "ray start --head --port=6379 --dashboard-host=127.0.0.1 --num-gpus=2"
        " --disable-usage-stats\nray stop\n"
    )


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
def test_further_words_of_a_line_are_the_commands_own(words, tmp_path) -> None:
    """`resume` is added behind the line: with several nodes, too, it reaches the command and not
    the shell.
    """
    code, log = on_ray(words, tmp_path, 2, 0, " --resume 'last one'", command="cd / && args 'a b'")
    assert code == 0
    assert (
        "--node-ip-address=10.0.0.1" in log
        and "10.0.0.1:6379|a b|--resume|last one|ray stop\n" in log
    )


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
def test_a_worker_of_ray_ends_well_when_its_head_is_gone(words, tmp_path) -> None:
    """It joins by the leader's address, looks until the head no longer answers, and ends with 0."""
    code, log = on_ray(words, tmp_path, 2, 1)
    assert code == 0
    assert log.splitlines() == [
        (
            "ray start --address=10.0.0.1:6379 --node-ip-address=10.0.0.2 --num-gpus=2"
            " --disable-usage-stats"
        ),
        *["ray health-check --address 10.0.0.1:6379"] * 2,
        "ray stop",
    ]


def test_where_ray_does_not_start_its_code_is_the_jobs(tmp_path) -> None:
    """The command is not run without it."""
    code, log = on_ray(("sh",), tmp_path, 1, 0, command="args never", START_ENDS_WITH="5")
    assert code == 5 and "never" not in log


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
def test_ollama_serves_and_pulls_with_what_the_plan_counted_on(words, tmp_path) -> None:
    """Its variables are set for the server; the pull asks the server of this machine, again until
    it answers.
    """
    made = program(
        Workload((Task(launcher="ollama", model="llama3.1:8b", context=4_096, concurrency=2),)),
        "service",
        "L4",
        1,
        expose="public",
    )
    ollama = """#!/bin/sh
case "$1" in
  pull) [ -e "$LOG.tried" ] || { touch "$LOG.tried"; exit 1; }; echo "$OLLAMA_HOST $*" >"$LOG.pulled" ;;
  serve) until [ -e "$LOG.pulled" ]; do /bin/sleep 0.05; done; echo "$OLLAMA_HOST $OLLAMA_CONTEXT_LENGTH $OLLAMA_NUM_PARALLEL $*" >"$LOG" ;;
esac
"""
    for name, text in {"ollama": ollama, "sleep": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}
    assert run(words, made.processes[0].line, env=environ).returncode == 0
    assert (tmp_path / "log").read_text() == "0.0.0.0:11434 4096 2 serve\n"
    assert (tmp_path / "log.pulled").read_text() == "127.0.0.1:11434 pull llama3.1:8b\n"
