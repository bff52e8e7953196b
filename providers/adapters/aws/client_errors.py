"""The exceptions of boto3 and botocore, each with the class it means and what it blocks. Owns these
rows of the error table; known by name, so that nothing of Amazon's is imported.
"""

from __future__ import annotations

from providers.adapters.aws.error_codes import ALL, NOTHING, REGION, SETTLE, SIGN_IN, SPEC, TYPE
from providers.adapters.base import Row
from providers.errors import (
    BadCredentials,
    NotConfigured,
    OutcomeUnknown,
    Transient,
    Unsupported,
)

_CLIENT = "boto3 1.44.8, botocore 1.44.8"
_NO_KEYS = Row(
    NotConfigured,
    ALL,
    "set up credentials: aws configure sso, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    _CLIENT,
    "2026-11-27",
)
_KEYS = Row(BadCredentials, ALL, SIGN_IN, _CLIENT, "2026-11-27")
_BEFORE = Row(
    Transient,
    NOTHING,
    "look at the network: AWS cannot be reached from here",
    _CLIENT,
    "2026-11-27",
)
_LOST = Row(
    OutcomeUnknown,
    NOTHING,
    "the answer was lost; " + SETTLE,
    _CLIENT,
    "2026-11-27",
    reading=Transient,
)
_GARBLED = Row(
    OutcomeUnknown,
    NOTHING,
    "the answer could not be read; " + SETTLE,
    _CLIENT,
    "2026-11-27",
    reading=Transient,
)
EXCEPTIONS: dict[str, Row] = {
    # Nothing was sent.
    "botocore.exceptions.EndpointConnectionError": _BEFORE,
    "botocore.exceptions.ConnectTimeoutError": _BEFORE,
    "botocore.exceptions.ProxyConnectionError": _BEFORE._replace(
        todo="look at the proxy (HTTPS_PROXY): AWS cannot be reached through it"
    ),
    "botocore.exceptions.SSLError": Row(
        Transient,
        NOTHING,
        "AWS's certificate was not accepted: look at the proxy and the clock",
        _CLIENT,
        "2026-11-27",
    ),
    "botocore.exceptions.ParamValidationError": Row(
        Unsupported, TYPE, SPEC, _CLIENT, "2026-11-27", block_s=0.0
    ),
    "botocore.exceptions.InvalidRegionError": Row(
        Unsupported, REGION, SPEC, _CLIENT, "2026-11-27", block_s=0.0
    ),
    "botocore.exceptions.UnknownServiceError": Row(
        NotConfigured, ALL, "install a newer boto3", _CLIENT, "2026-11-27"
    ),
    "botocore.exceptions.DataNotFoundError": Row(
        NotConfigured, ALL, "install boto3 again", _CLIENT, "2026-11-27"
    ),
    # Keys.
    "botocore.exceptions.NoCredentialsError": _NO_KEYS,
    "botocore.exceptions.PartialCredentialsError": _NO_KEYS,
    "botocore.exceptions.ProfileNotFound": Row(
        NotConfigured, ALL, "look at AWS_PROFILE and ~/.aws/config", _CLIENT, "2026-11-27"
    ),
    "botocore.exceptions.ConfigNotFound": _NO_KEYS,
    "botocore.exceptions.ConfigParseError": Row(
        NotConfigured, ALL, "look at ~/.aws/config", _CLIENT, "2026-11-27"
    ),
    "botocore.exceptions.InvalidConfigError": Row(
        NotConfigured, ALL, "look at ~/.aws/config", _CLIENT, "2026-11-27"
    ),
    "botocore.exceptions.MissingDependencyException": Row(
        NotConfigured, ALL, "pip install 'botocore[crt]'", _CLIENT, "2026-11-27"
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
