"""The exceptions of Google's clients, each with the class it means and what it blocks. Owns these
rows of the error table; known by name, so that nothing of Google's is imported.
"""

from __future__ import annotations

from functools import partial

from providers.adapters.error_table import Row, unanswered
from providers.adapters.gcp.error_codes import ALL, NOTHING, SETTLE, SIGN_IN
from providers.errors import BadCredentials, NotConfigured, Transient

_row = partial(
    Row,
    source="google-api-python-client 2.202.0, httplib2 0.32.1, google-auth 2.63.0",
    seen="2026-11-27",
)
_BEFORE, _LOST, _GARBLED = unanswered(_row, NOTHING, "Google", SETTLE)
_KEYS = _row(BadCredentials, ALL, SIGN_IN)
_NO_KEYS = _row(NotConfigured, ALL, "set up credentials: gcloud auth application-default login")
EXCEPTIONS: dict[str, Row] = {
    # Nothing was sent.
    "httplib2.error.ServerNotFoundError": _BEFORE,
    "httplib2.error.ProxiesUnavailableError": _BEFORE,
    "socket.gaierror": _BEFORE,
    "builtins.ConnectionRefusedError": _BEFORE,
    "providers.adapters.gcp.client.NotSent": _BEFORE,
    "ssl.SSLCertVerificationError": _row(
        Transient, NOTHING, "Google's certificate was not accepted: look at the proxy and the clock"
    ),
    "google.auth.exceptions.TransportError": _row(
        Transient, NOTHING, "a token could not be fetched: look at the network"
    ),
    "google.auth.exceptions.TimeoutError": _row(
        Transient, NOTHING, "a token could not be fetched: look at the network"
    ),
    "google.auth.exceptions.ResponseError": _row(
        Transient, NOTHING, "a token could not be fetched"
    ),
    # Keys.
    "google.auth.exceptions.DefaultCredentialsError": _NO_KEYS,
    "google.auth.exceptions.MutualTLSChannelError": _NO_KEYS,
    # `invalid_grant` is Google's word both for a sign-in that has ended and for a token signed by a
    # clock that is wrong.
    "google.auth.exceptions.RefreshError": _KEYS,
    "google.auth.exceptions.GoogleAuthError": _KEYS,
    # Sent, and no good answer.
    "httplib2.error.HttpLib2Error": _LOST,
    "http.client.HTTPException": _LOST,
    "builtins.OSError": _LOST,
    "googleapiclient.errors.Error": _GARBLED,
    "builtins.ValueError": _GARBLED,
    "builtins.EOFError": _GARBLED,
}
"""By the name of an exception's class or of its nearest base in this table. HttpError is read by
its status and body before.
"""
