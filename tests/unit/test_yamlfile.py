"""One reader for a project's files: each word means what it means to Pulumi, and no file costs more
than a moment.
"""

import json
import os
import shutil
import subprocess
import time
from typing import Any

import pytest

from providers.cli import stackfile
from providers.engine.journal import backend
from providers.errors import SpecError
from providers.model import yaml_file

WORDS = """no No off on yes y n true True TRUE tRUE false ~ null Null nUll 1e3 1.5e3 1.0 1. .5 +.5 1E3 1e-3 +1 -1 -0 0 010 -010 0o10 0b11 -0b11 0x1F
-0x1F 0X1F 0B11 0O10 08 09.5 1_000 1_000.5 1__0 _1 1_ 0x_1F 20:00 1:30:00 12:30 inf nan Infinity 1.7976931348623157e+400 1e400 1e999999 0.1
3.14159265358979323846 1e21 9007199254740993 0.0 -0.0 1.10 12e03 685.230_15e+03 = <<x 'no' "no" '010' H100:8 20h a#b é 🦄 "\\x41" + . 1.2.3
0.0.0.0/0 1-2 --flag 0x 0b 0o 0_7 +0x10 1e 1e+ .e3 ._5 -.5 ''""".split()
PHRASES = (
    *(
        "[no, 010, 1e3]",
        "{no: 1}",
        "{1: a, true: b, 010: c, on: d}",
        "{b: &x 1, c: *x}",
        "{<<: {a: 1}, b: 2}",
        "{b: &x {a: 1}, c: {<<: *x, d: 1}}",
    ),
    *(
        "{<<: [{a: 1}, {a: 2, c: 3}], b: 2}",
        "[<<]",
        "{x: <<}",
        "!!str 010",
        "!!str no",
        "x y",
        "",
        "a #b",
        "{? x : y}",
    ),
)
QUOTED = (
    "2001-01-01",
    "2001-12-14t21:59:43.10-05:00",
    "2001-1-1",
    ".inf",
    "-.INF",
    ".nan",
    "12345678901234567890",
    "0xFFFFFFFFFFFFFFFFFF",
)
REFUSED = (
    *QUOTED,
    "!!int '5'",
    "!foo x",
    "!!binary aGk=",
    "{1.5: a}",
    "{~: a}",
    "{[1]: a}",
    "{a: 1, a: 2}",
    "{1: a, '1': b}",
    "{<<: 5}",
    "@x",
    "*a",
    "a: b",
)


def read(word):
    return yaml_file.loads(f"config:\n  words:x:\n    v: {word}\n")["config"]["words:x"]["v"]


