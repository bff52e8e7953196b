"""boto3, pointed at one endpoint or at Amazon's own. Owns sending: one call, one request on the
wire, one classified error.

Imports boto3 (about 0.3 s with EC2's model): only `adapter` imports this module, when a call is
about to be made. Must not know orders or machines.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.loaders import create_loader

from providers.adapters.aws.errors import Context, from_exception, from_response
from providers.adapters.base import is_loopback
from providers.errors import GpusError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECT_S, READ_S = 10.0, 60.0
HOME_REGION = "us-east-1"
"""Where questions go that concern no region; every account has it."""


@cache
def _models() -> Any:
    """The process's one reader of botocore's models: EC2's take 0.3 s to parse."""
    return create_loader()


def sealed_session() -> Any:
    """A session for rehearsals, with keys that open nothing: neither the environment's credentials
    nor AWS's configuration files are read.
    """
    nowhere: dict[str, Any] = {
        "profile": (None, [], None, None),
        "config_file": (None, None, os.devnull, None),
        "credentials_file": (None, None, os.devnull, None),
    }
    core = botocore.session.Session(session_vars=nowhere)
    # The stand-in asks for no key, but takes service and region from the signature, and boto signs
    # with something.
    word = "rehearsal"
    session = boto3.Session(
        botocore_session=core,
        aws_access_key_id=word,
        aws_secret_access_key=word,
        region_name=HOME_REGION,
    )
    core.register_component("data_loader", _models())
    return session


class Client:
    """EC2 and the few services beside it. Safe from several threads: clients are made under a lock
    and used without one.

    No call is sent twice: an acquiring one must not be, and reading ones are repeated by the
    engine, which knows for how long.
    """

    def __init__(self, session: Any, endpoint: str | None = None, read_s: float = READ_S) -> None:
        self.session = session
        self._endpoint = endpoint
        local = bool(endpoint and is_loopback(endpoint))
        self._config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=CONNECT_S,
            read_timeout=read_s,
            tcp_keepalive=True,
            # A rehearsal's server is this process: no proxy may come between.
            **({"proxies": {}} if local else {}),
        )
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str], Any] = {}

    def service(self, name: str, region: str) -> Any:
        """Boto's client of a service in a region, made once. No network."""
        with self._lock:
            found = self._made.get((name, region))
            if found is None:
                found = self.session.client(
                    name, region_name=region, endpoint_url=self._endpoint, config=self._config
                )
                self._made[name, region] = found
            return found

    def call(
        self, operation: str, context: Context, *, service: str = "ec2", **parameters: Any
    ) -> dict[str, Any]:
        """The answer to one request, sent once, in the context's region. `operation` as boto names
        it. Raises CloudError.
        """
        try:
            client = self.service(service, context.region or HOME_REGION)
            answer = getattr(client, operation)(**parameters)
        except GpusError:
            raise
        except ClientError as error:
            raise from_response(error.response, context) from None
        except Exception as error:
            # The cause is not chained: its text may hold what `clean` takes out.
            raise from_exception(error, context) from None
        if not isinstance(answer, dict):
            raise from_exception(ValueError("an answer that is no mapping"), context)
        return answer

    def pages(
        self, operation: str, context: Context, *, service: str = "ec2", **parameters: Any
    ) -> Iterator[dict[str, Any]]:
        """Every page of a list. Raises as `call` does."""
        token: dict[str, str] = {}
        while True:
            page = self.call(operation, context, service=service, **parameters, **token)
            yield page
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    def takes(self, operation: str, *path: str) -> bool:
        """Whether this boto's model of EC2 has a parameter: `takes("RunInstances", "Placement",
        "AvailabilityZoneId")`. No network.
        """
        shape = (
            self.service("ec2", HOME_REGION)
            .meta.service_model.operation_model(operation)
            .input_shape
        )
        for name in path:
            while shape.type_name == "list":
                shape = shape.member
            members: Mapping[str, Any] = shape.members
            if name not in members:
                return False
            shape = members[name]
        return True
