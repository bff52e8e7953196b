"""Google's own client (googleapiclient), pointed at one endpoint. Owns sending: one call, one
request on the wire, one classified error.

Imports Google's packages (about 0.4 s with the discovery document): only `adapter` imports this
module, when a call is about to be made. Must not know orders or machines.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import httplib2
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build_from_document
from googleapiclient.discovery_cache import get_static_doc
from googleapiclient.errors import HttpError

from providers.adapters.base import is_loopback
from providers.adapters.gcp import errors as compute
from providers.adapters.gcp.options import is_project
from providers.errors import GpusError, NotConfigured
from providers.model.place import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from providers.adapters.gcp.errors import Context
    from providers.errors import CloudError

for _name in ("googleapiclient", "google.auth", "google_auth_httplib2"):
    # Refusals are classified and told by us; without a handler Python would also print the client's
    # own lines on the user's screen.
    logging.getLogger(_name).addHandler(logging.NullHandler())

TIMEOUT_S = 60.0
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


class Api(NamedTuple):
    """One of Google's APIs: its name and version in the discovery, the provider that its errors are
    told of, and how they are read.
    """

    name: str
    version: str
    provider: str
    from_http: Callable[[int, bytes | str, Context, str], CloudError]
    from_exception: Callable[[BaseException, Context], CloudError]
    at: Callable[[str], str] | None = None
    """Where a request is sent instead of the endpoint of the discovery document, of its address;
    None: there.
    """


COMPUTE = Api("compute", "v1", compute.PROVIDER, compute.from_http, compute.from_exception)


def checked_project(project: str, provider: str) -> str:
    """The project, if it can be one's id or number. Google answers anything else with errors that
    speak of something else. Raises NotConfigured.
    """
    if not is_project(project):
        raise NotConfigured(
            f"{provider}: wanted a project id (6 to 30 lowercase letters, digits and -, starting"
            f" with a letter), found {project!r}; set `{provider}:project` (`gcloud projects list`"
            " names yours)",
            provider=provider,
            code="PROJECT_ID",
        )
    return project


def default_credentials(provider: str) -> tuple[Any, str]:
    """(application default credentials, the project that they name or nothing).

    Reads files and the environment, or asks a metadata server once. Raises NotConfigured where
    there are none.
    """
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    todo = (
        "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a"
        " service account's key file"
    )
    try:
        credentials, found = google.auth.default(scopes=list(SCOPES))
    except (GoogleAuthError, OSError, ValueError) as error:
        # Google's first sentence says what it found; the further ones say what to do, and so does
        # ours.
        said = compute.clean(str(error).partition(". ")[0].rstrip("."), 120)
        raise NotConfigured(
            f"{provider}: wanted application default credentials, found none ({said}); {todo}",
            provider=provider,
        ) from None
    return credentials, found or ""


@cache
def _document(name: str, version: str) -> dict[str, Any]:
    """The discovery document that comes with the client, parsed once (40 ms)."""
    document: dict[str, Any] = json.loads(get_static_doc(name, version))
    return document


class _Resources:
    """An API's resources, each made once: Google's client makes every method of one again whenever
    it is named (7 ms for `instances`).
    """

    def __init__(self, of: Any) -> None:
        self._of = of
        self._made: dict[str, _Resources] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        return (
            (lambda: self._resource(name, found))
            if getattr(found, "__is_resource__", False)
            else found
        )

    def _resource(self, name: str, make: Callable[[], Any]) -> _Resources:
        if name not in self._made:
            self._made[name] = _Resources(make())
        return self._made[name]


class Client:
    """One API at one endpoint (Google's own when None). Safe from several threads: each call has
    its own connection.
    """

    def __init__(
        self,
        project: str,
        credentials: Any,
        endpoint: str | None = None,
        timeout_s: float = TIMEOUT_S,
        *,
        api: Api = COMPUTE,
    ) -> None:
        self.project = project
        self.credentials = credentials
        self._timeout_s = timeout_s
        self._api = api
        self._lock = threading.Lock()
        self._built: Any = None
        self.endpoint = endpoint

    @property
    def service(self) -> Any:
        """The API's resources; built from the discovery document that comes with the client, no
        network.
        """
        with self._lock:
            if self._built is None:
                options = {"api_endpoint": self.endpoint} if self.endpoint else None
                unused = httplib2.Http()  # a connection is given to each call
                self._built = _Resources(
                    build_from_document(
                        _document(self._api.name, self._api.version),
                        http=unused,
                        client_options=options,
                    )
                )
            return self._built

    def call(self, make: Callable[[Any], Any], context: Context) -> dict[str, Any]:
        """The answer to one request, sent once (`make` picks the method). Raises CloudError,
        classified by `context`.
        """
        answer = self._send(make, context, absent=False)
        assert answer is not None
        return answer

    def get(self, make: Callable[[Any], Any], context: Context) -> dict[str, Any] | None:
        """As `call`, but None for HTTP 404: Google says that it does not exist."""
        return self._send(make, context, absent=True)

    def pages(
        self, make: Callable[[Any, str | None], Any], context: Context
    ) -> Iterator[dict[str, Any]]:
        """Every page of a list; `make(service, page_token)`. Raises as `call` does."""
        token: str | None = None
        while True:
            page = self.call(lambda service, token=token: make(service, token), context)  # type: ignore[misc]
            yield page
            token = page.get("nextPageToken")
            if not token:
                return

    def _send(
        self, make: Callable[[Any], Any], context: Context, *, absent: bool
    ) -> dict[str, Any] | None:
        try:
            request = make(self.service)
            if self._api.at is not None and self.endpoint is None:
                request.uri = self._api.at(request.uri)
            answer = request.execute(http=self._connection(), num_retries=0)
        except GpusError:
            raise
        except HttpError as error:
            status = int(error.resp.status)
            if absent and status == 404:
                return None
            raise self._api.from_http(
                status, error.content, context, str(error.resp.get("retry-after", ""))
            ) from None
        except Exception as error:
            # The cause is not chained: its text may hold what `clean` takes out.
            raise self._api.from_exception(error, context) from None
        if not isinstance(answer, dict):
            raise self._api.from_exception(ValueError("an answer that is no JSON object"), context)
        return answer

    def _connection(self) -> Any:
        # A rehearsal's server is this process: no proxy may come between.
        local = bool(self.endpoint and is_loopback(self.endpoint))
        proxy = {"proxy_info": None} if local else {}
        if not local:
            check_proxy(self._api)
        http = httplib2.Http(timeout=self._timeout_s, **proxy)
        http.redirect_codes = http.redirect_codes - {308}
        once = _Once(http)
        if isinstance(self.credentials, AnonymousCredentials):
            return once
        from google_auth_httplib2 import AuthorizedHttp

        return AuthorizedHttp(self.credentials, http=once)


def check_proxy(api: Api = COMPUTE) -> None:
    """Raises NotConfigured for a proxy of the environment that the client would pass over silently,
    or could not read. Calls: none.
    """
    try:
        found = httplib2.proxy_info_from_environment("https")
    except ValueError:
        text = (
            f"{api.provider}: wanted a proxy such as http://host:8080 in https_proxy, found one"
            " that cannot be read; correct it"
        )
        raise NotConfigured(
            text, provider=api.provider, code="PROXY", scopes=[Scope(api.provider)]
        ) from None
    if (
        found is not None
        and found.applies_to(f"{api.name}.googleapis.com")
        and httplib2.socks is None
    ):
        text = (
            f"{api.provider}: wanted PySocks, with which Google's client uses the proxy of"
            " https_proxy, found none; pip install PySocks"
        )
        raise NotConfigured(text, provider=api.provider, code="PROXY", scopes=[Scope(api.provider)])


class _Once:
    """Sends each request once: httplib2 sends again by itself when a connection closes without an
    answer (httplib2 0.32.1, `_conn_request`).
    """

    def __init__(self, http: Any) -> None:
        self._http = http

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: Any = None,
        headers: Any = None,
        redirections: int = 5,
        connection_type: Any = None,
        **rest: Any,
    ) -> Any:
        del connection_type
        kind = _OnceTls if uri.startswith("https:") else _OncePlain
        return self._http.request(
            uri,
            method,
            body=body,
            headers=headers,
            redirections=redirections,
            connection_type=kind,
            **rest,
        )

    def close(self) -> None:
        self._http.close()


class NotSent(OSError):
    """No connection could be made: the request never left."""


def _once(base: Any) -> Any:
    """A connection class (the client takes connections by class only) that does not come back once
    a request was sent and not answered.
    """

    class Connection(base):  # type: ignore[misc]
        unanswered = False

        def connect(self) -> None:
            if self.unanswered:
                raise ConnectionResetError("the connection closed before an answer came")
            try:
                super().connect()
            except (socket.gaierror, ssl.SSLCertVerificationError):
                raise  # the client and the table know them
            except OSError as error:
                raise NotSent(str(error)) from None

        def request(self, *args: Any, **rest: Any) -> None:
            if self.sock is None:
                self.connect()
            self.unanswered = True
            super().request(*args, **rest)

        def getresponse(self) -> Any:
            answer = super().getresponse()
            self.unanswered = False
            return answer

    return Connection


_OncePlain = _once(httplib2.HTTPConnectionWithTimeout)
_OnceTls = _once(httplib2.HTTPSConnectionWithTimeout)
