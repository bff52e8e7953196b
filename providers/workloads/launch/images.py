"""What the launchers' default images start by themselves. Pure.

Owns the table of ENTRYPOINT and CMD, and where each image's program and caches lie. An image that
is not listed here is started the same way: whatever its ENTRYPOINT is, the shell takes its place.
"""

from __future__ import annotations

from typing import NamedTuple

SHELL = "sh"
"""What takes the place of an image's own ENTRYPOINT: it is handed `-c` and the line."""


class Image(NamedTuple):
    """`entrypoint` and `cmd` are the image's own. `folder` holds its program where that is not on
    its PATH. `source`: file, commit and date.
    """

    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...] = ()
    folder: str = ""
    source: str = ""


IMAGES = {
    "vllm/vllm-openai": Image(
        ("vllm", "serve"), source="vllm-project/vllm docker/Dockerfile@dead20ba, read 2026-11-28"
    ),
    "lmsysorg/sglang": Image(
        ("/opt/nvidia/nvidia_entrypoint.sh",),
        ("/bin/bash",),
        source=(
            "sgl-project/sglang docker/Dockerfile@004740a9 sets neither, nvidia/cuda 12.x devel,"
            " which it is built from, does; read 2026-11-28"
        ),
    ),
    "ghcr.io/huggingface/text-generation-inference": Image(
        ("/tgi-entrypoint.sh",),
        source=(
            "huggingface/text-generation-inference Dockerfile@db931fcf (2026-01-08), read"
            " 2026-11-28"
        ),
    ),
    "ollama/ollama": Image(
        ("/bin/ollama",),
        ("serve",),
        source="ollama/ollama Dockerfile@fb307609 (2026-08-21), read 2026-11-28",
    ),
    "ghcr.io/ggml-org/llama.cpp": Image(
        ("/app/llama-server",),
        folder="/app",
        source=(
            "ggml-org/llama.cpp .devops/cuda.Dockerfile@00d69466, target server, read 2026-11-28"
        ),
    ),
}
"""By name, without tag or digest."""


def known(image: str) -> Image | None:
    """The entry of an image, with or without its tag, digest or Docker Hub's own address; None for
    one that is not listed.
    """
    name = image.partition("@")[0].removeprefix("docker.io/")
    head, slash, last = name.rpartition("/")
    return IMAGES.get(f"{head}{slash}{last.partition(':')[0]}")
