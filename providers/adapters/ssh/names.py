"""How a driver writes GPUs: which model a card's product name and memory mean. Owns nothing but the
reading; the catalog has the spellings. Pure.
"""

from __future__ import annotations

from providers.catalog import names


def model(product: str, mib: float) -> str:
    """The model of a card by `nvidia-smi`'s name and memory; empty where no model is known by it."""
    return names.gpu_type(product, mib) or ""


def spellings() -> dict[str, tuple[str, ...]]:
    """What is known: a model's name and the models that it means. NVIDIA's product names are
    compared without case, blanks, dashes and the vendor (nvidia-smi(1), read 2026-11-29).
    """
    return {name: names.accepts(name, exact=True) for name in names.models()}
