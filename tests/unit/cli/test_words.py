"""What the command line says where something is wrong: one line for a wrong argument, and never an
all-clear where nothing was looked at.
"""

import json
import os
import re
from pathlib import Path
from typing import Never

import pytest

from providers.cli import main
from providers.errors import shortened


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GPUS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPUS_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_credentials(tmp_path, monkeypatch) -> None:
    """No account of any cloud can be found, nor asked for on the network."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_", "MODAL_", "CLORE_")):
            monkeypatch.delenv(name)
    for name in ("HOME", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def run(capsys, *arguments):
    code = main.main(arguments)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plam",), "COMMAND: wanted offers, plan, "),
        (
            ("plan", "--spot", "maybe"),
            "--spot: wanted never, prefer or only, found 'maybe'; `gpus plan --help` says more",
        ),
        (("plan", "--spot"), "--spot: wanted one value, found none; `gpus plan --help` says more"),
        (
            ("plan", "L4", "--nodes", "two"),
            "--nodes: wanted a whole number, found 'two'; `gpus plan --help` says more",
        ),
        (
            ("plan", "L4", "--max-price", "dear"),
            "--max-price: wanted a number, found 'dear'; `gpus plan --help` says more",
        ),
        (
            ("plan", "L4", "--colour", "red"),
            (
                "wanted arguments of `gpus plan`, found '--colour' 'red'; `gpus plan --help` lists"
                " them"
            ),
        ),
        (
            ("plan", "L4", "--json", "--markdown"),
            "--markdown: wanted this or --json, found both; leave one out",
        ),
        (("--colour", "plan"), "wanted arguments of `gpus`, found '--colour'"),
        (("offers",), "gpu: wanted a value, found none; `gpus offers --help` says more"),
        (
            ("run", "--", "true"),
            'wanted a GPU such as "H100:8", or -s STACK --on GPU, found neither',
        ),
        (("cp", "here"), "target: wanted a value, found none; `gpus cp --help` says more"),
        (
            ("size", "7b", "--nodes", "0"),
            "--nodes: wanted a whole number from 1, found '0'; `gpus size --help` says more",
        ),
        (("watch",), "-s/--stack: wanted a value, found none; `gpus watch --help` says more"),
        (("rehearse", "preemt", "all"), "COMMAND: wanted stock, latency, "),
        (
            ("rehearse", "preempt"),
            "name: wanted a value, found none; `gpus rehearse preempt --help` says more",
        ),
        (
            ("rehearse", "preempt", "all", "now"),
            "wanted arguments of `gpus rehearse preempt`, found 'now'",
        ),
    ],
)
def test_a_wrong_argument_is_one_line_of_wanted_found_and_what_to_do(
    capsys, arguments, said
) -> None:
    """No command answers a wrong argument with its usage: one line, exit code 2, nothing on stdout."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err and err.startswith("gpus: ") and err.count("\n") == 1


def test_help_is_still_help(capsys) -> None:
    """`--help` of a command prints its arguments and ends well."""
    with pytest.raises(SystemExit) as ended:
        main.main(["plan", "--help"])
    assert ended.value.code == 0 and "--spot {never,prefer,only}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "path",
    [
        "./config.json",
        "config.json",
        "/nowhere/at/all",
        "models/llama/config.json",
        "~/config.json",
    ],
)
def test_a_config_file_that_is_not_there_is_said_to_be_missing(capsys, path) -> None:
    """What can only be a path is told as a missing file, with the folder it was looked for from; no
    hub is asked.
    """
    code, out, err = run(capsys, "size", path)
    assert (code, out) == (2, "")
    assert (
        f"config.json at {path}, found no such file; from {Path.cwd()}" in err
        and err.count("\n") == 1
    )


def test_a_sweep_that_could_look_at_nothing_is_no_all_clear(capsys, no_credentials) -> None:
    """Without any credentials nothing is counted: it is said that no cloud could be looked at, and
    why for each; exit code 1.
    """
    code, out, err = run(capsys, "sweep", "--world", "live")
    assert code == 1
    assert "0 unclaimed" not in out
    assert "live: no cloud could be looked at, so what runs there is not known" in err
    for provider, missing in (
        ("gcp", "application default credentials"),
        ("aws", "AWS"),
        ("modal", "modal token new"),
        ("clore", "CLORE_API_KEY"),
    ):
        assert any(
            line.startswith(f"gpus: {provider}: ") and missing in line for line in err.splitlines()
        ), (provider, err)
    code, out, _ = run(capsys, "sweep", "--world", "live", "--json")
    answer = json.loads(out)
    assert (
        code == 1
        and answer["asked"] == []
        and any("no cloud could be looked at" in line for line in answer["trouble"])
    )


def test_no_link_is_cut_off_in_what_check_says(capsys, no_credentials) -> None:
    """Every address that `gpus check` prints is whole."""
    out = " ".join(run(capsys, "check", "gcp", "--world", "live")[1].split())
    assert (
        "application default credentials" in out and "gcloud auth application-default login" in out
    )
    assert "..." not in out


