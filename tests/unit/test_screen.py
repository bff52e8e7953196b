"""What reaches a terminal: others' words are harmless, in every line of the command line, the
plugin and the outputs.
"""

import asyncio
import io
import os
import subprocess
import sys
from typing import Any

import pytest

from providers.adapters.guard import Cloud
from providers.cli import main
from providers.errors import CloudError, GpusError
from providers.model.machine import Handle, Node
from providers.model.screen import Colours, Screen, on_screen, screened, told
from providers.plugin import grpc_errors
from providers.remote.line import LocalCommand
from providers.remote.run import streamed

EVIL = (
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]8;;http://evil\x1b\\",
    "\x9b31m",
    "\x90q\x9c",
    "\u202egnp",
    "\u2066x\u2069",
    "\x08",
    "\x7f",
    "\r",
    "\x00",
    "\u2028",
    "\udcff",
    "\ufeff",
)


def harmless(text):
    return all(each.isprintable() or each in "\n\t" for each in text)


@pytest.mark.parametrize("evil", EVIL, ids=repr)
def test_nothing_that_a_terminal_obeys_is_left(evil) -> None:
    """Escape sequences, other controls, turned reading directions, half signs: each shows as its
    escape; line ends, tabs and all scripts stay.
    """
    said = screened(f"wörds 🦄\t{evil}\nnext")
    assert harmless(said) and said.startswith("wörds 🦄\t\\") and said.endswith("\nnext")
    assert screened(said) == said


@pytest.mark.parametrize(
    "evil", [each for each in EVIL if each not in {"\x00", "\udcff"}], ids=repr
)
@pytest.mark.parametrize(
    "words",
    [
        ("plan", "H100{}:8"),
        ("plan", "-s", "x{}"),
        ("size", "model{}"),
        ("offers", "{}"),
        ("hardware", "{}"),
        ("rehearse", "quota", "gcp", "*", "{}", "1"),
        ("check", "{}"),
        ("{}",),
        ("ps", "--world", "{}"),
        ("plan", "H100:8", "--provider", "{}"),
        ("cp", "a{}", "b"),
        ("logs", "{}"),
        ("size", "7b", "--on", "{}"),
    ],
    ids=lambda words: words[0],
)
def test_an_argument_comes_back_printable(capsys, words, evil, monkeypatch, tmp_path) -> None:
    """Whatever repeats an argument repeats it harmlessly."""
    monkeypatch.chdir(tmp_path)
    main.main([word.format(evil) for word in words])
    said = capsys.readouterr()
    assert harmless(said.out) and harmless(said.err)


