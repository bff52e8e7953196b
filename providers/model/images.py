"""Container images: which CUDA one holds, as far as its name says it, and how much disk it takes.
Owns the tables. Pure.

What a name does not say is not known, and nothing is refused on a guess.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ASSUMED_GIB = 30.0
"""What an image takes on disk where nobody said how large it is: as the largest common ones, so
that a disk is rather too large than too small.
"""

_SIZES_GIB = (
    ("vllm/vllm-openai", 30.0),
    ("lmsysorg/sglang", 35.0),
    ("huggingface/text-generation-inference", 15.0),
    ("ollama/ollama", 6.0),
    ("ggml-org/llama.cpp", 6.0),
    ("nvidia/cuda", 10.0),
    ("pytorch/pytorch", 15.0),
    ("nvidia/pytorch", 30.0),
)
"""(end of the repository's name, GiB on disk, unpacked). vLLM: 28.6 GB (vllm-project/vllm pull
request 22377, 2025-12). The others: what `docker images` shows of their CUDA builds, as remembered
2026-11, rounded up.
"""


class Cuda(NamedTuple):
    """A release of CUDA. `minor` is None where only the major was said."""

    major: int
    minor: int | None = None

    def __str__(self) -> str:
        return str(self.major) if self.minor is None else f"{self.major}.{self.minor}"


LEAST_DRIVER = {11: 450, 12: 525, 13: 580}
"""The oldest branch of NVIDIA's driver that runs any release of a CUDA major, by minor-version
compatibility (docs.nvidia.com, CUDA Compatibility, "Minor Version Compatibility", read 2026-11-28).
"""

_TOLD = re.compile(r"(?<![a-z])(?:cuda|cu)[-_]?(\d{2})(?:[._]?(\d))?")
_LEADING = re.compile(r"^(1[0-9])\.(\d{1,2})(?:\.\d+)?(?:-|$)")
_VLLM = re.compile(r"^v0\.(\d+)(?:\.|$)")
_NGC = re.compile(r"^(\d{2})\.(\d{2})(?:-|$)")
_VLLM_CUDA = ((20, Cuda(13, 0)), (9, Cuda(12, 8)))
"""(first minor release, its CUDA): 13.0 since 0.20 also for `latest` (vllm-project/vllm issue 42738
and ai-dynamo/nixl pull request 2140, 2026), 12.8 since 0.9 (vllm-project/vllm issue 18813, 2025).
"""
_NGC_CUDA = (
    *(
        (25, 8, Cuda(13, 0)),
        (25, 4, Cuda(12, 9)),
        (25, 1, Cuda(12, 8)),
        (24, 8, Cuda(12, 6)),
        (24, 6, Cuda(12, 5)),
        (24, 3, Cuda(12, 4)),
    ),
    *((23, 11, Cuda(12, 3)), (23, 8, Cuda(12, 2)), (23, 4, Cuda(12, 1)), (23, 1, Cuda(12, 0))),
)
"""(year, month, CUDA since then) of NVIDIA's own framework images (its support matrix, as
remembered 2026-11).
"""
_OTHERS = {
    "rocm": "AMD's ROCm",
    "musa": "Moore Threads' MUSA",
    "xpu": "Intel's XPU",
    "hpu": "Intel's Gaudi",
    "gaudi": "Intel's Gaudi",
    "neuron": "AWS's Neuron",
    "tpu": "Google's TPU",
}
"""Words of an image's name that say whose accelerators it is made for."""


def cuda(image: str) -> Cuda | None:
    """The CUDA of an image by its name: `pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime`,
    `app:cu128`, `nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04`; None where the name does not say it.
    """
    repository, tag = _parts(image)
    if match := _TOLD.search(tag):
        return Cuda(int(match[1]), int(match[2]) if match[2] else None)
    name = repository.rpartition("/")[2]
    if (match := _LEADING.match(tag)) and (name == "cuda" or "cudnn" in tag):
        return Cuda(int(match[1]), int(match[2]))
    if repository.endswith("vllm/vllm-openai"):
        match = _VLLM.match(tag)
        if tag in {"", "latest"} and "@" in image:
            return None  # whatever was the latest when its digest was taken
        minor = 10**6 if tag in {"", "latest"} else int(match[1]) if match else -1
        return next((found for first, found in _VLLM_CUDA if minor >= first), None)
    if (
        repository.startswith("nvcr.io/nvidia/")
        and tag.endswith("-py3")
        and (match := _NGC.match(tag))
    ):
        return next(
            (
                found
                for year, month, found in _NGC_CUDA
                if (int(match[1]), int(match[2])) >= (year, month)
            ),
            None,
        )
    return None


def other(image: str) -> str:
    """Whose accelerators an image is made for, where its name says others than NVIDIA's:
    `rocm/pytorch`, `ollama/ollama:rocm`; else nothing.
    """
    words = set(re.split(r"[^a-z]+", " ".join(_parts(image))))
    return next((whose for word, whose in _OTHERS.items() if word in words), "")


def size_gib(image: str) -> float | None:
    """GiB that an image takes on disk, unpacked; None where the table has none."""
    repository, _ = _parts(image)
    return next(
        (size for end, size in _SIZES_GIB if repository == end or repository.endswith(f"/{end}")),
        None,
    )


def undriven(image: str, driver: int, where: str) -> str:
    """Why a host with this branch of NVIDIA's driver can't start the image; nothing where it can,
    or where either is not known.
    """
    found = cuda(image)
    least = LEAST_DRIVER.get(found.major, 0) if found is not None else 0
    if not driver or driver >= least:
        return ""
    return f"{image} has CUDA {found}, which wants driver {least} or newer; {where} has {driver}"


def _parts(image: str) -> tuple[str, str]:
    """(repository, tag) in lower case; a digest is left out."""
    bare = image.strip().lower().partition("@")[0]
    head, colon, tag = bare.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (bare, "")
