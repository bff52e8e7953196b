"""Failed operations and refused requests of Compute Engine, made up for the tests."""

import json

from providers.adapters.gcp.errors import Context
from providers.model.offer import Candidate, Offer


def candidate(
    zone="us-central1-a",
    machine_type="a3-highgpu-8g",
    capacity="spot",
    accelerator="",
    gpu="H100",
    region="us-central1",
):
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


def body(reason, status=403, message="words", details=()):
    error = {
        "code": status,
        "message": message,
        "errors": [{"message": message, "domain": "global", "reason": reason}],
    }
    return json.dumps({"error": {**error, "details": list(details)} if details else error})