@pytest.mark.parametrize(
    "words",
    [
        ("rehearse", "quota", "gcp", "*", "\udcff", "1"),
        ("plan", "\udcff"),
        ("size", "\udcff.json"),
        ("\udcff",),
        ("check", "\udcff"),
        ("sweep", "\udcff"),
        ("watch", "\udcff"),
        ("rehearse", "\udcff"),
    ],
    ids=repr,
)
def test_an_argument_that_is_no_text_is_one_message(capsys, words) -> None:
    """Bytes that are no UTF-8 are refused before they are written anywhere."""
    assert main.main(list(words)) == 2
    said = capsys.readouterr().err
    assert (
        said
        == "gpus: arguments: wanted text in UTF-8, found '\\udcff"
        + (".json" if words[0] == "size" else "")
        + "'\n"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_program_keeps_its_colours_on_a_terminal_and_everything_in_a_pipe() -> None:
    """Colours, the way back to a line's start and tabs are a program's own on a terminal; a title
    or the clipboard is not. A pipe gets it all.
    """
    sent = "\\033[1;31mred\\033[0m 10%%\\r20%%\\r\\n\\033]52;c;ZXZpbA==\\007\\033[2J\\302\\233x"
    for target in (Terminal(), io.StringIO()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", target)
            with on_screen():
                assert asyncio.run(streamed(LocalCommand(("printf", sent)))) == 0
        if target.isatty():
            assert (
                target.getvalue()
                == "\x1b[1;31mred\x1b[0m 10%\r20%\r\n\\x1b]52;c;ZXZpbA==\\x07\\x1b[2J\\x9bx"
            )
        else:
            assert (
                target.getvalue()
                == "\x1b[1;31mred\x1b[0m 10%\r20%\r\n\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9bx"
            )


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_colour_that_is_cut_in_two_is_put_together(size) -> None:
    """Pieces of any size give the same; a sequence that never ends is shown at the end."""
    whole = "a\x1b[38;5;196mred\x1b[0m\x1b]0;t\x07\x1b[" + "1;" * 50 + "m\x1b[3"
    colours = Colours()
    found = "".join(
        colours.add(whole[at : at + size]) for at in range(0, len(whole), size)
    ) + colours.add("", final=True)
    assert found == Colours().add(whole, final=True)
    assert found.startswith("a\x1b[38;5;196mred\x1b[0m\\x1b]0;t\\x07\\x1b[1;1;") and found.endswith(
        "m\\x1b[3"
    )


def test_the_screen_is_lifted_again() -> None:
    """Only while a command runs; what it wraps is what was there."""
    before = sys.stdout, sys.stderr
    with on_screen():
        assert isinstance(sys.stdout, Screen) and sys.stdout.beneath is before[0]
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize(
    "kind", [GpusError, lambda text: CloudError(text, provider="clore"), ValueError, RuntimeError]
)
def test_a_failure_of_the_plugin_is_printable(kind) -> None:
    """Whatever a provider says reaches the engine's display harmlessly."""
    assert harmless(grpc_errors.line(kind("".join(EVIL))))


def test_machines_read_back_have_printable_words() -> None:
    """Names, details and addresses as a stranger's cloud or host writes them."""

    class Adapter:
        name = "clore"

        def find(self, *_):
            return [
                Node(
                    Handle("clore", "orders/1"),
                    "".join(EVIL),
                    "running",
                    region="\x1b[2J",
                    detail="a\nb\x1b",
                    url="\r",
                    created_at=5.0,
                )
            ]

        def offers(self):
            return ("\x1b",)

    adapter: Any = Adapter()
    (node,) = Cloud(adapter).find("x")
    assert all(word.isprintable() for word in node if isinstance(word, str))
    assert (node.handle.native_id, node.created_at) == ("orders/1", 5.0)
    offers: Any = Cloud(adapter).offers()
    assert offers == ("\x1b",)


def in_a_shell(words, home):
    """The command line, run by `sh` with what the words redirect."""
    tried = (
        f'"{sys.executable}" -c "import sys; from providers.cli.main import main; sys.exit(main())"'
    )
    environment = os.environ | {"GPUS_HOME": str(home)}
    return subprocess.run(
        ["sh", "-c", f"{tried} {words}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module", params=["plan NOPE:8", "size 7b", "rehearse", "ps", "--help"])
def command(request, tmp_path_factory):
    """(words of the command line, their exit code with every stream open)."""
    return request.param, in_a_shell(request.param, tmp_path_factory.mktemp("open")).returncode


def test_a_message_is_broken_at_the_terminal_and_whole_in_a_pipe(monkeypatch) -> None:
    """Nothing is cut: what is longer than a line stands whole, each line within the columns."""
    monkeypatch.setenv("COLUMNS", "80")
    terminal, pipe = io.StringIO(), io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    text = f"{'word ' * 40}\nhttps://{'x' * 90}"
    shown = told(text, terminal, "warning: ")
    assert told(text, pipe).splitlines() == [f"gpus: {line}" for line in text.splitlines()]
    assert [line for line in shown.splitlines() if len(line) > 80] == [f"      https://{'x' * 90}"]
    plain = " ".join(shown.replace("gpus: warning:", "").split())
    assert plain == " ".join(text.split())


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_goes_nowhere(tmp_path, command, closed) -> None:
    """A cron job's or a daemon's closed stdout costs nothing but the answer: no traceback, and no
    other file gets its number.
    """
    words, code = command
    done = in_a_shell(f"{words} {closed}", tmp_path / "home")
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr
