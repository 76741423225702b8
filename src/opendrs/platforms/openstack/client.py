"""Client of Nova and Placement by openstacksdk.

openstacksdk reads clouds.yaml, authenticates, finds the endpoints and sends the
requests. Deadlines, the size of responses, retries and errors are determined here.
Each request has a deadline, also against a server that sends its response slowly: it
runs in a thread that is abandoned at the deadline.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

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
from opendrs.platforms.openstack.connection import connect, negotiate, translated
from opendrs.platforms.openstack.settings import OpenStackSettings
from opendrs.transport.http_json import get_mapping, single_line
from opendrs.transport.threads import start_thread

if TYPE_CHECKING:
    import requests
    from openstack.connection import Connection
    from openstack.proxy import Proxy

PLACEMENT_MICROVERSION = "1.14"  # Rocky: root providers
MAX_BODY_SIZE = 64 << 20  # bytes; a page of Nova has at most 1,000 servers
MAX_PAGES = 1_000  # of a list
ATTEMPTS = 3
MAX_RETRY_DELAY = 2.0  # seconds
_CHUNK = 1 << 10  # bytes; an abandoned request ends after the next one
T = TypeVar("T")


class NotFoundError(PlatformError):
    """Object that the cloud does not have."""


class ConflictError(PlatformError):
    """Request that the cloud does not accept in the current state."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that is logged in; empty where the cloud does not say.

    Attributes:
        user: Name of the user.
        project: Name of the project.
        project_id: Its id.
        roles: Names of the roles in it.
    """

    user: str = ""
    project: str = ""
    project_id: str = ""
    roles: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the identity as text."""
        if not self.user:
            return "by token"
        roles = ", ".join(self.roles) or "none"
        return f"user {self.user}, project {self.project}, roles: {roles}"


class OpenStackClient:
    """Client of one cloud; it connects at the first request.

    Args:
        name: Name of the platform, for error messages.
        settings: The settings.
    """

    def __init__(self, name: str, settings: OpenStackSettings) -> None:
        self._name = name
        self._settings = settings
        self._lock = Lock()
        self._connection: tuple[Connection, str] | None = None

    def get(self, path: str, **parameters: object) -> Mapping[str, Any]:
        """Return the response of Nova to a GET request.

        Raises:
            PlatformError: Nova does not give it.
        """
        return self._read("compute", path, parameters)

    def get_placement(self, path: str) -> Mapping[str, Any]:
        """Return the response of Placement to a GET request.

        Raises:
            PlatformError: Placement does not give it.
        """
        return self._read("placement", path, {})

    def get_list(
        self, path: str, key: str, *, by_offset: bool = False, **parameters: object
    ) -> list[Any]:
        """Return all objects of a list, page by page.

        Args:
            path: Path of the list.
            key: Name of the list in the response.
            by_offset: Whether the list ends with an empty page, rather than with a
                page without links.
            **parameters: Parameters of the query.

        Raises:
            PlatformError: Nova does not give it.
        """
        found: list[Any] = []
        previous: list[Any] = []
        for _ in range(MAX_PAGES):
            body = self.get(path, **parameters)
            page = body.get(key)
            if not isinstance(page, list):
                raise UnexpectedResponseError(f"{self._name}: {path}: no {key}")
            found += page
            if not page or not (by_offset or f"{key}_links" in body):
                return found
            if page == previous:
                raise UnexpectedResponseError(f"{self._name}: {path}: same page twice")
            previous = page
            if by_offset:
                parameters["offset"] = len(found)
            else:
                last = get_mapping(page[-1])
                parameters["marker"] = last.get("uuid") or last.get("id")
        raise UnexpectedResponseError(
            f"{self._name}: {path}: more than {MAX_PAGES} pages"
        )

    def post(self, path: str, body: object) -> None:
        """Send a POST request to Nova, once.

        Raises:
            PlatformError: Nova does not accept it, or does not answer.
        """
        self._send("compute", "POST", path, json=body)

    def delete(self, path: str) -> None:
        """Send a DELETE request to Nova, once.

        Raises:
            PlatformError: Nova does not accept it, or does not answer.
        """
        self._send("compute", "DELETE", path)

    @property
    def connection(self) -> Connection:
        """Return the connection to the cloud.

        Raises:
            ConfigurationError: clouds.yaml does not have the cloud.
            PlatformError: The cloud does not let us in, or has no such service.
        """
        return self._in_time("login", self._connected)[0]

    @property
    def microversion(self) -> str:
        """Return the microversion of Nova that requests have.

        Raises:
            PlatformError: As for `connection`.
        """
        return self._in_time("login", self._connected)[1]

    def identity(self) -> Identity:
        """Return the user that is logged in.

        Raises:
            PlatformError: As for `connection`.
        """
        session = self.connection.session
        get_access = getattr(session.auth, "get_access", None)
        if get_access is None:
            return Identity()  # a token of its own, without Keystone
        access = self._in_time("login", partial(get_access, session))
        return Identity(
            access.username or "",
            access.project_name or "",
            access.project_id or "",
            tuple(access.role_names),
        )

    def endpoints(self) -> tuple[str, ...]:
        """Return the URLs that requests are sent to.

        Raises:
            PlatformError: As for `connection`.
        """
        connection = self.connection
        proxies: tuple[Proxy, ...] = (connection.compute, connection.placement)
        urls = [self._in_time("endpoints", proxy.get_endpoint) for proxy in proxies]
        urls.append(getattr(connection.session.auth, "auth_url", None))
        return tuple(str(url) for url in urls if url)

    @property
    def is_verified(self) -> bool:
        """Return whether certificates are verified.

        Raises:
            PlatformError: As for `connection`.
        """
        return self.connection.session.verify is not False

    def _connected(self) -> tuple[Connection, str]:
        """Return the connection and the microversion, from the first request on."""
        with self._lock:
            if self._connection is None:
                connection = connect(self._name, self._settings)
                self._connection = connection, negotiate(connection)
            return self._connection

    def _read(
        self, service: str, path: str, parameters: Mapping[str, object]
    ) -> Mapping[str, Any]:
        retrying = Retrying(
            retry=retry_if_exception_type(PlatformUnavailableError),
            wait=wait_random_exponential(max=MAX_RETRY_DELAY),
            stop=stop_after_attempt(ATTEMPTS),
            reraise=True,
        )
        body: bytes = retrying(self._send, service, "GET", path, params=parameters)
        try:
            return get_mapping(json.loads(body))
        except (ValueError, RecursionError):
            raise UnexpectedResponseError(
                f"{self._name}: {service} {path}: response is not JSON"
            ) from None

    def _send(
        self,
        service: str,
        method: str,
        path: str,
        **content: Any,  # noqa: ANN401 - params or json
    ) -> bytes:
        subject = f"{service} {path}"
        deadline = time.monotonic() + self._settings.timeout

        def send() -> bytes:
            connection, version = self._connected()
            connection.session.get_auth_headers()  # may have to log in again
            if time.monotonic() > deadline:  # never send what the caller gave up
                raise TimeoutError
            proxy: Proxy = getattr(connection, service)
            response = proxy.request(
                path,
                method,
                microversion=PLACEMENT_MICROVERSION
                if service == "placement"
                else version,
                timeout=self._settings.timeout,
                connect_retries=0,
                status_code_retries=0,
                # A redirect could disclose the token.
                redirect=False,
                skip_cache=True,
                stream=True,
                **content,
            )
            body = _read_body(response, deadline)
            if response.status_code >= 300:
                _raise_status(f"{self._name}: {subject}", response.status_code, body)
            return body

        return self._in_time(subject, send)

    def _in_time(self, subject: str, call: Callable[[], T]) -> T:
        """Return the result of *call* within the timeout.

        Raises:
            PlatformUnavailableError: It takes longer; its result is ignored.
            PlatformError: An error of the library, translated.
        """
        seconds = self._settings.timeout
        try:
            return start_thread(partial(translated, self._name, call)).result(seconds)
        except TimeoutError:
            raise PlatformUnavailableError(
                f"{self._name}: {subject}: timeout after {seconds:g} s"
            ) from None


def _read_body(response: requests.Response, deadline: float) -> bytes:
    body = bytearray()
    with response:
        for chunk in response.iter_content(_CHUNK):
            body += chunk
            if len(body) > MAX_BODY_SIZE:
                raise UnexpectedResponseError("response too long")
            if time.monotonic() > deadline:
                raise TimeoutError
    return bytes(body)


def _raise_status(subject: str, status: int, body: bytes) -> NoReturn:
    text = f"{subject}: status {status}{_reason(body)}"
    if status in (401, 403):
        raise PermissionDeniedError(text)
    if status == 404:
        raise NotFoundError(text)
    if status == 409:
        raise ConflictError(text)
    if status >= 500 or status == 429:
        raise PlatformUnavailableError(text)
    raise PlatformError(text)


def _reason(body: bytes) -> str:
    """Return the message in an error response of Nova or Placement."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    errors = get_mapping(document).get("errors")
    for fault in errors if isinstance(errors, list) else get_mapping(document).values():
        message = get_mapping(fault).get("message") or get_mapping(fault).get("detail")
        if message:
            return f": {single_line(' '.join(str(message).split()))}"
    return ""
