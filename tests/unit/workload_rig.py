"""A workload, and a machine whose start-up script really runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.model.workload import Task, Workload
from tests.launchers.machines import Machine

VLLM = Workload(
    (
        Task(
            launcher="vllm",
            model="meta-llama/Llama-3.1-70B",
            dtype="bf16",
            context=32768,
            concurrency=8,
        ),
    )
)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.end()
