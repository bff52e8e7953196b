"""A model in llama.cpp's file format, made here: one layer, random weights, a vocabulary of bytes.
Of the format as ggml's docs/gguf.md has it.
"""

import random
import struct

WIDTH, FEED, HEADS, CONTEXT = 32, 64, 2, 512
U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
ALIGN = 32


def _text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _pair(key, kind, value):
    return _text(key) + struct.pack("<I", kind) + value


def _array(kind, values, pack):
    return struct.pack("<IQ", kind, len(values)) + b"".join(map(pack, values))


def write(path) -> None:
    """Writes the file: some 50 KB."""
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{number:02X}>" for number in range(256)),
        "\u2581",
        *map(chr, range(97, 123)),
    ]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * 27]
    integers = {
        "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": FEED,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    pairs = [
        _pair("general.architecture", STRING, _text("llama")),
        _pair("general.name", STRING, _text("tiny")),
        _pair("tokenizer.ggml.model", STRING, _text("llama")),
        _pair("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
        *(_pair(key, U32, struct.pack("<I", value)) for key, value in integers.items()),
        _pair("tokenizer.ggml.tokens", ARRAY, _array(STRING, tokens, _text)),
        _pair(
            "tokenizer.ggml.scores",
            ARRAY,
            _array(F32, [0.0] * len(tokens), lambda value: struct.pack("<f", value)),
        ),
        _pair(
            "tokenizer.ggml.token_type",
            ARRAY,
            _array(I32, kinds, lambda value: struct.pack("<i", value)),
        ),
    ]
    shapes = {
        "token_embd.weight": (WIDTH, len(tokens)),
        "blk.0.attn_norm.weight": (WIDTH,),
        **{f"blk.0.attn_{name}.weight": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_norm.weight": (WIDTH,),
        "blk.0.ffn_gate.weight": (WIDTH, FEED),
        "blk.0.ffn_up.weight": (WIDTH, FEED),
        "blk.0.ffn_down.weight": (FEED, WIDTH),
        "output_norm.weight": (WIDTH,),
        "output.weight": (WIDTH, len(tokens)),
    }
    drawn, infos, data = random.Random(1), b"", b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        infos += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += struct.pack(
            f"<{count}f", *(1.0 if len(shape) == 1 else drawn.gauss(0, 0.1) for _ in range(count))
        )
        data += b"\0" * (-len(data) % ALIGN)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), len(pairs)) + b"".join(pairs) + infos
    path.write_bytes(head + b"\0" * (-len(head) % ALIGN) + data)
