"""What a language model is made of: its layers, heads and parameters, read from a Hugging Face
`config.json`, from the hub, or from a small bundled table.

Owns the reading of such a file and the counting of parameters. Must not import httpx on a path that
does not ask the hub.
"""

from __future__ import annotations

import json
import os.path
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

from providers.errors import GpusError, Problem, SpecError
from providers.model import foreign, regular
from providers.workloads.sizing import quantization

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.workloads.sizing.quantization import Quantization

HUB = "https://huggingface.co"
HUB_DEADLINE_S = 8.0
SCALE = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_DATA = os.path.join(os.path.dirname(__file__), "data")  # noqa: PTH118, PTH120 - pathlib would be imported for this alone
_COUNT = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([kmbt])\s*$", re.IGNORECASE)
_REPOSITORY = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$")
_PLAIN_MLP = {"gpt2", "gpt_neox", "opt", "falcon", "phi", "bloom", "gpt_bigcode"}
"""Model types whose feed-forward part has two matrices; all others here are gated and have three.
"""
_QKV_BIAS = {"qwen2", "qwen2_moe"}
"""Model types with a bias on query, key and value whatever `attention_bias` says (transformers,
modeling_qwen2, 2026-11).
"""


class Architecture(NamedTuple):
    """One model. Counts are of single things: `parameters` 70_553_706_496, not billions.

    `active_parameters` are those that one token meets (fewer with a mixture of experts).
    `embedding_parameters` are the input and output embeddings, which most 4-bit formats leave in 16
    bit. `kv_values_per_layer` is what one token leaves in the cache of one layer; with `latent_kv`
    it is one compressed vector that every tensor-parallel GPU holds whole. `estimated` says that
    the shape was guessed from the size.
    """

    name: str
    parameters: int
    active_parameters: int
    embedding_parameters: int
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    kv_values_per_layer: int
    latent_kv: bool = False
    max_context: int | None = None
    dtype: str = "bf16"
    gated: bool = True
    source: str = ""
    estimated: bool = False
    expert_parameters: int = 0
    """Of all experts that a router chooses from; 0 for a dense model."""
    expert_intermediate: int = 0
    """The width of one of them."""
    plain_widths: tuple[int, ...] = ()
    """The widths of the feed-forward parts that no router stands before: of dense layers and of
    shared experts.
    """
    quantization: Quantization | None = None

    def kv_bytes_per_token(self, bytes_per_value: float = 2.0) -> float:
        """Bytes that one token takes in the KV cache of the whole model: grouped heads counted
        once, not once per query head.
        """
        return self.kv_values_per_layer * self.layers * bytes_per_value


def find(text: str, *, hub: bool = True) -> Architecture:
    """The model that `text` means: the path of a config.json (or its folder), a bundled or
    published name, or a size such as `7b`.

    Reads a file, or asks the hub for at most HUB_DEADLINE_S where the name is not bundled and `hub`
    allows it. Raises SpecError for what is none of these, GpusError where the hub can't be asked.
    """
    wanted = text.strip()
    if os.path.exists(wanted):  # noqa: PTH110 - as above
        return from_file(wanted)
    if (known := bundled().get(_key(wanted))) is not None:
        return known
    if (size := count(wanted)) is not None:
        return of_size(size, wanted)
    if _is_path(wanted):
        raise SpecError(
            [
                Problem(
                    "model",
                    f"a readable config.json at {wanted}",
                    "no such file",
                    f"from {os.getcwd()}: check the path",  # noqa: PTH109
                )
            ]
        )
    if not _REPOSITORY.match(wanted):
        near = sorted(
            model.name
            for model in set(bundled().values())
            if _key(wanted) and _key(wanted) in _key(model.name)
        )
        todo = (
            f"near: {', '.join(near[:5])}"
            if near
            else "`gpus size --models` lists the bundled names"
        )
        raise SpecError(
            [
                Problem(
                    "model",
                    "a model such as meta-llama/Llama-3.1-70B, a size such as 7b, or the path of a"
                    " config.json",
                    repr(text),
                    todo,
                )
            ]
        )
    if not hub:
        raise GpusError(
            f"{wanted} is not bundled: give the path of its config.json, or a size such as 7b"
        )
    return from_hub(wanted)


