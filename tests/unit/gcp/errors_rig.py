"""Failed operations and refused requests of Compute Engine, made up for the tests."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from providers.adapters.gcp.errors import Context
from providers.model.offer import Candidate, Offer


def candidate(
    zone: str = "us-central1-a",
    machine_type: str = "a3-highgpu-8g",
    capacity: str = "spot",
    accelerator: str = "",
    gpu: str = "H100",
    region: str = "us-central1",
) -> Candidate:
    return Candidate(
        1,
        0,
        Offer("gcp", region, zone, machine_type, gpu, 8, capacity, 1, accelerator=accelerator),
        1,
        micro_usd=1,
    )


TOKEN = "11111111-2222-4333-8444-555555555555"
CREATE = Context("gcp us-central1-a a3-highgpu-8g spot", "my-project", True, TOKEN, (candidate(),))
READ = CREATE._replace(creating=False)


def body(
    reason: str,
    status: int = 403,
    message: str = "words",
    details: Sequence[Mapping[str, Any]] = (),
) -> str:
    error = {
        "code": status,
        "message": message,
        "errors": [{"message": message, "domain": "global", "reason": reason}],
    }
    return json.dumps({"error": {**error, "details": list(details)} if details else error})
