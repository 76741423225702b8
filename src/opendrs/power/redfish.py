"""Power driver for management controllers with Redfish.

Source:
    DMTF DSP0266 1.15 (Redfish specification), and the schemas ComputerSystem and
    Resource: PowerState, and the action ComputerSystem.Reset.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn
from urllib.parse import quote

import httpx2

from opendrs.config import run_checks
from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
    UnsupportedError,
)
from opendrs.model import NodeId
from opendrs.power.driver import PowerState
from opendrs.power.settings import RedfishSettings
from opendrs.transport.http_json import (
    exchange,
    get_mapping,
    parse_json_body,
    single_line,
)
from opendrs.transport.secrets import create_ssl_context, read_located_secret

MAX_BODY_SIZE = 1 << 20  # bytes of a response
SYSTEMS = "/redfish/v1/Systems"
_STATES = {"On": PowerState.ON, "Off": PowerState.OFF}
_RESET = "#ComputerSystem.Reset"
_ALLOWED = "ResetType@Redfish.AllowableValues"
_ON_METHODS = ("On", "ForceOn", "PushPowerButton")


class RedfishDriver:
    """Power driver of one node that uses its management controller."""

    off_confirm_time: float | None = None
    detached = False

    def __init__(self, node: NodeId, settings: RedfishSettings) -> None:
        """Read the password and the certificates, without connecting.

        Raises:
            ConfigurationError: A file cannot be read, or the URL is invalid.
        """
        try:
            httpx2.URL(settings.url)
        except httpx2.InvalidURL as error:
            raise ConfigurationError(f"power of {node}: url: {error}") from None
        self._node = node
        self._settings = settings
        self.transition_timeout = settings.transition_timeout
        self._login = httpx2.BasicAuth(settings.user, _read_password(node, settings))
        self._ssl_context = _create_ssl_context(node, settings)

    def on(self) -> None:
        """Request that the system is powered on.

        Raises:
            PlatformError: The controller is unreachable, or rejects the request.
        """
        self._reset(*_ON_METHODS)

    def off(self) -> None:
        """Request that the system is powered off with the configured method.

        Raises:
            PlatformError: The controller is unreachable, or rejects the request.
        """
        self._reset(self._settings.off_method)

    def state(self) -> PowerState:
        """Return the power state of the system; UNKNOWN during a transition.

        Raises:
            PlatformError: The controller is unreachable, or its response is invalid.
        """
        with self._client() as client:
            value = self._system(client).get("PowerState")
        return _STATES.get(str(value), PowerState.UNKNOWN)

    def _client(self) -> httpx2.Client:
        return httpx2.Client(
            base_url=self._settings.url,
            auth=self._login,
            verify=self._ssl_context,
            timeout=self._settings.timeout,
            # A redirect or a proxy could disclose the password.
            follow_redirects=False,
            trust_env=False,
        )

    def _reset(self, *methods: str) -> None:
        """Request a reset with the first of *methods* that the system supports."""
        with self._client() as client:
            action = get_mapping(self._system(client), "Actions", _RESET)
            offered = action.get(_ALLOWED, methods)
            target = action.get("target")
            if not isinstance(offered, list | tuple) or not isinstance(target, str):
                self._raise_unexpected("reset action missing or invalid")
            method = next((method for method in methods if method in offered), None)
            if method is None:
                raise UnsupportedError(
                    f"{self._controller_name}: reset method not supported: "
                    f"{' or '.join(methods)}"
                )
            self._request(client, "POST", target, json={"ResetType": str(method)})

    def _system(self, client: httpx2.Client) -> Mapping[str, Any]:
        if self._settings.system is not None:
            name = quote(self._settings.system, safe="")
            return self._get(client, f"{SYSTEMS}/{name}")
        return self._get(client, self._only_system(client))

    def _only_system(self, client: httpx2.Client) -> str:
        members = self._get(client, SYSTEMS).get("Members")
        if not isinstance(members, list):
            self._raise_unexpected("list of systems missing or invalid")
        paths = [str(get_mapping(each).get("@odata.id")) for each in members]
        if len(paths) != 1:
            names = ", ".join(path.rpartition("/")[2] for path in paths) or "none"
            raise PlatformError(
                f"{self._controller_name}: expected one system, got "
                f"{single_line(names)}; select one with the setting system"
            )
        return paths[0]

    def _get(self, client: httpx2.Client, path: str) -> Mapping[str, Any]:
        response = self._request(client, "GET", path)
        try:
            body = parse_json_body(response)
        except UnexpectedResponseError as error:
            self._raise_unexpected(str(error))
        if not isinstance(body, dict):
            self._raise_unexpected("expected a JSON object in the response")
        return body

    def _request(
        self, client: httpx2.Client, method: str, path: str, json: object = None
    ) -> httpx2.Response:
        if not path.startswith("/") or path.startswith("//"):
            self._raise_unexpected("URL of another host in the response")
        response = exchange(
            client,
            self._controller_name,
            method,
            path,
            timeout=self._settings.timeout,
            max_size=MAX_BODY_SIZE,
            json=json,
        )
        self._require_success(response)
        return response

    def _require_success(self, response: httpx2.Response) -> None:
        status = response.status_code
        if response.is_success:
            return
        if status in (401, 403):
            raise PermissionDeniedError(
                f"{self._controller_name}: access denied for user "
                f"{self._settings.user} (status {status})"
            )
        if status == 404:
            missing = single_line(response.url.path)
            raise PlatformError(
                f"{self._controller_name}: not found: {missing} (status 404)"
            )
        if status >= 500:
            raise PlatformUnavailableError(
                f"{self._controller_name}: temporary error (status "
                f"{status}{_error_message(response)})"
            )
        if response.is_redirect:
            self._raise_unexpected(
                f"redirect (status {status}); correct the setting url"
            )
        raise PlatformError(
            f"{self._controller_name}: request rejected (status "
            f"{status}{_error_message(response)})"
        )

    def _raise_unexpected(self, problem: str) -> NoReturn:
        raise UnexpectedResponseError(f"{self._controller_name}: {problem}")

    @property
    def _controller_name(self) -> str:
        return f"{self._node}: management controller"


def require_credentials(node: str, settings: RedfishSettings) -> None:
    """Check that the password and the certificates can be read.

    Raises:
        ConfigurationError: One of them cannot be used; with all errors.
    """
    run_checks(
        partial(_read_password, NodeId(node), settings),
        partial(_create_ssl_context, NodeId(node), settings),
    )


def _error_message(response: httpx2.Response) -> str:
    """Return the message of a Redfish error response as `: MESSAGE`, or nothing."""
    try:
        error = get_mapping(parse_json_body(response), "error")
    except UnexpectedResponseError:
        return ""
    extended_info = error.get("@Message.ExtendedInfo")
    first = (
        extended_info[0] if isinstance(extended_info, list) and extended_info else {}
    )
    message = get_mapping(first).get("Message") or error.get("message")
    return f": {single_line(message)}" if isinstance(message, str) else ""


def _read_password(node: NodeId, settings: RedfishSettings) -> str:
    return read_located_secret(f"power of {node}: ", "password", settings)


def _create_ssl_context(node: NodeId, settings: RedfishSettings) -> ssl.SSLContext:
    return create_ssl_context(f"power of {node}: ", settings.ca)
