"""Power by the management controller of a host, over Redfish.

Source:
    DMTF DSP0266 1.15 (Redfish specification), and the schemas ComputerSystem and
    Resource: PowerState, and the action ComputerSystem.Reset.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import quote

import httpx

from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
    UnsupportedError,
)
from opendrs.model import NodeId
from opendrs.platforms.ordinary_files import SMALL, read_ordinary, require_ordinary
from opendrs.platforms.power.answers import asked, plain, said, short, table
from opendrs.platforms.power.driver import PowerState
from opendrs.platforms.power.settings import RedfishSettings

SYSTEMS = "/redfish/v1/Systems"
_STATES = {"On": PowerState.ON, "Off": PowerState.OFF}
_RESET = "#ComputerSystem.Reset"
_ALLOWED = "ResetType@Redfish.AllowableValues"
_WAYS_ON = ("On", "ForceOn", "PushPowerButton")


class RedfishDriver:
    """The power of one node, by its management controller."""

    silence: float | None = None
    detached = False

    def __init__(self, node: NodeId, settings: RedfishSettings) -> None:
        """Read the password and the certificates; connect to nothing yet.

        Raises:
            ConfigurationError: One of them cannot be read, or the URL is none.
        """
        try:
            httpx.URL(settings.url)
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"power of {node}: url: {error}") from None
        self._node = node
        self._settings = settings
        self.patience = settings.patience
        self._login = httpx.BasicAuth(settings.user, _password(node, settings))
        self._trust = _trust(node, settings)

    def on(self) -> None:
        """Ask for the system to be switched on.

        Raises:
            PlatformError: It cannot be reached, or does not do it.
        """
        self._reset(*_WAYS_ON)

    def off(self) -> None:
        """Ask for the system to be switched off, as the settings say.

        Raises:
            PlatformError: It cannot be reached, or does not do it.
        """
        self._reset(self._settings.off)

    def state(self) -> PowerState:
        """Return the power state of the system; UNKNOWN while it changes.

        Raises:
            PlatformError: It cannot be reached, or does not say.
        """
        with self._client() as client:
            told = self._system(client).get("PowerState")
        return _STATES.get(str(told), PowerState.UNKNOWN)

    def _client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self._settings.url,
            auth=self._login,
            verify=self._trust,
            timeout=self._settings.timeout,
            # Redirected, or by way of a proxy that other programs are told to
            # use, it would show the password to somebody else.
            follow_redirects=False,
            trust_env=False,
        )

    def _reset(self, *ways: str) -> None:
        """Ask for the first of *ways* that the system offers."""
        with self._client() as client:
            action = table(self._system(client), "Actions", _RESET)
            offered = action.get(_ALLOWED, ways)
            target = action.get("target")
            if not isinstance(offered, list | tuple) or not isinstance(target, str):
                self._puzzled("does not say how its system is reset")
            way = next((way for way in ways if way in offered), None)
            if way is None:
                raise UnsupportedError(
                    f"the management controller of {self._node} does not offer "
                    f"{' or '.join(ways)}"
                )
            self._asked(client, "POST", target, json={"ResetType": str(way)})

    def _system(self, client: httpx.Client) -> Mapping[str, Any]:
        if self._settings.system is not None:
            name = quote(self._settings.system, safe="")
            return self._table_at(client, f"{SYSTEMS}/{name}")
        return self._table_at(client, self._only_system(client))

    def _only_system(self, client: httpx.Client) -> str:
        members = self._table_at(client, SYSTEMS).get("Members")
        if not isinstance(members, list):
            self._puzzled("does not say which systems it has")
        paths = [str(table(each).get("@odata.id")) for each in members]
        if len(paths) != 1:
            names = ", ".join(path.rpartition("/")[2] for path in paths) or "none"
            raise PlatformError(
                f"{self._who} has not one system ({short(names)}): set system"
            )
        return paths[0]

    def _table_at(self, client: httpx.Client, path: str) -> Mapping[str, Any]:
        answer = self._asked(client, "GET", path)
        try:
            told = plain(answer)
        except UnexpectedResponseError as error:
            self._puzzled(str(error))
        if not isinstance(told, dict):
            self._puzzled("answered in an unknown form")
        return told

    def _asked(
        self, client: httpx.Client, method: str, path: str, json: object = None
    ) -> httpx.Response:
        if not path.startswith("/") or path.startswith("//"):
            self._puzzled("names a place that is not its own")
        try:
            answer = asked(client, method, path, json, self._settings.timeout)
        except UnexpectedResponseError as error:
            self._puzzled(str(error))
        except httpx.TimeoutException:
            seconds = self._settings.timeout
            raise PlatformUnavailableError(
                f"{self._who} did not answer within {seconds:g} s"
            ) from None
        except httpx.HTTPError as error:
            raise self._not_reached(error) from None
        self._require_success(answer)
        return answer

    def _not_reached(self, error: httpx.HTTPError) -> PlatformError:
        if (distrust := _distrust(error)) is not None:
            return PlatformError(
                f"the certificate of {self._who} is not trusted: {distrust}; set ca "
                "to a file with the one that signed it, or with itself"
            )
        return PlatformUnavailableError(
            f"{self._who} cannot be reached: {short(str(error))}"
        )

    def _require_success(self, answer: httpx.Response) -> None:
        status = answer.status_code
        if answer.is_success:
            return
        if status in (401, 403):
            raise PermissionDeniedError(
                f"{self._who} refuses user {self._settings.user} (status {status})"
            )
        if status == 404:
            missing = short(answer.url.path)
            raise PlatformError(f"{self._who} has no {missing} (status 404)")
        if status >= 500:
            raise PlatformUnavailableError(
                f"{self._who} cannot do it now (status {status}{said(answer)})"
            )
        if answer.is_redirect:
            self._puzzled(f"sends elsewhere (status {status}): set url to where it is")
        raise PlatformError(f"{self._who} refuses (status {status}{said(answer)})")

    def _puzzled(self, what: str) -> NoReturn:
        raise UnexpectedResponseError(f"{self._who} {what}")

    @property
    def _who(self) -> str:
        return f"the management controller of {self._node}"


def require_credentials(node: str, settings: RedfishSettings) -> None:
    """Check that the password is there, and the certificate to trust.

    Raises:
        ConfigurationError: They cannot be used; with all complaints.
    """
    complaints: list[str] = []
    for look in (_password, _trust):
        try:
            look(NodeId(node), settings)
        except ConfigurationError as error:
            complaints += error.complaints
    if complaints:
        raise ConfigurationError(*complaints)


def _password(node: NodeId, settings: RedfishSettings) -> str:
    if settings.password_env is not None:
        found = os.environ.get(settings.password_env)
        if not found:
            raise ConfigurationError(
                f"power of {node}: password_env: the environment variable "
                f"{settings.password_env} is not set"
            )
        if any("\ud800" <= c <= "\udfff" for c in found):  # bytes that are no text
            raise ConfigurationError(
                f"power of {node}: password_env: the environment variable "
                f"{settings.password_env} is not text"
            )
        return found
    path = settings.password_file
    assert path is not None  # noqa: S101 - for the type checker: one of the two is
    try:
        found = read_ordinary(path, SMALL).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise ConfigurationError(
            f"power of {node}: password_file: {path}: {why}"
        ) from None
    if not found:
        raise ConfigurationError(f"power of {node}: password_file: {path} is empty")
    return found


def _trust(node: NodeId, settings: RedfishSettings) -> ssl.SSLContext:
    try:
        if settings.ca is not None:
            require_ordinary(settings.ca)
        return ssl.create_default_context(cafile=settings.ca)
    except OSError as error:  # an SSLError is one, too
        why = "no certificates" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigurationError(f"power of {node}: ca: {settings.ca}: {why}") from None


def _distrust(error: BaseException | None) -> str | None:
    """Return why a certificate is not trusted, if that is what went wrong."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None
