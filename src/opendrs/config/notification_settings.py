"""Settings of notifications, tables `[[notifications]]`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from opendrs.config.monitoring_settings import is_listen_address, split_listen_address
from opendrs.config.secret_sources import (
    given_sources,
    source_names,
    source_problems,
)
from opendrs.errors import InvalidSettingError
from opendrs.model import Seconds

MAX_TIMEOUT = 60.0  # seconds
Level = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Settings of a webhook, `kind = "webhook"`.

    Attributes:
        url_file: File with the URL, which often contains a secret.
        url_env: Environment variable with the URL.
        url_keyring: Entry `SERVICE/USER` of the keyring with the URL.
        url: The URL.
        secret_file: File with the secret that signs each notification.
        secret_env: Environment variable with the secret.
        secret_keyring: Entry `SERVICE/USER` of the keyring with the secret.
        secret: The secret; better in one of the places before.
        ca: File with the only trusted certificates; None for the system trust store.
        level: Lowest severity of the events that are sent.
        events: Codes of the events that are sent; empty for all.
        timeout: Seconds until the server must respond.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
    """

    url_file: Path | None = None
    url_env: str | None = None
    url_keyring: str | None = None
    url: str | None = field(default=None, repr=False)
    secret_file: Path | None = None
    secret_env: str | None = None
    secret_keyring: str | None = None
    secret: str | None = field(default=None, repr=False)
    ca: Path | None = None
    level: Level = "warning"
    events: tuple[str, ...] = ()
    timeout: Seconds = 10.0

    def __post_init__(self) -> None:
        problems = [
            *_timeout_problems(self.timeout),
            *_url_problems(self),
            *source_problems(self, "secret"),
        ]
        if problems:
            raise InvalidSettingError(*problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailSettings:
    """Settings of notifications by e-mail, `kind = "email"`.

    Attributes:
        server: Mail server, `HOST:PORT`.
        sender: Address of the sender.
        recipients: Addresses of the recipients.
        security: `starttls`, `tls` from the start, or `none`.
        user: User of the server; None if it needs none.
        password_file: File with the password.
        password_env: Environment variable with the password.
        password_keyring: Entry `SERVICE/USER` of the keyring with the password.
        password: The password; better in one of the places before.
        ca: File with the only trusted certificates; None for the system trust store.
        level: Lowest severity of the events that are sent.
        events: Codes of the events that are sent; empty for all.
        timeout: Seconds until the server must respond.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
    """

    server: str
    sender: str
    recipients: tuple[str, ...]
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password_file: Path | None = None
    password_env: str | None = None
    password_keyring: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    level: Level = "warning"
    events: tuple[str, ...] = ()
    timeout: Seconds = 10.0

    def __post_init__(self) -> None:
        problems = [*_timeout_problems(self.timeout)]
        if not is_listen_address(self.server):
            problems.append("server: expected HOST:PORT, such as mail.example.com:587")
        if not self.recipients:
            problems.append("recipients: expected at least one address")
        for name, addresses in (
            ("sender", (self.sender,)),
            ("recipients", self.recipients),
        ):
            if not all(map(_is_mail_address, addresses)):
                problems.append(f"{name}: expected addresses like ops@example.com")
        problems += source_problems(self, "password")
        has_password = bool(given_sources(self, "password"))
        if has_password != (self.user is not None):
            problems.append("user: expected a user with a password, or neither")
        elif has_password and self.security == "none":
            problems.append("security: expected starttls or tls with a password")
        if problems:
            raise InvalidSettingError(*problems)

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and the port of the server."""
        return split_listen_address(self.server)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppriseSettings:
    """Settings of a service that Apprise knows, `kind = "apprise"`.

    Attributes:
        url_file: File with the URL of Apprise, which contains secrets.
        url_env: Environment variable with the URL.
        url_keyring: Entry `SERVICE/USER` of the keyring with the URL.
        url: The URL; better in one of the places before.
        level: Lowest severity of the events that are sent.
        events: Codes of the events that are sent; empty for all.
        timeout: Seconds until the server must respond.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
    """

    url_file: Path | None = None
    url_env: str | None = None
    url_keyring: str | None = None
    url: str | None = field(default=None, repr=False)
    level: Level = "warning"
    events: tuple[str, ...] = ()
    timeout: Seconds = 10.0

    def __post_init__(self) -> None:
        problems = [*_timeout_problems(self.timeout), *_url_problems(self)]
        if problems:
            raise InvalidSettingError(*problems)


NotificationSettings = WebhookSettings | EmailSettings | AppriseSettings
NOTIFICATION_KINDS: dict[str, type[NotificationSettings]] = {
    "webhook": WebhookSettings,
    "email": EmailSettings,
    "apprise": AppriseSettings,
}


def _url_problems(settings: WebhookSettings | AppriseSettings) -> Iterator[str]:
    if not given_sources(settings, "url"):
        names = ", ".join(source_names("url"))
        yield f"url: expected url, or one of {names}; got none"
    yield from source_problems(settings, "url")


def _timeout_problems(timeout: float) -> Iterator[str]:
    if not 0 < timeout <= MAX_TIMEOUT:
        yield (
            f"timeout: expected seconds above 0 and up to {MAX_TIMEOUT:g}, got "
            f"{timeout:g}"
        )


def _is_mail_address(text: str) -> bool:
    name, at, host = text.rpartition("@")
    return bool(name and at and host) and text.isprintable() and " " not in text
