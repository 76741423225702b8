"""Settings of the sign-in by OpenID Connect: the table `[web.oidc]`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from opendrs.config.secret_sources import (
    given_sources,
    source_names,
    source_problems,
)
from opendrs.errors import ConfigurationError, DiagnosticCode, InvalidSettingError
from opendrs.model import Seconds

MAX_TIMEOUT = 30.0  # seconds
REDIRECT_PATH = "/sign-in"  # page of the dashboard to which the issuer redirects
_OPENID = "openid"  # the scope that requests an ID token
_Problem = tuple[str, DiagnosticCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Settings of the sign-in by OpenID Connect, table `[web.oidc]`.

    Attributes:
        issuer: URL of the issuer, exactly as it names itself.
        client_id: Identifier under which the issuer knows this server.
        address: Address of the dashboard as browsers use it, without a path.
        client_secret_file: File with the client secret.
        client_secret_env: Environment variable with the client secret.
        client_secret_keyring: Entry `SERVICE/USER` of the keyring with the secret.
        name: Name of the issuer on the sign-in screen; None for its host.
        scopes: Scopes to request.
        role_claim: Claim whose values determine the role: a text, or a list of texts.
        viewer: Values of the claim that give the role viewer.
        operator: Values of the claim that give the role operator.
        admin: Values of the claim that give the role admin.
        user_claim: Claim with the name of the user for the audit; without it, the
            subject is the name.
        ca: File with the only trusted certificates; None for the system trust store.
        timeout: Seconds until the issuer must respond to a request.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
    """

    issuer: str
    client_id: str
    address: str
    client_secret_file: Path | None = None
    client_secret_env: str | None = None
    client_secret_keyring: str | None = None
    name: str | None = None
    scopes: tuple[str, ...] = (_OPENID, "profile")
    role_claim: str = "groups"
    viewer: tuple[str, ...] = ()
    operator: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()
    user_claim: str = "preferred_username"
    ca: Path | None = None
    timeout: Seconds = 5.0

    def __post_init__(self) -> None:
        found = [
            *self._address_problems(),
            *self._text_problems(),
            *self._secret_problems(),
            *self._role_problems(),
        ]
        if not 0 < self.timeout <= MAX_TIMEOUT:
            text = (
                f"timeout: expected seconds above 0 and up to {MAX_TIMEOUT:g}, got "
                f"{self.timeout:g}"
            )
            found.append((text, DiagnosticCode.OUT_OF_RANGE))
        if found:
            raise InvalidSettingError(
                *(text for text, _ in found), code=[code for _, code in found]
            )

    def _address_problems(self) -> Iterator[_Problem]:
        if not is_secure_url(self.issuer):
            yield (
                (
                    "issuer: expected https://HOST with an optional path, or http on "
                    f"a loopback host, got {self.issuer!r}"
                ),
                DiagnosticCode.INVALID_VALUE,
            )
        if not is_secure_url(self.address) or urlsplit(self.address).path:
            yield (
                (
                    "address: expected https://HOST:PORT without a path, or http on a "
                    f"loopback host, got {self.address!r}"
                ),
                DiagnosticCode.INVALID_VALUE,
            )

    def _text_problems(self) -> Iterator[_Problem]:
        for setting in ("client_id", "role_claim", "user_claim"):
            if not _is_plain(getattr(self, setting)):
                problem = f"{setting}: expected printable text, not empty"
                yield problem, DiagnosticCode.INVALID_VALUE
        if self.name is not None and not _is_plain(self.name):
            problem = "name: expected printable text, not empty"
            yield problem, DiagnosticCode.INVALID_VALUE
        if _OPENID not in self.scopes or not all(map(_is_scope, self.scopes)):
            yield (
                (
                    f"scopes: expected {_OPENID} and further scopes without spaces, "
                    f"got {list(self.scopes)!r}"
                ),
                DiagnosticCode.INVALID_VALUE,
            )

    def _secret_problems(self) -> Iterator[_Problem]:
        if not given_sources(self, "client_secret"):
            names = ", ".join(source_names("client_secret"))
            problem = f"client_secret_file: expected one of {names}, got none"
            yield problem, DiagnosticCode.MISSING_KEY
        for problem in source_problems(self, "client_secret"):
            yield problem, DiagnosticCode.INCONSISTENT

    def _role_problems(self) -> Iterator[_Problem]:
        values = [*self.viewer, *self.operator, *self.admin]
        if not values:
            yield (
                (
                    "viewer: expected values of the claim for at least one of viewer, "
                    "operator and admin, got none"
                ),
                DiagnosticCode.MISSING_KEY,
            )
        for setting in ("viewer", "operator", "admin"):
            if "" in getattr(self, setting):
                problem = f"{setting}: expected values that are not empty"
                yield problem, DiagnosticCode.INVALID_VALUE

    @property
    def redirect_uri(self) -> str:
        """Return the address to which the issuer sends a browser back."""
        return f"{self.address}{REDIRECT_PATH}"

    @property
    def label(self) -> str:
        """Return the name of the issuer on the sign-in screen."""
        return self.name or urlsplit(self.issuer).hostname or self.issuer


def require_joserfc() -> None:
    """Check that the library for ID tokens, an extra, is installed.

    Raises:
        ConfigurationError: It is not.
    """
    if find_spec("joserfc") is None:
        raise ConfigurationError(
            "sign-in by OpenID Connect: joserfc is not installed; run pip install "
            "'.[oidc]' in a checkout of opendrs",
            code=DiagnosticCode.UNUSABLE_LIBRARY,
        )


def is_secure_url(text: str) -> bool:
    """Return True if *text* is an https URL, or an http URL of a loopback host.

    It has a host, and neither user, query nor fragment.
    """
    if not _is_plain(text) or " " in text or "?" in text or "#" in text:
        return False
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    if not parts.hostname or parts.username is not None or port == 0:
        return False
    is_local = parts.scheme == "http" and _is_loopback(parts.hostname)
    return parts.scheme == "https" or is_local


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_plain(text: str) -> bool:
    return bool(text.strip()) and text.isprintable()


def _is_scope(text: str) -> bool:
    return _is_plain(text) and " " not in text
