"""Senders of notifications: a webhook, e-mail, and the services of Apprise."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import smtplib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Protocol
from urllib.parse import urlsplit

import httpx2

from opendrs.config.notification_settings import (
    AppriseSettings,
    EmailSettings,
    NotificationSettings,
    WebhookSettings,
)
from opendrs.config.secret_sources import given_sources
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import escape_line
from opendrs.model import format_timestamp
from opendrs.transport.http_json import verification_error
from opendrs.transport.secrets import create_ssl_context, read_located_secret

SIGNATURE_HEADER = "X-OpenDRS-Signature"
MAX_SUBJECT_LENGTH = 120  # characters
_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class TemporaryDeliveryError(Exception):
    """Failed delivery that is repeated."""


class PermanentDeliveryError(Exception):
    """Failed delivery that would fail again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """An event, as it is sent.

    Attributes:
        event: Code of the event.
        level: Its severity.
        time: Time of the event.
        message: The event as a sentence.
        platform: Name of the platform.
        host: Name of the machine of the controller.
        fields: Values of the event; valid JSON.
        text: Text for people; empty if the values are all there is.
    """

    event: str
    level: str
    time: float
    message: str
    platform: str
    host: str
    fields: Mapping[str, object]
    text: str = ""

    @property
    def subject(self) -> str:
        """Return one line that names the platform."""
        line = escape_line(f"opendrs {self.platform}: {self.message}")
        return line[:MAX_SUBJECT_LENGTH]

    @property
    def body(self) -> str:
        """Return the text for people; without one, the message and the values."""
        if self.text:
            return self.text
        values = json.dumps(self.document, indent=2, default=str)
        return f"{escape_line(self.message)}\n\n{values}\n"

    @property
    def document(self) -> dict[str, object]:
        """Return the notification as plain values."""
        return {
            "event": self.event,
            "level": self.level,
            "time": format_timestamp(datetime.fromtimestamp(self.time, UTC)),
            "message": self.message,
            "platform": self.platform,
            "host": self.host,
            "fields": dict(self.fields),
        }


class Sender(Protocol):
    """Sender of notifications.

    Attributes:
        name: Description for the log, without secrets.
    """

    name: str

    def send(self, notification: Notification) -> None:
        """Send *notification*.

        Raises:
            TemporaryDeliveryError: It was not delivered, and can be sent again.
            PermanentDeliveryError: It cannot be delivered.
        """


def create_sender(prefix: str, settings: NotificationSettings) -> Sender:
    """Return the sender for *settings*.

    Args:
        prefix: Part of the configuration, for error messages.
        settings: The settings.

    Raises:
        ConfigurationError: A secret or certificate cannot be read, or is invalid.
    """
    if isinstance(settings, WebhookSettings):
        return WebhookSender(prefix, settings)
    if isinstance(settings, AppriseSettings):
        return AppriseSender(prefix, settings)
    return EmailSender(prefix, settings)


class WebhookSender:
    """Sender that posts each notification as JSON.

    With a secret, the header `X-OpenDRS-Signature` is `sha256=` and the HMAC-SHA256 of
    the body in hexadecimal.

    Args:
        prefix: Part of the configuration, for error messages.
        settings: The settings.
    """

    def __init__(self, prefix: str, settings: WebhookSettings) -> None:
        self._url = read_located_secret(prefix, "url", settings).strip()
        parts = urlsplit(self._url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"{prefix}url: expected an http or https URL")
        self.name = f"webhook at {escape_line(parts.hostname)}"
        self._secret: bytes | None = None
        if given_sources(settings, "secret"):
            self._secret = read_located_secret(prefix, "secret", settings).encode()
        self._client = httpx2.Client(
            verify=create_ssl_context(prefix, settings.ca), timeout=settings.timeout
        )

    def send(self, notification: Notification) -> None:
        """Post *notification*; the body of the response is not read."""
        body = json.dumps(notification.document, default=str).encode()
        headers = {"Content-Type": "application/json"}
        if self._secret is not None:
            digest = hmac.new(self._secret, body, hashlib.sha256).hexdigest()
            headers[SIGNATURE_HEADER] = f"sha256={digest}"
        try:
            with self._client.stream(
                "POST", self._url, content=body, headers=headers
            ) as response:
                status = response.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            if verification_error(error) is not None:
                raise PermanentDeliveryError("certificate not trusted") from None
            raise TemporaryDeliveryError(type(error).__name__) from None
        if status in _RETRIED_STATUS:
            raise TemporaryDeliveryError(f"response {status}")
        if not 200 <= status < 300:
            raise PermanentDeliveryError(f"response {status}")