@lru_cache(maxsize=256)
def known(name: str) -> Architecture | None:
    """The model of that name, where it is bundled, a size, or a config.json here; None otherwise.
    Asks nobody.
    """
    if not name or not bundled():
        return None
    try:
        return find(name, hub=False)
    except GpusError:
        return None


def _is_path(text: str) -> bool:
    """Whether only a file can be meant: a published name has one slash, between two names."""
    return text.startswith((".", "/", "~")) or text.endswith(".json") or text.count("/") > 1


def count(text: str) -> int | None:
    """`7b`, `1.5B`, `350M` as a number; None for anything else."""
    match = _COUNT.match(text)
    return round(float(match[1]) * SCALE[match[2].lower()]) if match else None


def from_file(path: str) -> Architecture:
    """The model of a config.json, or of the folder that holds one. Raises SpecError for what is
    none.
    """
    where = os.path.join(path, "config.json") if os.path.isdir(path) else path  # noqa: PTH112, PTH118 - as above
    try:
        content = foreign.loads(regular.content(where, regular.SMALL_MAX))
    except (OSError, ValueError) as error:
        raise SpecError(
            [
                Problem(
                    "model",
                    f"a readable config.json at {where}",
                    getattr(error, "strerror", None) or str(error),
                )
            ]
        ) from None
    return read(content, path, f"{where}")


def from_hub(name: str) -> Architecture:
    """The model of a repository's config.json on the hub. One call. Raises GpusError naming what to
    do instead.
    """
    import httpx

    try:
        token = os.environ.get("HF_TOKEN", "")
        found = httpx.get(
            f"{os.environ.get('HF_ENDPOINT', HUB)}/{name}/resolve/main/config.json",
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=HUB_DEADLINE_S,
            follow_redirects=True,
        )
    except httpx.HTTPError as error:
        raise GpusError(
            f"{name} is not bundled and the hub can't be asked ({type(error).__name__}): give the"
            " path of its config.json, or a size such as 7b"
        ) from None
    if found.status_code in (401, 403):
        raise GpusError(
            f"{name}: the hub wants a login for it ({found.status_code}): set HF_TOKEN, or give the"
            " path of its config.json"
        )
    if found.status_code != httpx.codes.OK:
        raise GpusError(
            f"{name}: the hub answered {found.status_code} for its config.json: check the name, or"
            " give the path of the file, or a size such as 7b"
        )
    try:
        content = foreign.loads(found.content)
    except ValueError:
        raise GpusError(
            f"{name}: what the hub gave as config.json is no JSON: give the path of the file"
        ) from None
    return read(content, name, f"{HUB}/{name}")


