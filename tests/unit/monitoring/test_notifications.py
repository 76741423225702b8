"""Notifications, received by real servers for HTTP and SMTP."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import socketserver
import ssl
import threading
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from opendrs.cli.validation import validate_document
from opendrs.config import DiagnosticCode
from opendrs.config.notification_settings import (
    AppriseSettings,
    EmailSettings,
    WebhookSettings,
)
from opendrs.controller.events import LOGGER, LogEventCode, log_event
from opendrs.errors import ConfigurationError
from opendrs.monitoring import notifications
from opendrs.monitoring.notification_senders import SIGNATURE_HEADER, create_sender
from opendrs.monitoring.notifications import (
    ATTEMPTS,
    QUEUE_SIZE,
    Notifier,
    create_notifiers,
)
from support.webhook_server import WebhookServer

TIMEOUT = 60.0  # seconds in which something arrives, on a busy machine
SECRET = "key of the webhook"  # noqa: S105 - of a test


class MailSession(socketserver.StreamRequestHandler):
    """One connection to a `MailServer`."""

    server: MailServer

    def handle(self) -> None:
        self._reply("220 test")
        while line := self.rfile.readline().decode().strip():
            self._answer(line[:4].upper(), line)

    def _answer(self, verb: str, line: str) -> None:
        tls = self.server.tls
        if verb == "EHLO" and tls is not None:
            encrypted = isinstance(self.connection, ssl.SSLSocket)
            feature = "AUTH PLAIN" if encrypted else "STARTTLS"
            self._reply(f"250-test\r\n250 {feature}")
        elif verb == "STAR" and tls is not None:
            self._reply("220 go on")
            self.connection = tls.wrap_socket(self.connection, server_side=True)
            self.rfile = self.connection.makefile("rb")
            self.wfile = self.connection.makefile("wb", buffering=0)
        elif verb == "AUTH":
            self.server.logins.append(b64decode(line.rsplit(maxsplit=1)[-1]).decode())
            self._reply("235 ok")
        elif verb == "DATA":
            self._reply("354 go on")
            lines = iter(lambda: self.rfile.readline().decode(), ".\r\n")
            self.server.messages.append("".join(lines))
            self._reply("250 ok")
        else:
            replies = {"QUIT": "221 end", "RCPT": self.server.reply_to_recipient}
            self._reply(replies.get(verb, "250 ok"))

    def finish(self) -> None:
        self.connection.close()

    def _reply(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class MailServer(socketserver.ThreadingTCPServer):
    """SMTP server that records messages and logins.

    Args:
        reply_to_recipient: Reply to each recipient.
        tls: Context for TLS after STARTTLS; None without TLS.
    """

    daemon_threads = True

    def __init__(
        self, reply_to_recipient: str = "250 ok", tls: ssl.SSLContext | None = None
    ) -> None:
        self.reply_to_recipient = reply_to_recipient
        self.tls = tls
        self.messages: list[str] = []
        self.logins: list[str] = []
        super().__init__(("127.0.0.1", 0), MailSession)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the end of a connection by the client."""

    @property
    def settings(self) -> EmailSettings:
        return EmailSettings(
            server=f"127.0.0.1:{self.server_address[1]}",
            sender="opendrs@example.com",
            recipients=("ops@example.com",),
            security="none",
            timeout=TIMEOUT,
        )


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    found = WebhookServer()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "END_TIMEOUT", TIMEOUT)


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    before = LOGGER.level
    LOGGER.setLevel(logging.ERROR)  # as --level error
    yield
    LOGGER.setLevel(before)


def notifier(server: WebhookServer, **changes: Any) -> Notifier:  # noqa: ANN401
    settings = WebhookSettings(url=server.url, timeout=TIMEOUT, **changes)
    sender = create_sender("notifications[0].", settings)
    return Notifier(sender, settings, "lab", max_wait=0.01)


def warn(code: LogEventCode, message: str = "text", **fields: object) -> None:
    log_event(code, message, level=logging.WARNING, **fields)


