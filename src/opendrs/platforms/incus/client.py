"""Client of the Incus API: unix socket, or HTTPS with a pinned server certificate.

Each request has a deadline, also against a server that sends its response slowly: it
runs in a thread that is abandoned at the deadline. Reads are repeated, on another
member if there is one. Anything else is sent once; another member is tried only if no
connection was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import BoundedSemaphore, Lock
from typing import NoReturn, TypeVar
from weakref import finalize

import httpx2
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.platforms.incus.responses import Envelope, parse
from opendrs.platforms.incus.settings import IncusSettings
from opendrs.platforms.incus.tls import client_context, trust_fingerprint
from opendrs.transport.http_json import (
    parse_json_body,
    send_request,
    single_line,
    verification_error,
)
from opendrs.transport.threads import start_thread

T = TypeVar("T")
Parameters = Mapping[str, str | int]
MAX_BODY_SIZE = 128 << 20  # bytes; some 30,000 instances
MAX_WAIT = 30  # seconds of one request that waits for an operation
_MAX_RETRY_DELAY = 1.0  # seconds
_MAX_CONNECT_TIME = 5.0  # seconds
_SOCKET_URL = "http://incus"  # the host name is arbitrary
_NO_PARAMETERS: Parameters = {}
# Errors with status 500 that say which kind they are, as answered by 6.0.4 and 7.0.2.
_DENIED = ("does not have permission", "certificate is restricted", "not authorized")
_UNAVAILABLE = (
    "server isn't ready",
    "missing event connection",
    "is offline",
    "member is unavailable",  # Incus 7, for operations on an offline member
)


class IncusNotFoundError(PlatformError):
    """Object that does not exist, or not in this project."""


class IncusClient:
    """Client of one cluster.

    Args:
        settings: The settings.

    Raises:
        ConfigurationError: A certificate or key cannot be read.
    """

    def __init__(self, settings: IncusSettings) -> None:
        self._settings = settings
        self._slots = BoundedSemaphore(settings.max_requests)
        self._lock = Lock()
        self._preferred = 0
        self._endpoints = settings.urls or (str(settings.socket),)
        self._context = client_context(settings) if settings.urls else None
        self._is_pinned = settings.fingerprint is None
        self._clients: dict[str, httpx2.Client] = {}
        finalize(self, _close, self._clients)
        # An abandoned request ends some time after its deadline.
        self._timeout = httpx2.Timeout(
            settings.timeout + MAX_WAIT,
            connect=min(settings.timeout / 2, _MAX_CONNECT_TIME),
        )

    def read(
        self,
        path: str,
        parameters: Parameters = _NO_PARAMETERS,
        *,
        timeout: float | None = None,
        attempts: int | None = None,
    ) -> object:
        """Return the field `metadata` of the response to a GET request.

        Args:
            path: The path, such as /1.0/instances.
            parameters: The query; parameters with an empty value are left out.
            timeout: Seconds in which it must respond; the setting if None.
            attempts: Most requests that are sent; two, and at least one to each
                member, if None.

        Raises:
            PlatformUnavailableError: No member responds in time.
            PermissionDeniedError: The certificate does not have the permission.
            IncusNotFoundError: The object does not exist.
            PlatformError: Another error of Incus.
            UnexpectedResponseError: The response is not that of Incus.
        """
        return self._repeat(
            lambda: _metadata(self._send("GET", path, parameters, timeout=timeout)),
            attempts,
        )

    def read_text(
        self,
        path: str,
        parameters: Parameters = _NO_PARAMETERS,
        *,
        attempts: int | None = None,
    ) -> str:
        """Return the body of the response to a GET request.

        Raises:
            PlatformError: As for `read`.
        """

        def read_once() -> str:
            response = self._send("GET", path, parameters)
            if response.status_code != 200:
                _metadata(response)
                raise UnexpectedResponseError(
                    f"{path}: status {response.status_code}, which is not of Incus"
                )
            return response.text

        return self._repeat(read_once, attempts)

    def write(
        self, method: str, path: str, parameters: Parameters, body: object
    ) -> object:
        """Send a request once and return the field `metadata` of the response.

        Raises:
            PlatformError: As for `read`. If the request timed out, it may have been
                executed.
        """
        return _metadata(self._send(method, path, parameters, body=body))

    def wait(self, operation: str, seconds: int) -> object:
        """Return the operation with this id when it has ended, or after *seconds*.

        Raises:
            PlatformError: As for `read`.
        """
        response = self._send(
            "GET",
            f"/1.0/operations/{operation}/wait",
            {"timeout": seconds},
            timeout=self._settings.timeout + seconds,
            long_poll=True,
        )
        return _metadata(response)

    def _repeat(self, read: Callable[[], T], attempts: int | None) -> T:
        if attempts is None:
            attempts = max(2, len(self._endpoints))
        retrying = Retrying(
            retry=retry_if_exception_type(PlatformUnavailableError),
            wait=wait_random_exponential(max=_MAX_RETRY_DELAY),
            stop=stop_after_attempt(attempts),
            reraise=True,
        )
        return retrying(read)

    def _send(  # noqa: PLR0913 - what a request has
        self,
        method: str,
        path: str,
        parameters: Parameters,
        *,
        body: object = None,
        timeout: float | None = None,
        long_poll: bool = False,
    ) -> httpx2.Response:
        """Return the response of the first member to which a connection is made."""
        query = {key: value for key, value in parameters.items() if value != ""}
        url = str(httpx2.URL(path, params=query) if query else path)
        seconds = timeout or self._settings.timeout
        errors: list[str] = []
        for _ in self._endpoints:
            index = self._preferred
            endpoint = self._endpoints[index]
            try:
                return self._exchange(
                    endpoint, method, url, body, seconds, long_poll=long_poll
                )
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                _require_pinned(endpoint, error)
                problem = single_line(str(error)) or type(error).__name__
                errors.append(f"{endpoint}: {problem}")
                self._avoid(index)
            except PlatformUnavailableError as error:  # before the request was sent
                errors.append(str(error))
                self._avoid(index)
            except (TimeoutError, httpx2.HTTPError, UnexpectedResponseError) as error:
                if not isinstance(error, UnexpectedResponseError):
                    self._avoid(index)
                raise _response_error(endpoint, path, error, seconds) from None
        raise PlatformUnavailableError("no member responds", *errors)

    def _exchange(  # noqa: PLR0913 - what a request has
        self,
        endpoint: str,
        method: str,
        url: str,
        body: object,
        seconds: float,
        *,
        long_poll: bool,
    ) -> httpx2.Response:
        def exchange() -> httpx2.Response:
            client = self._client(endpoint)
            return send_request(
                client,
                method,
                url,
                timeout=seconds,
                max_size=MAX_BODY_SIZE,
                json=body,
            )

        def exchange_in_slot() -> httpx2.Response:
            if not self._slots.acquire(timeout=seconds):
                raise TimeoutError
            try:
                return exchange()
            finally:
                self._slots.release()

        future = start_thread(exchange if long_poll else exchange_in_slot)
        try:
            return future.result(seconds)
        except httpx2.ConnectTimeout:
            raise
        except httpx2.TimeoutException:
            raise TimeoutError from None

    def _client(self, endpoint: str) -> httpx2.Client:
        with self._lock:
            if endpoint not in self._clients:
                self._clients[endpoint] = self._connect(endpoint)
            return self._clients[endpoint]

    def _connect(self, endpoint: str) -> httpx2.Client:
        if self._context is None:
            transport = httpx2.HTTPTransport(uds=endpoint)
            return httpx2.Client(
                base_url=_SOCKET_URL,
                transport=transport,
                timeout=self._timeout,
                trust_env=False,
            )
        if not self._is_pinned:
            assert self._settings.fingerprint is not None  # noqa: S101 - see __init__
            trust_fingerprint(
                self._context,
                endpoint,
                self._settings.fingerprint,
                self._settings.timeout,
            )
            self._is_pinned = True
        return httpx2.Client(
            base_url=endpoint,
            verify=self._context,
            timeout=self._timeout,
            follow_redirects=False,
            trust_env=False,
        )

    def _avoid(self, index: int) -> None:
        """Use the next member from now on, unless another thread chose one."""
        if self._preferred == index:
            self._preferred = (index + 1) % len(self._endpoints)


def _close(clients: Mapping[str, httpx2.Client]) -> None:
    for client in clients.values():
        client.close()


def _response_error(
    endpoint: str, path: str, error: Exception, seconds: float
) -> PlatformError:
    if isinstance(error, UnexpectedResponseError):
        return UnexpectedResponseError(f"{endpoint}: {path}: {error}")
    if isinstance(error, TimeoutError):
        return PlatformUnavailableError(
            f"{endpoint}: {path}: timeout after {seconds:g} s"
        )
    return PlatformUnavailableError(f"{endpoint}: {path}: {single_line(str(error))}")


def _metadata(response: httpx2.Response) -> object:
    """Return the field `metadata`, or raise the error that the response contains."""
    path = response.request.url.path
    envelope = parse(Envelope, parse_json_body(response), path)
    if envelope.type == "error" or response.status_code >= 400:
        _raise_error(path, envelope.error_code or response.status_code, envelope.error)
    return envelope.metadata


def _raise_error(path: str, code: int, message: str) -> NoReturn:
    detail = f"{path}: {single_line(message) or 'no message'} (status {code})"
    words = message.lower()
    if code in (401, 403) or any(each in words for each in _DENIED):
        raise PermissionDeniedError(detail)
    if code == 404:
        raise IncusNotFoundError(detail)
    if code in (502, 503, 504) or any(each in words for each in _UNAVAILABLE):
        raise PlatformUnavailableError(detail)
    raise PlatformError(detail)


def _require_pinned(endpoint: str, error: Exception) -> None:
    """Raise an error if the certificate of *endpoint* was not the pinned one."""
    if reason := verification_error(error):
        raise PermissionDeniedError(
            f"{endpoint}: another certificate than the pinned one: {reason}; if it was "
            "renewed, compare it with incus info on a member and set "
            "server_certificate"
        ) from None
