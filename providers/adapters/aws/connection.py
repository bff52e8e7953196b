"""The adapter, opened: in a rehearsal, or live with the credentials that boto3 finds. Owns whose
credentials those are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.adapters.aws.adapter import Ec2
from providers.adapters.aws.errors import PROVIDER, clean
from providers.adapters.base import given, rehearsal_endpoint
from providers.errors import NotConfigured
from providers.model.worlds import LIVE, REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.adapters.aws.client import Client
    from providers.model.worlds import RehearsedCloud
REHEARSAL_LOOKS_S = (0.0, 0.05)
OF_NO_PROFILE = frozenset({"env", "iam-role", "container-role"})
"""How botocore 1.44.8 names credentials that no profile holds: key variables, and the role of the
machine or container that this runs on.
"""


def connect(world: str, config: Mapping[str, str], rehearsed: RehearsedCloud | None = None) -> Ec2:
    """The adapter; see `providers.adapters.aws.connect`."""
    from importlib.util import find_spec

    if find_spec("boto3") is None:
        raise NotConfigured(
            "aws: wanted boto3, found none; install it: pip install 'gpus[aws]'", provider=PROVIDER
        )
    regions = tuple(
        dict.fromkeys(name.strip() for name in config.get("regions", "").split(",") if name.strip())
    )
    endpoint = config.get("endpoint") or ""
    if world == REHEARSAL:
        return _rehearsal(endpoint, regions, rehearsed)
    profile, account = config.get("profile") or "", config.get("account") or ""
    found = _live(profile, endpoint or None, regions, account)
    if wanted := config.get("account"):
        found.only(wanted)
    return found


def _rehearsal(endpoint: str, regions: tuple[str, ...], rehearsed: RehearsedCloud | None) -> Ec2:
    if endpoint:
        # What is wrong with it is told now, not at the first call.
        rehearsal_endpoint(PROVIDER, endpoint, rehearsed)
    else:
        rehearsed = given(PROVIDER, rehearsed)

    def opened() -> Client:
        from providers.adapters.aws.client import Client, sealed_session

        return Client(sealed_session(), rehearsal_endpoint(PROVIDER, endpoint, rehearsed))

    if rehearsed is None:
        return Ec2(
            REHEARSAL,
            opened,
            regions=regions,
            looks_s=REHEARSAL_LOOKS_S,
            block_looks_s=REHEARSAL_LOOKS_S,
        )
    return Ec2(
        REHEARSAL,
        opened,
        regions=regions,
        now=rehearsed.now,
        looks_s=REHEARSAL_LOOKS_S,
        block_looks_s=REHEARSAL_LOOKS_S,
        untouched=rehearsed.untouched,
    )


def _live(profile: str, endpoint: str | None, regions: tuple[str, ...], account: str) -> Ec2:
    import boto3
    from botocore.exceptions import BotoCoreError, ProfileNotFound

    from providers.adapters.aws.client import Client

    todo = (
        "run `aws configure sso`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and"
        " AWS_SECRET_ACCESS_KEY"
    )
    try:
        try:
            session = boto3.Session(profile_name=profile or None)
        except ProfileNotFound:
            if not account or not profile:
                raise
            # An account that something was bought in, by another name or other keys by now: whose
            # they are is asked before anything else.
            session = boto3.Session()
        credentials = session.get_credentials()
    except (BotoCoreError, OSError, ValueError) as error:
        raise NotConfigured(
            f"aws: wanted credentials, found {clean(str(error), 120)}; {todo}", provider=PROVIDER
        ) from None
    if credentials is None:
        raise NotConfigured(f"aws: wanted credentials, found none; {todo}", provider=PROVIDER)
    # Key variables win over AWS_PROFILE, and a machine's role is of no profile: only what a profile
    # holds is found again by its name.
    reserved = (
        session.profile_name in session.available_profiles
        and getattr(credentials, "method", "") not in OF_NO_PROFILE
    )
    named = str(session.profile_name) if reserved else ""
    return Ec2(LIVE, lambda: Client(session, endpoint), regions=regions, profile=named)