@pytest.mark.skipif(shutil.which("pulumi") is None, reason="needs the pulumi command")
def test_each_word_means_what_pulumi_makes_of_it(tmp_path) -> None:
    """C15: the whole table through Pulumi's own command line; and each scalar as the text that a
    program is given.
    """
    words = [*WORDS, *PHRASES]
    environment = os.environ | {
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path}",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "1",
    }
    (tmp_path / "Pulumi.yaml").write_text("name: words\nruntime: python\n")

    def pulumi(*arguments):
        return subprocess.run(
            ["pulumi", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    pulumi("stack", "init", "a")
    lines = [f"  words:object{at}:\n    v: {word}\n" for at, word in enumerate(words)]
    scalars = [word for word in WORDS if not isinstance(read(word), str)] + ["plain", "no"]
    lines += [f"  words:scalar{at}: {word}\n" for at, word in enumerate(scalars)]
    (tmp_path / "Pulumi.a.yaml").write_text("config:\n" + "".join(lines))
    told = json.loads(pulumi("config", "--json", "-s", "a"))
    assert {
        word: json.loads(told[f"words:object{at}"]["value"])["v"] for at, word in enumerate(words)
    } == {word: read(word) for word in words}
    found = {word: yaml_file.written(read(word)) for word in scalars}
    assert {
        word: told[f"words:scalar{at}"].get("value", "") for at, word in enumerate(scalars)
    } == found


@pytest.mark.parametrize("word", REFUSED)
def test_what_pulumi_would_change_or_refuse_is_refused_with_its_line(word) -> None:
    """A date becomes another text there, an infinity stops it, a tag changes a type."""
    with pytest.raises(yaml_file.YamlError) as caught:
        read(word)
    wrong: Any = caught.value
    assert wrong.line == 3
    assert word not in QUOTED or wrong.todo == "put it in quotes"
    if word in QUOTED:
        assert read(f"'{word}'") == word


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
ATTACKS = {
    "nested lists": "a: " + "[" * 3_000 + "]" * 3_000,
    "more nested lists": "[" * 100_000,
    "nested mappings": "{a: " * 3_000,
    "block lists": "- " * 3_000 + "x",
    "nested keys": "? " * 100_000,
    "an alias bomb": BOMB,
    "a bomb of merges": (
        "a: &a {x: 1}\n"
        + "".join(
            f"{n}: &{n} {{<<: [{', '.join([f'*{b}'] * 9)}], k{n}: 1}}\n"
            for b, n in zip("abcdefghi", "bcdefghij", strict=True)
        )
    ),
    "an alias to itself": "a: &a [*a]",
    "an alias to itself, deeper": "a: &a {b: {c: [1, *a]}}",
    "an alias to nothing": "a: *b",
    "a huge file": "a: " + "x" * (2 << 20),
    "nothing": "",
    "NUL": "a: \x00",
    "half a sign": "a: \ud7ff\n\x85: [",
    "a list": "[1]",
    "an object": "!!python/object/apply:os.system ['true']",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_file_that_attacks_is_one_message_at_once(tmp_path, monkeypatch, name) -> None:
    """No nest, bomb or size costs more than a moment, in the stack's file or the project's."""
    for file in ("Pulumi.x.yaml", "Pulumi.yaml"):
        (tmp_path / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
        (tmp_path / file).write_text(
            "config:\n  gpus:world: rehearsal\n  gpus:clusters:\n    "
            + ATTACKS[name].replace("\n", "\n    ")
            if file == "Pulumi.x.yaml" and name not in {"nothing", "a list"}
            else ATTACKS[name] + "\n# backend"
        )
        monkeypatch.chdir(tmp_path)
        begun = time.process_time()
        with pytest.raises(SpecError) as caught:
            stackfile.read("x")
        backend.current()
        assert time.process_time() - begun < 1
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "kind", ["pipe", "device", "folder", "link to a device", "unreadable bytes"]
)
def test_a_stack_file_that_is_no_plain_file_is_refused_at_once(tmp_path, monkeypatch, kind) -> None:
    """Nothing is waited for, and nothing without an end is read."""
    (tmp_path / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    file = tmp_path / "Pulumi.x.yaml"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "unreadable bytes":
        file.write_bytes(b"config: \xff\xfe")
    else:
        file.symlink_to("/dev/zero" if kind == "device" else "/dev/stdin")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError):
        stackfile.read("x")
    with pytest.raises(SpecError):
        yaml_file.mapping(file)


def test_the_settings_of_a_stack_are_the_texts_that_pulumi_gives(tmp_path, monkeypatch) -> None:
    """A truth value and a number reach a provider as under `pulumi up`."""
    (tmp_path / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    (tmp_path / "Pulumi.x.yaml").write_text(
        "config:\n  gpus:world: rehearsal\n  gpus:clusters: {t: {gpu: 'H100:8'}}\n "
        " clore:reliability: 9e-1\n  clore:include_servers: True\n  gcp:project: 010\n"
    )
    monkeypatch.chdir(tmp_path)
    assert stackfile.read("x").settings == {
        "clore": {"reliability": "0.9", "include_servers": "true"},
        "gcp": {"project": "8"},
    }
