"""How a checkpoint's weights are quantised, read from the `quantization_config` of a config.json.
Owns the formats' names; pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

GROUPED = {"awq", "gptq", "int4"}
"""4-bit formats whose scales belong to groups of neighbouring weights."""
USUAL_GROUP = 128
"""What AutoAWQ, GPTQ and llm-compressor take where nothing else is said (their documentation, as
remembered 2026-11).
"""


class Quantization(NamedTuple):
    """`dtype` is the format by sizing's own name. `group` neighbouring weights of a row share a
    scale (0: a whole row does).

    `block` is the side of the square that shares one in block-quantised fp8; `ordered` says that
    GPTQ sorted rows by activation (`desc_act`).
    """

    dtype: str
    group: int = 0
    block: int = 0
    ordered: bool = False


def read(found: object) -> Quantization | None:
    """The quantisation of a `quantization_config`; None for none, or for a method that is not
    known.
    """
    if not isinstance(found, Mapping):
        return None
    method = str(found.get("quant_method", "")).lower()
    if method == "mxfp4":
        return Quantization("mxfp4")
    if method in {"fp8", "fbgemm_fp8"}:
        block = found.get("weight_block_size")
        return Quantization(
            "fp8", block=_size(block[0]) if isinstance(block, (list, tuple)) and block else 0
        )
    if method in {"awq", "gptq", "auto-round", "auto_round"}:
        name = "awq" if method == "awq" else "gptq"
        return _bits(
            name,
            found.get("bits", found.get("w_bit", 4)),
            found.get("group_size", found.get("q_group_size", USUAL_GROUP)),
        )._replace(ordered=found.get("desc_act") is True)
    if method == "bitsandbytes":
        return Quantization(
            "nf4" if found.get("load_in_4bit") or found.get("_load_in_4bit") else "int8"
        )
    if method == "compressed-tensors":
        return _compressed(found)
    if method == "modelopt":
        return {"NVFP4": Quantization("fp4", group=16), "FP8": Quantization("fp8")}.get(
            str(found.get("quant_algo", "")).upper()
        )
    return None


def _compressed(found: Mapping[object, object]) -> Quantization | None:
    groups = found.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    if weights.get("type") == "float":
        return Quantization("fp4", group=16) if weights.get("num_bits") == 4 else _block(weights)
    group = weights.get("group_size") if weights.get("strategy") == "group" else -1
    return _bits("int4", weights.get("num_bits", 4), group)


def _block(weights: Mapping[object, object]) -> Quantization:
    block = weights.get("block_structure")
    return Quantization(
        "fp8", block=_size(block[0]) if isinstance(block, (list, tuple)) and block else 0
    )


def _bits(name: str, bits: object, group: object) -> Quantization:
    return Quantization(name if bits == 4 else "int8", group=_size(group))


def _size(value: object) -> int:
    """A number of weights; 0 for -1 (a whole row) and for what is no number."""
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1_000_000
        else 0
    )