@cache
def bundled() -> Mapping[str, Architecture]:
    """The models of the bundled table, by every name they go by.
    Reads one file, once per process.
    """
    with open(os.path.join(_DATA, "models.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - as above
        rows = json.load(file)
    table: dict[str, Architecture] = {}
    for row in rows["models"]:
        made = read(row["config"], row["name"], f"{HUB}/{row['name']}, {rows['as_of']}")
        for name in (row["name"], row["name"].rpartition("/")[2], *row.get("also", ())):
            table[_key(name)] = made
    return table


def of_size(parameters: int, name: str) -> Architecture:
    """A dense model of so many parameters, with the shape of the bundled one that is nearest in
    size. The shape is a guess, and says so.
    """
    like = min(
        (
            model
            for model in dict.fromkeys(bundled().values())
            if model.active_parameters == model.parameters and model.kv_heads < model.heads
        ),
        key=lambda model: abs(model.parameters - parameters) / min(model.parameters, parameters),
    )
    return like._replace(
        name=name,
        parameters=parameters,
        active_parameters=parameters,
        embedding_parameters=min(like.embedding_parameters, parameters // 4),
        source=f"shape of {like.name}, the nearest in size",
        estimated=True,
    )


def read(config: Mapping[str, object], name: str, source: str = "") -> Architecture:
    """The model of a config.json's content. Raises SpecError naming the key that is missing or no
    positive number.
    """
    if not isinstance(config, dict):
        raise SpecError(
            [Problem("model", "a mapping, as a config.json holds", type(config).__name__)]
        )
    inner = config.get("text_config") or config.get("llm_config")
    fields: dict[str, object] = {**config, **inner} if isinstance(inner, dict) else dict(config)
    layers = _number(fields, "num_hidden_layers", "n_layer", "num_layers")
    hidden = _number(fields, "hidden_size", "n_embd", "d_model")
    heads = _number(fields, "num_attention_heads", "n_head", "num_heads")
    vocabulary = _number(fields, "vocab_size")
    kv_heads = _number(fields, "num_key_value_heads", "num_kv_heads", default=heads)
    head_dim = _number(fields, "head_dim", default=max(1, hidden // heads))
    kind = str(fields.get("model_type", ""))
    gated = kind not in _PLAIN_MLP
    intermediate = _number(fields, "intermediate_size", "n_inner", "ffn_dim", default=4 * hidden)
    if heads % kv_heads:
        raise SpecError(
            [
                Problem(
                    "model",
                    f"attention heads that the KV heads divide ({kv_heads})",
                    str(heads),
                    f"check {source or 'the config'}",
                )
            ]
        )

    latent = fields.get("kv_lora_rank") is not None
    if latent:
        attention, kv_values = _latent(fields, hidden, heads)
    else:
        attention = hidden * heads * head_dim * 2 + hidden * kv_heads * head_dim * 2
        if fields.get("attention_bias") or kind in _QKV_BIAS or kind == "gpt2":
            attention += (heads + 2 * kv_heads) * head_dim
        if kind == "gpt_oss":
            attention += hidden + heads  # the output's bias, and a sink for each head
        kv_values = 2 * kv_heads * head_dim
    matrices = 3 if gated else 2
    mlp = _feed_forward(fields, kind, layers, hidden, intermediate, matrices)
    tied = bool(fields.get("tie_word_embeddings", kind in {"gpt2", "gemma", "gemma2"}))
    embeddings = vocabulary * hidden * (1 if tied else 2)
    if kind in {"gpt2", "opt"}:
        embeddings += hidden * _number(
            fields, "n_positions", "max_position_embeddings", default=1024
        )
    rest = layers * (attention + 2 * hidden) + embeddings + hidden
    context = fields.get("max_position_embeddings") or fields.get("n_positions")
    return Architecture(
        name=name,
        parameters=rest + mlp.total,
        active_parameters=rest + mlp.active,
        embedding_parameters=embeddings,
        layers=layers,
        hidden=hidden,
        intermediate=intermediate,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocabulary=vocabulary,
        kv_values_per_layer=kv_values,
        latent_kv=latent,
        max_context=context if isinstance(context, int) else None,
        dtype=_dtype(fields),
        gated=gated,
        source=source,
        expert_parameters=mlp.experts,
        expert_intermediate=mlp.expert_width,
        plain_widths=mlp.plain_widths,
        quantization=quantization.read(
            config.get("quantization_config") or fields.get("quantization_config")
        ),
    )


class _FeedForward(NamedTuple):
    total: int
    active: int
    experts: int = 0
    expert_width: int = 0
    plain_widths: tuple[int, ...] = ()


def _feed_forward(
    fields: Mapping[str, object],
    kind: str,
    layers: int,
    hidden: int,
    intermediate: int,
    matrices: int,
) -> _FeedForward:
    """Parameters of all feed-forward parts together: all, those that one token meets, those of the
    chosen experts; and the widths of both kinds.
    """
    count = _number(fields, "num_local_experts", "n_routed_experts", "num_experts", default=0)
    if not count:
        dense = layers * matrices * hidden * intermediate
        return _FeedForward(dense, dense, plain_widths=(intermediate,))
    width = _number(fields, "moe_intermediate_size", default=intermediate)
    bias = (hidden + 2 * width) if kind == "gpt_oss" else 0
    each = matrices * hidden * width + bias
    chosen = _number(fields, "num_experts_per_tok", "experts_per_token", default=1)
    router = hidden * count + (
        count if kind in {"gpt_oss", "glm4_moe", "deepseek_v3", "minimax_m2"} else 0
    )
    shared_count = _number(fields, "n_shared_experts", "num_shared_experts", default=0)
    shared_width = _number(fields, "shared_expert_intermediate_size", default=width * shared_count)
    plain = _number(fields, "first_k_dense_replace", default=0)
    dense_width = intermediate
    if kind in {"llama4", "llama4_text"}:
        # Each MoE layer has a shared expert of the experts' own width; the layers between them are
        # dense and wider.
        shared_width, dense_width = (
            width,
            _number(fields, "intermediate_size_mlp", default=intermediate),
        )
        plain = layers - layers // max(1, _number(fields, "interleave_moe_layer_step", default=1))
    elif isinstance(fields.get("mlp_only_layers"), list):
        plain = len(cast("list[object]", fields["mlp_only_layers"]))
    shared = matrices * hidden * shared_width + (hidden if kind == "qwen2_moe" else 0)
    common = plain * matrices * hidden * dense_width + (layers - plain) * (shared + router)
    experts = (layers - plain) * count * each
    return _FeedForward(
        common + experts,
        common + (layers - plain) * chosen * each,
        experts,
        width,
        tuple(
            size for size, there in ((dense_width, plain), (shared_width, shared_width)) if there
        ),
    )


def _latent(fields: Mapping[str, object], hidden: int, heads: int) -> tuple[int, int]:
    """(parameters of one attention layer, values per token in its cache) of multi-head latent
    attention (DeepSeek-V2 report, 2024).
    """
    rank, rope = _number(fields, "kv_lora_rank"), _number(fields, "qk_rope_head_dim")
    nope, value = _number(fields, "qk_nope_head_dim"), _number(fields, "v_head_dim")
    query = _number(fields, "q_lora_rank", default=0)
    queries = (
        hidden * query + query * heads * (nope + rope) if query else hidden * heads * (nope + rope)
    )
    return (
        queries + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden,
        rank + rope,
    )


def _number(fields: Mapping[str, object], *keys: str, default: int | None = None) -> int:
    for key in keys:
        value = fields.get(key)
        if value is None:
            continue
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not 0 <= value <= 10**9
            or (value == 0 and default != 0)
        ):
            raise SpecError([Problem(f"model.{key}", "a positive whole number", repr(value))])
        return value
    if default is None:
        raise SpecError(
            [
                Problem(
                    f"model.{keys[0]}",
                    "a positive whole number",
                    "nothing",
                    "a config.json of a language model has it",
                )
            ]
        )
    return default


def _dtype(fields: Mapping[str, object]) -> str:
    quantized = quantization.read(fields.get("quantization_config"))
    if quantized is not None:
        return quantized.dtype
    stated = str(fields.get("torch_dtype") or fields.get("dtype") or "bfloat16")
    return {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8"}.get(
        stated, "bf16"
    )


def _key(name: str) -> str:
    """Names compare without case and without the endings that change no shape."""
    return re.sub(r"(-instruct|-it|-chat|-hf)$", "", name.strip().lower().replace("_", "-"))