class EmailSender:
    """Sender of e-mail.

    Args:
        prefix: Part of the configuration, for error messages.
        settings: The settings.
    """

    def __init__(self, prefix: str, settings: EmailSettings) -> None:
        self._settings = settings
        self.name = f"e-mail by {settings.server}"
        self._tls = create_ssl_context(prefix, settings.ca)
        self._password: str | None = None
        if given_sources(settings, "password"):
            self._password = read_located_secret(prefix, "password", settings)

    def send(self, notification: Notification) -> None:
        """Send *notification* over a connection of its own."""
        try:
            with self._connect() as server:
                if self._settings.security == "starttls":
                    server.starttls(context=self._tls)
                if self._settings.user is not None and self._password is not None:
                    server.login(self._settings.user, self._password)
                server.send_message(self._message(notification))
        except smtplib.SMTPResponseException as error:
            text = f"response {error.smtp_code}"
            if error.smtp_code >= 500:
                raise PermanentDeliveryError(text) from None
            raise TemporaryDeliveryError(text) from None
        except (smtplib.SMTPRecipientsRefused, smtplib.SMTPNotSupportedError) as error:
            raise PermanentDeliveryError(type(error).__name__) from None
        except (OSError, smtplib.SMTPException) as error:
            raise TemporaryDeliveryError(type(error).__name__) from None

    def _connect(self) -> smtplib.SMTP:
        host, port = self._settings.address
        timeout = self._settings.timeout
        if self._settings.security == "tls":
            return smtplib.SMTP_SSL(host, port, timeout=timeout, context=self._tls)
        return smtplib.SMTP(host, port, timeout=timeout)

    def _message(self, notification: Notification) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self._settings.sender
        message["To"] = ", ".join(self._settings.recipients)
        message["Subject"] = notification.subject
        message.set_content(notification.body)
        return message


class AppriseSender:
    """Sender of notifications by Apprise, the library for over a hundred services.

    Args:
        prefix: Part of the configuration, for error messages.
        settings: The settings.

    Raises:
        ConfigurationError: Apprise is not installed or does not know the URL.
    """

    def __init__(self, prefix: str, settings: AppriseSettings) -> None:
        try:
            import apprise  # noqa: PLC0415 - an extra
        except ImportError:
            raise ConfigurationError(
                f"{prefix}kind: apprise is not installed: pip install opendrs[apprise]",
                code=DiagnosticCode.UNUSABLE_LIBRARY,
            ) from None
        logging.getLogger("apprise").addHandler(logging.NullHandler())
        logging.getLogger("apprise").propagate = False  # it logs parts of the URL
        url = read_located_secret(prefix, "url", settings).strip()
        service = apprise.Apprise.instantiate(url)
        if service is None:
            raise ConfigurationError(f"{prefix}url: expected a URL that Apprise knows")
        service.socket_connect_timeout = settings.timeout
        service.socket_read_timeout = settings.timeout
        self.name = f"apprise {escape_line(str(service.service_name))}"
        self._service = service
        self._kinds = {
            "warning": apprise.NotifyType.WARNING,
            "error": apprise.NotifyType.FAILURE,
        }
        self._info = apprise.NotifyType.INFO

    def send(self, notification: Notification) -> None:
        """Send *notification*; Apprise does not say why a delivery fails."""
        is_sent = self._service.notify(
            title=notification.subject,
            body=notification.body,
            notify_type=self._kinds.get(notification.level, self._info),
        )
        if not is_sent:
            raise TemporaryDeliveryError("not accepted")