def lost(caplog: pytest.LogCaptureFixture) -> list[str]:
    code = LogEventCode.NOTIFICATION_LOST
    return [r.getMessage() for r in caplog.records if getattr(r, "event", "") == code]


def test_webhook_receives_event_as_signed_json(server: WebhookServer) -> None:
    with notifier(server, secret=SECRET):
        warn(LogEventCode.RULES_BROKEN, "2 rules", broken=["apart"])

    ((headers, body),) = server.received
    document = json.loads(body)
    expected = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE_HEADER] == f"sha256={expected}"
    assert (document["event"], document["level"]) == ("rules-broken", "warning")
    assert (document["platform"], document["message"]) == ("lab", "2 rules")
    assert document["fields"] == {"broken": ["apart"]}


@pytest.mark.parametrize(
    ("changes", "received"),
    [
        ({}, ["rules-broken", "step-finished"]),
        ({"level": "info"}, ["step-started", "rules-broken", "step-finished"]),
        ({"events": ("step-finished",)}, ["step-finished"]),
        ({"level": "error"}, []),
    ],
)
def test_events_are_selected_by_level_and_code(
    server: WebhookServer, changes: dict[str, Any], received: list[str]
) -> None:
    with notifier(server, **changes):
        log_event(LogEventCode.STEP_STARTED, "s1")
        warn(LogEventCode.RULES_BROKEN)
        warn(LogEventCode.STEP_FINISHED)
        logging.getLogger("opendrs").warning("without code")

    assert server.events == received


def test_temporary_error_is_retried(server: WebhookServer) -> None:
    server.statuses = [503, 429]

    with notifier(server):
        warn(LogEventCode.RULES_BROKEN)

    assert server.events == ["rules-broken"] * 3


