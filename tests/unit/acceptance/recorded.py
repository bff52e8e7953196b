"""What a sound H200 answered on 2026-11-29 (driver 580, PyTorch 2.11), and edits of it.

`h200.xml` is `nvidia-smi -q -x` without what is not read; `h200.json` is the program's answer.
"""

import copy
import json
from pathlib import Path

from providers.acceptance.judge import judge
from providers.acceptance.on_node import driver

HERE = Path(__file__).parent
XML = (HERE / "h200.xml").read_text(encoding="utf-8")
ANSWER = json.loads((HERE / "h200.json").read_text(encoding="utf-8"))


def answer(**changes):
    """The recorded answer with these fields instead."""
    return {**copy.deepcopy(ANSWER), **changes}


def told_by(xml, **measured):
    """The answer of a machine whose driver printed this, measured as the H200 was but for these."""
    found = answer(gpus=driver.inventory(xml))
    found["measured"][0].update(measured)
    return found


def several(count, **changes):
    """The answer of `count` such GPUs on NVLink, each joined to each."""
    one = answer()
    found = answer(
        gpus=[{**one["gpus"][0], "index": index} for index in range(count)],
        measured=[{**one["measured"][0], "index": index} for index in range(count)],
        links={
            "matrix": [
                ["X" if row == column else "NV18" for column in range(count)]
                for row in range(count)
            ],
            "nvlink_gb_s": [478.1] * count,
        },
        peers=[{"pair": [0, 1], "gb_s": 390.0}],
        all_reduce=[{"bytes": 1 << 30, "gpus": count, "bus_gb_s": 331.0}],
    )
    return {**found, **changes}


def checked(found, gpu_type="H200", count=1):
    """(verdict, all reasons in one text)."""
    verdict = judge(found, gpu_type, count)
    return verdict.word, "; ".join(verdict.reasons)
