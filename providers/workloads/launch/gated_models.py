"""Models that Hugging Face hands out only to whoever has accepted their terms, with a token. Pure.

Owns the list. A model that is not listed may be gated all the same: nothing is refused by this
list, a plan says what it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from providers.model.workload import Workload

GATED = (
    "meta-llama/",
    "google/gemma-2",
    "google/gemma-3",
    "google/gemma-7b",
    "mistralai/Mistral-7B-Instruct-v0.2",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mixtral-8x",
    "black-forest-labs/FLUX.1-dev",
    "stabilityai/stable-diffusion-3",
)
"""How their names begin. Sources, read 2026-11-28: the models' pages on huggingface.co ("You need
to agree ... to access this model"; Llama, Gemma, FLUX.1 [dev], Stable Diffusion 3), and for
Mistral's huggingface/alignment-handbook#166 and huggingface/transformers#31367.
"""
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""The variables in which huggingface_hub looks for a token (docs/huggingface_hub, "Environment
variables", 2026-11).
"""
FETCHES = frozenset({"vllm", "sglang", "tgi", "flux"})
"""Launchers that fetch their model from Hugging Face by its name."""


def gated(workload: Workload, declared: Collection[str]) -> str:
    """The gated model that a workload fetches without a token; nothing where there is none.
    `declared` are the variables that it finds set.
    """
    for task in workload.tasks:
        known = {*declared, *dict(task.env)}
        if task.launcher in FETCHES and task.model.startswith(GATED) and known.isdisjoint(TOKENS):
            return task.model
    return ""