def test_rejected_notification_is_not_repeated_and_logged_once(
    server: WebhookServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.statuses = [403, 403, 204, 404]

    with notifier(server):
        for _ in range(4):
            warn(LogEventCode.RULES_BROKEN)

    assert len(server.received) == 4
    assert [line.rpartition(": ")[2] for line in lost(caplog)] == [
        "response 403",
        "response 404",
    ]
    assert "token-in-path" not in caplog.text


def test_unreachable_server_is_logged_once_without_its_url(
    server: WebhookServer, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable = notifier(server)
    server.close()

    with unreachable:
        for _ in range(3):
            warn(LogEventCode.RULES_BROKEN)

    assert len(lost(caplog)) == 1
    assert "token-in-path" not in caplog.text


def test_permanently_failing_server_gets_few_attempts(server: WebhookServer) -> None:
    server.statuses = [500] * 10

    with notifier(server):
        warn(LogEventCode.RULES_BROKEN)

    assert len(server.received) == ATTEMPTS


def test_slow_server_does_not_delay_and_queue_is_limited(
    server: WebhookServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.released.clear()
    with notifier(server):
        for _ in range(QUEUE_SIZE + 50):
            warn(LogEventCode.RULES_BROKEN)
        assert server.received == []
        server.released.set()

    assert len(server.received) == pytest.approx(QUEUE_SIZE + 1, abs=1)
    assert len(lost(caplog)) == 1


def apprise_notifier(server: WebhookServer) -> Notifier:
    """Return a notifier that posts to *server* by Apprise."""
    url = server.url.replace("http://", "json://")
    settings = AppriseSettings(url=url, timeout=TIMEOUT)
    sender = create_sender("notifications[0].", settings)
    assert "token" not in sender.name
    return Notifier(sender, settings, "lab", max_wait=0.01)


def test_service_of_apprise_receives_event(server: WebhookServer) -> None:
    with apprise_notifier(server):
        warn(LogEventCode.RULES_BROKEN, "2 rules", broken=["apart"])

    ((_, body),) = server.received
    document = json.loads(body)
    assert (document["title"], document["type"]) == ("opendrs lab: 2 rules", "warning")
    assert '"broken": [' in document["message"]


def test_service_of_apprise_that_fails_is_retried_without_its_url(
    server: WebhookServer,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.statuses = [500] * 10

    with apprise_notifier(server):
        warn(LogEventCode.RULES_BROKEN)

    assert len(server.received) == ATTEMPTS
    assert len(lost(caplog)) == 1
    assert "token-in-path" not in caplog.text + capsys.readouterr().err


def test_url_that_apprise_does_not_know_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"n\.url: expected .* Apprise knows"):
        create_sender("n.", AppriseSettings(url="unknown-service://secret"))


def test_mail_server_receives_message() -> None:
    server = MailServer()
    sender = create_sender("notifications[0].", server.settings)
    with Notifier(sender, server.settings, "lab"):
        warn(LogEventCode.RULES_BROKEN, "2 rules\r\nBcc: x@example.com")
    server.shutdown()
    server.server_close()

    (message,) = server.messages
    assert "Subject: opendrs lab: 2 rules" in message
    assert "To: ops@example.com" in message
    assert '"event": "rules-broken"' in message
    assert not any(line.startswith("Bcc") for line in message.splitlines())


def certified_server(tmp_path: Path) -> tuple[MailServer, EmailSettings]:
    """Return a server with a certificate, and settings that trust it."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = MailServer(tls=context)
    (tmp_path / "password").write_text("of the mail server\n")
    settings = replace(
        server.settings,
        security="starttls",
        user="opendrs",
        password_file=tmp_path / "password",
        ca=tmp_path / "ca.pem",
    )
    return server, settings


def test_mail_is_sent_encrypted_with_login(tmp_path: Path) -> None:
    server, settings = certified_server(tmp_path)

    with Notifier(create_sender("n.", settings), settings, "lab"):
        warn(LogEventCode.RULES_BROKEN)
    server.shutdown()
    server.server_close()

    assert server.logins == ["\0opendrs\0of the mail server"]
    assert len(server.messages) == 1


def test_mail_server_with_untrusted_certificate_gets_no_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, settings = certified_server(tmp_path)
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")

    sender = create_sender("n.", settings)
    with Notifier(sender, settings, "lab", max_wait=0.01):
        warn(LogEventCode.RULES_BROKEN)
    server.shutdown()
    server.server_close()

    assert (server.logins, server.messages) == ([], [])
    assert len(lost(caplog)) == 1


def test_mail_server_without_tls_gets_no_password(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    server = MailServer()
    settings = replace(
        server.settings,
        security="starttls",
        user="opendrs",
        password_file=tmp_path / "password",
    )

    with Notifier(create_sender("n.", settings), settings, "lab"):
        warn(LogEventCode.RULES_BROKEN)
    server.shutdown()
    server.server_close()

    assert (server.logins, server.messages) == ([], [])


def test_rejected_recipient_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    server = MailServer("550 unknown")
    sender = create_sender("notifications[0].", server.settings)
    with Notifier(sender, server.settings, "lab"):
        warn(LogEventCode.RULES_BROKEN)
    server.shutdown()
    server.server_close()

    assert server.messages == []
    assert len(lost(caplog)) == 1


@pytest.mark.parametrize(
    "settings",
    [
        WebhookSettings(url="ftp://example.com/secret"),
        WebhookSettings(url="https://example.com", events=("no-such-event",)),
        WebhookSettings(url_env="OPENDRS_NOT_SET"),
    ],
)
def test_unusable_settings_are_errors(settings: WebhookSettings) -> None:
    with pytest.raises(ConfigurationError, match=r"^notifications\[0\]\.") as raised:
        create_notifiers([settings], "lab")

    assert "secret" not in str(raised.value)


def test_check_reports_unreadable_secret(tmp_path: Path) -> None:
    tables = [{"kind": "webhook", "url_file": "absent"}]

    result = validate_document({"notifications": tables}, "FILE", tmp_path)

    (diagnostic,) = result.diagnostics
    assert diagnostic.code is DiagnosticCode.UNUSABLE_FILE
    assert diagnostic.message.startswith("notifications[0].url_file: ")
