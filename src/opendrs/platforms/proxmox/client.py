"""HTTPS client of the Proxmox VE API, with several hosts and a deadline for each call.

Only reads are retried. A write goes to another host only if no connection could be
opened to the first one, so that nothing is started twice.
"""

from __future__ import annotations

import re
import ssl
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import TypeVar
from urllib.parse import quote

import httpx2
from tenacity import RetryCallState, Retrying, stop_after_attempt, wait_random

from opendrs.errors import (
    OpenDRSError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.platforms.proxmox.errors import (
    ApiAnswer,
    HostUnreachableError,
    LoginRejectedError,
    NodeUnavailableError,
    answer_data,
)
from opendrs.platforms.proxmox.login import Login
from opendrs.platforms.proxmox.settings import ProxmoxSettings, split_host
from opendrs.transport.certificates import authority_context, pinned_context
from opendrs.transport.http_json import verification_error
from opendrs.transport.threads import start_thread

MAX_ANSWER = 64 << 20  # bytes; 20,000 guests give about 8 MB
_BASE = "/api2/json"
_OF_NODE = re.compile(r"/nodes/[^/]+/")
_MASK = "***"
# Shorter than that of the server: a write on a closed connection has no answer.
_KEEP_ALIVE = 2.0  # seconds
_RETRY_DELAY = 0.2  # seconds, most
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
T = TypeVar("T")

Parameters = Mapping[str, str | int]


def api_path(*parts: str | int) -> str:
    """Return the path of *parts*, each escaped."""
    return "".join(f"/{quote(str(part), safe=':@!')}" for part in parts)


class ApiHost:
    """Connections to the API of one node.

    The certificate is verified before the first request, and by each handshake.
    """

    def __init__(self, address: str, settings: ProxmoxSettings) -> None:
        self.address = address
        self._settings = settings
        self._name, self._port = split_host(address)
        self._lock = Lock()
        self._client: httpx2.Client | None = None
        self._former: list[httpx2.Client] = []

    def send(
        self,
        method: str,
        path: str,
        parameters: Parameters,
        headers: Mapping[str, str],
        timeout: float,
    ) -> ApiAnswer:
        """Return the complete answer to one request.

        Raises:
            HostUnreachableError: No connection could be opened; nothing was sent.
            CertificateChangedError: The host has another certificate than the pinned.
            PlatformUnavailableError: The connection was lost.
            UnexpectedResponseError: The answer is too large.
        """
        client = self._open()
        values = {name: str(value) for name, value in parameters.items()}
        try:
            with client.stream(
                method,
                _BASE + path,
                params=values if method in ("GET", "DELETE") and values else None,
                data=values if method in ("POST", "PUT") else None,
                headers={**headers, "Accept-Encoding": "identity"},
                timeout=timeout,
            ) as response:
                return ApiAnswer(
                    response.status_code, response.reason_phrase, _read_body(response)
                )
        except httpx2.HTTPError as error:
            message = f"{self.address} unreachable: {error or type(error).__name__}"
            if reason := verification_error(error):
                if self._settings.fingerprints:
                    self._compare_certificate()
                message = (
                    f"{self.address}: certificate not trusted: {reason}; set "
                    "fingerprints, or ca to a file with its issuer"
                )
            if isinstance(error, _NOT_SENT):
                raise HostUnreachableError(message) from None
            raise PlatformUnavailableError(message) from None

    def close(self) -> None:
        """Close the connections; the next request opens others."""
        with self._lock:
            clients, self._client = [*self._former, self._client], None
            self._former = []
        for client in clients:
            if client is not None:
                client.close()

    def _compare_certificate(self) -> None:
        """Compare the certificate with the pinned one before the next request.

        Raises:
            CertificateChangedError: It is another one.
        """
        with self._lock:
            if self._client is not None:  # other threads may still use it
                self._former.append(self._client)
            self._client = None
        self._open()

    def _open(self) -> httpx2.Client:
        with self._lock:
            if self._client is None:
                name = f"[{self._name}]" if ":" in self._name else self._name
                self._client = httpx2.Client(
                    base_url=f"https://{name}:{self._port}",
                    verify=self._context(),
                    limits=httpx2.Limits(keepalive_expiry=_KEEP_ALIVE),
                    # A redirect or a proxy could disclose the token.
                    follow_redirects=False,
                    trust_env=False,
                )
            return self._client

    def _context(self) -> ssl.SSLContext:
        settings = self._settings
        if not settings.fingerprints:
            return authority_context(self.address, settings.ca)
        try:
            return pinned_context(
                self._name, self._port, settings.fingerprints, settings.timeout
            )
        except PlatformUnavailableError as error:
            raise HostUnreachableError(str(error)) from None


class ProxmoxClient:
    """Client of the API of one cluster.

    Args:
        settings: The hosts, and how they are verified.
        login: The login.
    """

    def __init__(self, settings: ProxmoxSettings, login: Login) -> None:
        self._settings = settings
        self._login = login
        self._hosts = tuple(ApiHost(address, settings) for address in settings.hosts)
        self._current = 0
        self.request_count = 0
        self._finalizer = weakref.finalize(self, _close_all, self._hosts)

    def get(
        self, path: str, timeout: float | None = None, **parameters: object
    ) -> object:
        """Return the data of `GET` *path*; other hosts are tried if one fails.

        Args:
            path: Path below `/api2/json`.
            timeout: Seconds in which one host must answer; None for the setting.
            parameters: Parameters; those that are None are left out.

        Raises:
            PlatformError: The request failed.
        """
        values = _values(parameters)
        call = partial(self._exchange, "GET", path, values, timeout)
        return self._retry(call, partial(_may_retry_read, path))

    def post(self, path: str, **parameters: object) -> object:
        """Return the data of `POST` *path*.

        Raises:
            PlatformUnavailableError: There is no answer; the request may have had an
                effect, except for `HostUnreachableError`.
            PlatformError: The request failed.
        """
        return self._write("POST", path, parameters)

    def delete(self, path: str, **parameters: object) -> object:
        """Return the data of `DELETE` *path*; errors are those of `post`."""
        return self._write("DELETE", path, parameters)

    def use_next_host(self) -> None:
        """Send the next requests to another host, if there is one."""
        self._current = (self._current + 1) % len(self._hosts)

    @property
    def host_count(self) -> int:
        """Return the number of hosts."""
        return len(self._hosts)

    def close(self) -> None:
        """Close all connections."""
        _close_all(self._hosts)

    def _write(
        self, method: str, path: str, parameters: Mapping[str, object]
    ) -> object:
        call = partial(self._exchange, method, path, _values(parameters), None)
        return self._retry(call, lambda error: isinstance(error, HostUnreachableError))

    def _retry(
        self,
        call: Callable[[ApiHost], object],
        may_retry: Callable[[BaseException], bool],
    ) -> object:
        """Return the result of *call* with one host after the other.

        Requests of several threads fail at one time: each tries every host itself, and
        only the first failure at the current host makes the next one current.
        """
        first, count = self._current, len(self._hosts)
        attempts = max(2, count)
        indexes = iter([(first + number) % count for number in range(attempts)])
        index = first

        def attempt() -> object:
            nonlocal index
            index = next(indexes)
            return call(self._hosts[index])

        def check(state: RetryCallState) -> bool:
            error = state.outcome.exception() if state.outcome else None
            if error is None or not may_retry(error):
                return False
            if self._current == index:
                self._current = (index + 1) % count
            return True

        retrying = Retrying(
            retry=check,
            stop=stop_after_attempt(attempts),
            wait=wait_random(0, _RETRY_DELAY),
            reraise=True,
        )
        return retrying(attempt)

    def send(self, method: str, path: str, values: Parameters) -> object:
        """Return the data of one request to the current host, without retries.

        Raises:
            PlatformError: The request failed.
        """
        return self._exchange(method, path, values, None, self._hosts[self._current])

    def _exchange(
        self,
        method: str,
        path: str,
        values: Parameters,
        timeout: float | None,
        host: ApiHost,
    ) -> object:
        request = f"{host.address}: {method} {path}"
        seconds = timeout or self._settings.timeout
        send = partial(self._send, host, method, path, values, seconds)
        try:
            return _with_deadline(start_thread(send), request, path, seconds)
        except LoginRejectedError as error:
            self._login.expire()
            raise self._masked(error) from None
        except OpenDRSError as error:
            raise self._masked(error) from None

    def _send(
        self, host: ApiHost, method: str, path: str, values: Parameters, seconds: float
    ) -> object:
        def log_in(login_path: str, form: Mapping[str, str]) -> object:
            answer = host.send("POST", login_path, form, {}, seconds)
            return answer_data(f"{host.address}: POST {login_path}", answer)

        headers = self._login.headers(method, log_in)
        self.request_count += 1
        answer = host.send(method, path, values, headers, seconds)
        return answer_data(f"{host.address}: {method} {path}", answer)

    def _masked(self, error: OpenDRSError) -> OpenDRSError:
        """Return *error* without secrets in its message."""
        text = str(error)
        for secret in self._login.secrets:
            text = text.replace(secret, _MASK)
        if text != str(error):
            error.args = (text, *error.args[1:])
        return error


def _with_deadline(future: Future[T], request: str, path: str, seconds: float) -> T:
    try:
        return future.result(seconds)
    except TimeoutError:
        kind = (
            NodeUnavailableError if _OF_NODE.match(path) else PlatformUnavailableError
        )
        raise kind(f"{request}: timeout after {seconds:g} s") from None


def _may_retry_read(path: str, error: BaseException) -> bool:
    if isinstance(error, NodeUnavailableError) and _OF_NODE.match(path):
        return False  # the node is at fault, not the host
    return isinstance(error, PlatformUnavailableError)


def _values(parameters: Mapping[str, object]) -> dict[str, str | int]:
    """Return *parameters* as the API expects them: 1 and 0 for booleans, dashes."""
    return {
        name.replace("_", "-"): int(value) if isinstance(value, bool) else value
        for name, value in parameters.items()
        if isinstance(value, str | int)
    }


def _read_body(response: httpx2.Response) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MAX_ANSWER:
            raise UnexpectedResponseError(
                f"{response.request.url.host}: answer too large: more than "
                f"{MAX_ANSWER} bytes"
            )
    return bytes(body)


def _close_all(hosts: tuple[ApiHost, ...]) -> None:
    for host in hosts:
        host.close()
