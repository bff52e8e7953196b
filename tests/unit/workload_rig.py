"""A workload, and a machine whose start-up script really runs."""

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
def machine(tmp_path):
    made = Machine(tmp_path)
    yield made
    made.end()