def test_what_is_too_long_is_cut_between_words() -> None:
    """A text that must be cut keeps whole words, so no half link is left; one word alone keeps its
    beginning.
    """
    assert shortened("see https://example.com/a/b/c", 20) == "see https://examp..."
    assert (
        shortened("wanted this or that, see https://example.com/a", 40)
        == "wanted this or that, see..."
    )
    assert shortened("x" * 50, 20) == "x" * 17 + "..." and shortened("short", 20) == "short"


def test_gpus_alone_shows_its_help_and_its_version_is_told(capsys) -> None:
    """No command is no mistake: the help is shown, exit code 0; so is the version."""
    assert main.main([]) == 0
    out = capsys.readouterr().out
    assert "Look, and buy nothing" in out and "Use machines" in out
    assert len(out.splitlines()) <= 48 and max(map(len, out.splitlines())) <= 80
    assert re.findall(r"^  (plan|run|watch|rehearse) ", out, re.MULTILINE) == [
        *("plan", "run", "watch", "rehearse"),
    ]
    assert main.main(["nothing"]) == 2
    known = re.sub(r".* wanted | found .*", "", capsys.readouterr().err.splitlines()[0])
    for name in re.findall(r"[\w-]{2,}", known.replace(" or ", " ")):
        assert re.search(rf"^  {name} ", out, re.MULTILINE), f"the help does not show {name}"
    assert main.main(["--version"]) == 0 and capsys.readouterr().out.startswith("gpus 0.")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["plna", "L4:1"], "did you mean plan?"),
        (["ofers", "L4:1"], "did you mean offers?"),
        (["plan", "L4:1", "--prov", "gcp"], ""),
        (["plan", "L4:1", "--provder", "gcp"], "did you mean --provider?"),
        (["plan", "L4:1", "--marketplace"], "did you mean --marketplaces?"),
        (["plan", "L4:1", "--max", "5"], ""),
        (["watch", "--stak", "x"], "did you mean --stack?"),
        (["rehearse", "stok"], "did you mean stock?"),
        (["size", "7b", "--hlp"], "did you mean --help?"),
        (["plan", "L4:1", "--rank", "prefernce"], "did you mean preference?"),
        (["plan", "L4:1", "--spott", "only"], "`gpus plan --help` lists them"),
    ],
)
def test_a_word_that_is_nearly_right_is_told_the_right_one_and_never_taken_for_it(
    capsys, arguments, meant
) -> None:
    """Commands, options and choices: the near one is named; a beginning of an option is no option."""
    assert main.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and meant in err and "--help` " in err


def test_offers_are_the_twenty_cheapest_unless_all_are_asked_for(capsys, monkeypatch) -> None:
    """A table of twenty lines says how many more there are; `--all` and `--json` hold everything;
    by provider it is the same twenty.
    """
    monkeypatch.setenv("COLUMNS", "160")  # nothing is cut
    lines = {}
    for words in ((), ("--all",), ("--sort", "provider")):
        assert main.main(["offers", "H100", *words]) == 0
        out = capsys.readouterr().out.splitlines()
        lines[words] = [line for line in out[1:] if " H100" in line]
    assert len(lines[()]) == 20 and len(lines["--all",]) > 400
    assert [line.split()[:2] for line in lines[()]] == [
        line.split()[:2] for line in lines["--all",][:20]
    ]
    assert sorted(lines[()]) == sorted(lines["--sort", "provider"])
    assert main.main(["offers", "H100"]) == 0
    assert (
        f"and {len(lines['--all',]) - 20} more, none cheaper: --all lists them"
        in capsys.readouterr().out
    )
    assert main.main(["offers", "H100", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) > 400


@pytest.mark.parametrize("name", ["a b!", "", "x\x1b[2J", "a/b/c/d", "../x y"])
def test_a_watch_of_a_name_that_no_stack_can_have_ends_at_once(capsys, name) -> None:
    """Pulumi refuses such a name in every round: it is told, and not tried again for ever."""
    assert main.main(["watch", "-s", name]) == 2
    assert "--stack: wanted a stack's name of letters" in capsys.readouterr().err


def test_a_failure_that_says_what_to_do_is_not_told_another_remedy(
    capsys, monkeypatch, tmp_path
) -> None:
    """Of a file of our own whose message has the remedy already, nothing is added."""
    monkeypatch.setenv("GPUS_HOME", str(tmp_path))

    def fail(_argv) -> Never:
        raise OSError(
            5,
            "the rehearsal store cannot be used (disk I/O error); make room on its disk",
            str(tmp_path / "rehearsal.db"),
        )

    monkeypatch.setattr("providers.cli.rehearse.run", fail)
    assert main.main(["rehearse"]) == 2
    assert (
        capsys.readouterr().err
        == f"gpus: {tmp_path}/rehearsal.db: the rehearsal store cannot be used (disk I/O error);"
        " make room on its disk\n"
    )
