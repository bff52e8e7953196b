"""Buckets as folders of a container: what Modal's CloudBucketMount takes, as plain values. Owns
which of Modal's secrets logs in there; pure, imports no client.

Source: the client's `cloud_bucket_mount.py` and its page, 1.6.4: Google's buckets are reached by
their S3 interface with an HMAC key, a prefix ends in /.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from providers.errors import Problem
from providers.model.secret import referred
from providers.model.workload import STORE_KEYS, Mount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.model.machine import Setup

ENDPOINTS = {"s3": "", "gs": "https://storage.googleapis.com"}


class BucketMount(NamedTuple):
    """One bucket's folder. `secret` is the Modal secret that holds the `keys`."""

    path: str
    bucket: str
    prefix: str
    endpoint: str
    secret: str
    keys: tuple[str, ...]
    read_only: bool


def bucket_mounts(setup: Setup) -> tuple[BucketMount, ...]:
    """The mounts of an order, whose secrets are Modal's own."""
    references = dict(referred(setup.secrets))
    return tuple(
        BucketMount(
            mount.path.rstrip("/"),
            mount.bucket,
            mount.prefix,
            ENDPOINTS[mount.scheme],
            references.get(STORE_KEYS[mount.scheme][0], ""),
            STORE_KEYS[mount.scheme],
            not mount.writable,
        )
        for mount in (Mount(*each) for each in setup.mounts)
    )


def problems(setup: Setup, secrets: Sequence[tuple[str, str]]) -> list[Problem]:
    """What of the secrets, (variable, Modal's secret), does not log in to the mounts: Modal takes
    one secret for a mount.
    """
    references = dict(secrets)
    found = []
    for scheme in dict.fromkeys(Mount(*each).scheme for each in setup.mounts):
        held = [references[name] for name in STORE_KEYS[scheme] if name in references]
        if len(set(held)) > 1:
            found.append(
                Problem(
                    "",
                    f"one Modal secret that holds {' and '.join(STORE_KEYS[scheme])}: a mount takes"
                    " one",
                    " and ".join(held),
                    "put both into one, and name it for both under secrets",
                )
            )
    return found
