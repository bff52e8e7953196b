"""The exceptions of boto3 and botocore, each with the class it means and what it blocks. Owns these
rows of the error table; known by name, so that nothing of Amazon's is imported.
"""

from __future__ import annotations

from functools import partial

from providers.adapters.aws.error_codes import ALL, NOTHING, REGION, SETTLE, SIGN_IN, SPEC, TYPE
from providers.adapters.error_table import Row, unanswered
from providers.errors import BadCredentials, NotConfigured, Transient, Unsupported

_row = partial(Row, source="boto3 1.44.8, botocore 1.44.8", seen="2026-11-27")
_NO_KEYS = _row(
    NotConfigured,
    ALL,
    "set up credentials: aws configure sso, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
)
_KEYS = _row(BadCredentials, ALL, SIGN_IN)
_BEFORE, _LOST, _GARBLED = unanswered(_row, NOTHING, "AWS", SETTLE)
EXCEPTIONS: dict[str, Row] = {
    # Nothing was sent.
    "botocore.exceptions.EndpointConnectionError": _BEFORE,
    "botocore.exceptions.ConnectTimeoutError": _BEFORE,
    "botocore.exceptions.ProxyConnectionError": _BEFORE._replace(
        todo="look at the proxy (HTTPS_PROXY): AWS cannot be reached through it"
    ),
    "botocore.exceptions.SSLError": _row(
        Transient, NOTHING, "AWS's certificate was not accepted: look at the proxy and the clock"
    ),
    "botocore.exceptions.ParamValidationError": _row(Unsupported, TYPE, SPEC, block_s=0.0),
    "botocore.exceptions.InvalidRegionError": _row(Unsupported, REGION, SPEC, block_s=0.0),
    "botocore.exceptions.UnknownServiceError": _row(NotConfigured, ALL, "install a newer boto3"),
    "botocore.exceptions.DataNotFoundError": _row(NotConfigured, ALL, "install boto3 again"),
    # Keys.
    "botocore.exceptions.NoCredentialsError": _NO_KEYS,
    "botocore.exceptions.PartialCredentialsError": _NO_KEYS,
    "botocore.exceptions.ProfileNotFound": _row(
        NotConfigured, ALL, "look at AWS_PROFILE and ~/.aws/config"
    ),
    "botocore.exceptions.ConfigNotFound": _NO_KEYS,
    "botocore.exceptions.ConfigParseError": _row(NotConfigured, ALL, "look at ~/.aws/config"),
    "botocore.exceptions.InvalidConfigError": _row(NotConfigured, ALL, "look at ~/.aws/config"),
    "botocore.exceptions.MissingDependencyException": _row(
        NotConfigured, ALL, "pip install 'botocore[crt]'"
    ),
    "botocore.exceptions.CredentialRetrievalError": _KEYS,
    "botocore.exceptions.TokenRetrievalError": _KEYS,
    "botocore.exceptions.SSOError": _KEYS,
    "botocore.exceptions.RefreshWithMFAUnsupportedError": _KEYS,
    # Sent, and no good answer.
    "botocore.exceptions.HTTPClientError": _LOST,
    "botocore.exceptions.ConnectionError": _LOST,
    "builtins.OSError": _LOST,
    "botocore.parsers.ResponseParserError": _GARBLED,
    "builtins.ValueError": _GARBLED,
    "botocore.exceptions.BotoCoreError": _LOST,
}
"""By the name of an exception's class or of its nearest base in this table. ClientError is read by
its code and status before.
"""
