"""What an editor tells a user: `tests/user/program.py` is right by a strict type checker, and each
slip in it is told.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from providers.model import spec_fields, workload_spec
from providers.resources import args

PROGRAM = Path(__file__).parents[1] / "user" / "program.py"
SLIPS = {
    'ttl="20h"': 'ttll="20h"',
    'spot="prefer"': 'spot="prefered"',
    'launcher": "torchrun"': 'launcher": "torchrn"',
    'command": "train.py"': 'comand": "train.py"',
    "disk_gib=200": 'disk_gib="200"',
    'world="rehearsal"': 'world="rehersal"',
    'spot="only"': 'spot="sometimes"',
    'train="lora"': 'train="lorra"',
    "best.price_usd_per_hour * 24": "best.price_usd * 24",
}


@pytest.mark.long
def test_a_users_program_is_right_and_a_slip_is_told(tmp_path) -> None:
    """By basedpyright in strict mode, which needs no network: every slip is an error on its line."""
    text = PROGRAM.read_text()
    (tmp_path / "right.py").write_text(text)
    lines: dict[str, int] = {}
    for number, (right, wrong) in enumerate(SLIPS.items()):
        assert text.count(right) == 1
        lines[f"slip{number}.py"] = text[: text.index(right)].count("\n")
        (tmp_path / f"slip{number}.py").write_text(text.replace(right, wrong))
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    checker = Path(sys.executable).with_name("basedpyright")
    done = subprocess.run(
        [str(checker), "--outputjson", "--pythonpath", sys.executable, "--project", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, set[int]] = {}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        found.setdefault(Path(each["file"]).name, set()).add(each["range"]["start"]["line"])
    assert "right.py" not in found, done.stdout
    assert {name for name, line in lines.items() if line in found.get(name, ())} == set(lines)


def choices(kind: object) -> set[str]:
    """Every text that a type's literals allow, however deep."""
    if get_origin(kind) is Literal:
        return {each for each in get_args(kind) if isinstance(each, str)}
    return set().union(*(choices(part) for part in get_args(kind)), set())


@pytest.mark.parametrize(
    ("keywords", "model", "apart"),
    [
        (args.ClusterArgs, spec_fields.ClusterFields, {"name", "gpu"}),
        (args.GpuArgs, spec_fields.Gpu, set()),
        (args.FallbackArgs, spec_fields.Fallback, set()),
        (args.PricesArgs, spec_fields.Prices, set()),
        (args.TlsArgs, spec_fields.Tls, set()),
        (args.BlockArgs, spec_fields.Block, set()),
        (args.OverrideArgs, spec_fields.Override, set()),
        (args.WorkloadArgs, workload_spec.Workload, set()),
        (args.TaskArgs, workload_spec.Task, set()),
        (args.TrainArgs, workload_spec.Train, set()),
        (args.MountArgs, workload_spec.Mount, set()),
        (args.VolumeUseArgs, workload_spec.VolumeUse, set()),
        (args.RegistryArgs, workload_spec.Registry, set()),
        (args.CheckpointArgs, workload_spec.Checkpoint, set()),
    ],
)
def test_the_keywords_are_the_specs_fields(keywords: Any, model: Any, apart: set[str]) -> None:
    """All of them, with the same choices."""
    hints = keywords.__annotations__
    fields = model.model_fields
    assert set(hints) == set(fields) - apart
    for name, hint in hints.items():
        annotation = fields[name].annotation
        if choices(annotation) and not hasattr(annotation, "model_fields"):
            assert choices(hint) == choices(annotation), name
