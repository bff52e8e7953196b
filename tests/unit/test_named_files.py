"""Files that a declaration or an argument names: plain files within their limit, and a message at
once for all else.
"""

import json
import os
import time
from typing import Any

import pytest

from providers.cli import main
from providers.errors import SpecError
from providers.model import regular
from providers.model.workload import with_files
from providers.workloads.sizing import architecture

KINDS = (
    "/dev/zero",
    "pipe",
    "folder",
    "link to a device",
    "missing",
    "huge",
    "a\0b",
    "~nobody-of-that-name/x",
    "not ours",
)


def made(folder, kind):
    """The path of a file of that kind."""
    place = folder / "named"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "link to a device":
        place.symlink_to("/dev/zero")
    elif kind == "huge":
        with place.open("wb") as file:
            file.truncate(10 << 30)
    elif kind == "not ours":
        place.write_text("x")
        place.chmod(0)
        if os.access(place, os.R_OK):
            pytest.skip("root reads everything")
    elif kind != "missing":
        return kind
    return str(place)


@pytest.mark.parametrize("kind", KINDS)
def test_a_workloads_file_is_a_plain_one_within_its_limit(tmp_path, kind) -> None:
    """Devices, pipes, folders, and files larger than anything that travels with a start-up script."""
    begun = time.process_time()
    path = made(tmp_path, kind)
    with pytest.raises(SpecError) as caught:
        with_files({"workload": {"files": {path: "z"}}}, tmp_path)
    assert time.process_time() - begun < 1
    (problem,) = caught.value.problems
    assert problem.path == f"workload.files.{path}"
    assert str(problem).isprintable() and "1 MiB" in problem.wanted


def test_a_workload_has_so_many_files_and_a_link_to_a_plain_one_is_followed(tmp_path) -> None:
    """The files of a project may be links; thousands of them are for a bucket."""
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    found = with_files({"workload": {"files": {"link": "there"}}}, tmp_path)
    assert found == with_files({"workload": {"files": {"real": "there"}}}, tmp_path)
    with pytest.raises(SpecError, match="at most 64 files"):
        with_files({"workload": {"files": {f"f{at}": f"t{at}" for at in range(65)}}}, tmp_path)


CONFIG = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32_000,
}
ODD: tuple[Any, ...] = (
    0,
    -1,
    1.5,
    1e300,
    float("inf"),
    float("nan"),
    True,
    "32",
    "1e5000",
    [],
    {},
    10**10,
    10**4_200,
)


@pytest.mark.parametrize(
    "value",
    ODD,
    ids=lambda value: f"{type(value).__name__}{len(str(value)) if isinstance(value, str) else ''}",
)
@pytest.mark.parametrize(
    "key",
    [
        *CONFIG,
        "num_key_value_heads",
        "head_dim",
        "intermediate_size",
        "num_experts",
        "num_experts_per_tok",
        "kv_lora_rank",
        "max_position_embeddings",
    ],
)
def test_a_config_whose_figure_is_none_is_refused_or_read(tmp_path, capsys, key, value) -> None:
    """Zero heads, a text, an endless number: the key is named, or the figure was none that counts;
    never another exception.
    """
    file = tmp_path / "config.json"
    text = json.dumps({**CONFIG, key: "@"}).replace(
        '"@"', "1" + "0" * 4_200 if isinstance(value, int) and value > 10**20 else json.dumps(value)
    )
    file.write_text(text)
    for more in (
        [],
        ["--on", "H100:8"],
        ["--serve", "--on", "H100:8", "--json"],
        ["--train", "full"],
    ):
        assert main.main(["size", str(file), *more]) in {0, 1, 2}
        said = capsys.readouterr()
        assert len(said.err) < 1_000
        if key in {*CONFIG, "num_key_value_heads", "head_dim"}:
            assert f"model.{key}" in said.err


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "",
        "{",
        "[]",
        "null",
        '"x"',
        '{"text_config": ' * 500 + "{}" + "}" * 500,
    ],
)
def test_a_config_that_is_none_is_one_message_at_once(tmp_path, capsys, text) -> None:
    """However it is nested."""
    (tmp_path / "config.json").write_text(text)
    begun = time.process_time()
    assert main.main(["size", str(tmp_path)]) == 2
    assert time.process_time() - begun < 2
    assert capsys.readouterr().err.count("\n") <= 4


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind not in {"a\0b", "~nobody-of-that-name/x"}]
)
def test_a_config_is_a_plain_file_within_its_limit(tmp_path, kind) -> None:
    """The same for a model's description."""
    begun = time.process_time()
    with pytest.raises(SpecError):
        architecture.from_file(made(tmp_path, kind))
    assert time.process_time() - begun < 1


def test_a_size_is_said_in_three_figures() -> None:
    """As in messages of limits."""
    assert [regular.size(n) for n in (0, 1_000, 1_024, 1_536, 10 << 30, 1_047_552)] == [
        "0 bytes",
        "1000 bytes",
        "1 KiB",
        "1.5 KiB",
        "10 GiB",
        "1023 KiB",
    ]
