"""The regions of Vertex AI's custom jobs, as of its discovery document v1 of 2026-11-06. Pure,
imports nothing.
"""

LOCATIONS = frozenset(
    {
        "asia-east1",
        "asia-east2",
        "asia-northeast1",
        "asia-northeast3",
        "asia-south1",
        "asia-south2",
        "asia-southeast1",
    }
    | {
        "asia-southeast2",
        "australia-southeast1",
        "australia-southeast2",
        "europe-central2",
        "europe-north1",
        "europe-west1",
    }
    | {
        "europe-west10",
        "europe-west2",
        "europe-west3",
        "europe-west4",
        "europe-west6",
        "europe-west8",
        "europe-west9",
    }
    | {
        "me-west1",
        "northamerica-northeast1",
        "northamerica-northeast2",
        "southamerica-east1",
        "us-central1",
    }
    | {
        "us-east1",
        "us-east4",
        "us-east5",
        "us-south1",
        "us-west1",
        "us-west2",
        "us-west3",
        "us-west4",
    }
)
"""Where the API has an endpoint and Compute Engine has GPUs: where jobs are made, and looked for.

me-central2 is left out: it is open only to chosen customers, and a region that refuses every list
would leave no search certain.
"""
