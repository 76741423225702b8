"""Settings of the HTTP API and the dashboard: the table `[web]`."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from opendrs.config.monitoring_settings import is_listen_address, split_listen_address
from opendrs.config.oidc_settings import OidcSettings
from opendrs.errors import DiagnosticCode, InvalidSettingError
from opendrs.model import Seconds

MIN_SESSION_TIME, MAX_SESSION_TIME = 60.0, 31 * 86_400.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Settings of `opendrs serve`, table `[web]`.

    Attributes:
        listen: Address and port to listen on. Addresses other than loopback require a
            certificate.
        certificate: File with the certificate of this machine, followed by the
            intermediate certificates; None for HTTP on loopback.
        key: File with the private key.
        session_time: Seconds until a browser has to sign in again.
        start: `opendrs run` starts `opendrs serve`.
        oidc: Settings of the sign-in by OpenID Connect; None if not configured.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
    """

    listen: str = "127.0.0.1:8470"
    certificate: Path | None = None
    key: Path | None = None
    session_time: Seconds = 12 * 3_600.0
    start: bool = True
    oidc: OidcSettings | None = None

    def __post_init__(self) -> None:
        problems, codes = [], []
        if not is_listen_address(self.listen):
            problems.append("listen: expected ADDRESS:PORT, such as 127.0.0.1:8470")
            codes.append(DiagnosticCode.INVALID_VALUE)
        elif not self.is_loopback and self.certificate is None:
            problems.append(
                f"listen: {self.listen} requires certificate and key; without them, "
                "expected a loopback address such as 127.0.0.1:8470"
            )
            codes.append(DiagnosticCode.INCONSISTENT)
        if (self.certificate is None) != (self.key is None):
            problems.append("certificate, key: expected both or neither")
            codes.append(DiagnosticCode.INCONSISTENT)
        if not MIN_SESSION_TIME <= self.session_time <= MAX_SESSION_TIME:
            problems.append(
                f"session_time: expected {MIN_SESSION_TIME:g} to "
                f"{MAX_SESSION_TIME:g} seconds, got {self.session_time:g}"
            )
            codes.append(DiagnosticCode.OUT_OF_RANGE)
        if problems:
            raise InvalidSettingError(*problems, code=codes)

    @property
    def address(self) -> tuple[str, int]:
        """Return the address and the port to listen on."""
        return split_listen_address(self.listen)

    @property
    def is_loopback(self) -> bool:
        """Return True if only processes of this machine reach the address."""
        host, _ = self.address
        if host == "localhost":
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def scheme(self) -> str:
        """Return `https` with a certificate, otherwise `http`."""
        return "http" if self.certificate is None else "https"
