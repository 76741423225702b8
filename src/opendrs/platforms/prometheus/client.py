"""Client of the HTTP API of Prometheus.

Source:
    Prometheus 2 and 3, HTTP API: /api/v1/query and /api/v1/status/buildinfo.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx2
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from opendrs.config.secret_sources import given_sources
from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.platforms.prometheus.settings import PrometheusSettings
from opendrs.transport.http_json import (
    exchange,
    get_mapping,
    parse_json_body,
    single_line,
)
from opendrs.transport.secrets import (
    create_ssl_context,
    is_one_word,
    read_located_secret,
)

MAX_BODY_SIZE = 64 << 20  # bytes; some 400,000 series
ATTEMPTS = 3
MAX_RETRY_DELAY = 2.0  # seconds


class PrometheusClient:
    """Client of one server; used in a `with` statement.

    Args:
        subject: Part of the configuration, for error messages.
        settings: The settings.

    Raises:
        ConfigurationError: The token or the certificates cannot be read.
    """

    def __init__(self, subject: str, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._client = httpx2.Client(
            base_url=settings.url,
            auth=_authentication(subject, settings),
            verify=create_ssl_context(f"{subject}: ", settings.ca),
            timeout=settings.timeout,
            # A redirect or a proxy could disclose the token.
            follow_redirects=False,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.__exit__(kind, error, trace)

    def query(self, promql: str) -> object:
        """Return the field `data` of the response to an instant query.

        Raises:
            PlatformUnavailableError: The server is unreachable or overloaded.
            PermissionDeniedError: The server does not accept the token.
            PlatformError: The server rejects the query.
            UnexpectedResponseError: The response is not that of Prometheus.
        """
        return self._read("POST", "/api/v1/query", {"query": promql})

    def version(self) -> str:
        """Return the version of the server.

        Raises:
            PlatformError: As for `query`.
        """
        data = get_mapping(self._read("GET", "/api/v1/status/buildinfo", None))
        return single_line(str(data.get("version", "unknown")))

    def _read(self, method: str, path: str, form: Mapping[str, str] | None) -> object:
        retrying = Retrying(
            retry=retry_if_exception_type(PlatformUnavailableError),
            wait=wait_random_exponential(max=MAX_RETRY_DELAY),
            stop=stop_after_attempt(ATTEMPTS),
            reraise=True,
        )
        data: object = retrying(self._read_once, method, path, form)
        return data

    def _read_once(
        self, method: str, path: str, form: Mapping[str, str] | None
    ) -> object:
        response = exchange(
            self._client,
            self._settings.url,
            method,
            path,
            timeout=self._settings.timeout,
            max_size=MAX_BODY_SIZE,
            data=form,
        )
        return self._data(response)

    def _data(self, response: httpx2.Response) -> object:
        server, status = self._settings.url, response.status_code
        if status in (401, 403):
            raise PermissionDeniedError(f"{server}: access denied (status {status})")
        try:
            body = get_mapping(parse_json_body(response))
        except UnexpectedResponseError:
            body = {}
        reason = f": {single_line(error)}" if (error := body.get("error")) else ""
        if status == 400 and reason:
            raise PlatformError(f"{server}: query rejected{reason}")
        if status >= 500 or status == 422:
            # 422 is also the status of a query that exceeds the limits of the server.
            raise PlatformUnavailableError(
                f"{server}: query failed (status {status}{reason})"
            )
        if body.get("status") != "success" or "data" not in body:
            raise UnexpectedResponseError(
                f"{server}: not a response of Prometheus (status {status})"
            )
        return body["data"]


def _authentication(subject: str, settings: PrometheusSettings) -> httpx2.Auth | None:
    if not given_sources(settings, "token"):
        return None
    token = read_located_secret(f"{subject}: ", "token", settings)
    if settings.user is not None:
        return httpx2.BasicAuth(settings.user, token)
    token = token.strip()
    if not token or not is_one_word(token):
        raise ConfigurationError(f"{subject}: token: expected one token on one line")
    return httpx2.FunctionAuth(lambda request: _with_bearer(request, token))


def _with_bearer(request: httpx2.Request, token: str) -> httpx2.Request:
    request.headers["Authorization"] = f"Bearer {token}"
    return request
