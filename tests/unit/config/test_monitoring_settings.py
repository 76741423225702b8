"""Settings for the observation of a controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendrs.cli.platforms import PLATFORMS
from opendrs.config import DiagnosticCode, path_text
from opendrs.config.notification_settings import EmailSettings, WebhookSettings
from opendrs.config.parsing import parse_toml
from opendrs.config.settings import Settings
from opendrs.config.settings_reading import settings_and_diagnostics


def read(text: str) -> tuple[Settings, list[tuple[DiagnosticCode, str]]]:
    document = parse_toml(text, "FILE")
    settings, found = settings_and_diagnostics(document, "FILE", Path(), PLATFORMS)
    return settings, [(one.code, path_text(one.path + one.subpath)) for one in found]


def test_metrics_are_off_without_their_table() -> None:
    settings, _ = read("")

    assert settings.metrics is None


def test_metrics_have_a_local_address_by_default() -> None:
    settings, found = read("[metrics]\n")

    assert found == []
    assert settings.metrics is not None
    assert settings.metrics.address == ("127.0.0.1", 9180)


def test_metrics_listen_on_ipv6() -> None:
    settings, _ = read('[metrics]\nlisten = "[::1]:80"\n')

    assert settings.metrics is not None
    assert settings.metrics.address == ("::1", 80)


@pytest.mark.parametrize(
    ("text", "code", "field"),
    [
        ('listen = "9180"', DiagnosticCode.INVALID_VALUE, "metrics.listen"),
        ('listen = "h:99999"', DiagnosticCode.INVALID_VALUE, "metrics.listen"),
        ("ready_intervals = 0", DiagnosticCode.OUT_OF_RANGE, "metrics.ready_intervals"),
        ("ready_intervals = 1.5", DiagnosticCode.WRONG_TYPE, "metrics.ready_intervals"),
        ('password = "x"', DiagnosticCode.UNKNOWN_KEY, "metrics.password"),
    ],
)
def test_invalid_metrics_settings_are_diagnosed(
    text: str, code: DiagnosticCode, field: str
) -> None:
    _, found = read(f"[metrics]\n{text}\n")

    assert found == [(code, field)]


WEBHOOK = '[[notifications]]\nkind = "webhook"\nurl = "https://h/private"\n'
EMAIL = (
    '[[notifications]]\nkind = "email"\nserver = "h:25"\nsender = "a@h"\n'
    'recipients = ["b@h"]\n'
)


def test_notifications_are_read_with_paths_of_the_file() -> None:
    text = f'{WEBHOOK}secret_file = "key"\n{EMAIL}level = "info"\n'

    settings, found = read(text)

    assert found == []
    webhook, email = settings.notifications
    assert isinstance(webhook, WebhookSettings)
    assert webhook.secret_file == Path("key")
    assert "private" not in repr(settings)
    assert isinstance(email, EmailSettings)
    assert (email.address, email.level) == (("h", 25), "info")


@pytest.mark.parametrize(
    ("text", "code", "field"),
    [
        ("notifications = 1", DiagnosticCode.WRONG_TYPE, "notifications"),
        ("[[notifications]]", DiagnosticCode.MISSING_KEY, "notifications[0].kind"),
        (
            '[[notifications]]\nkind = "pager"',
            DiagnosticCode.UNKNOWN_VALUE,
            "notifications[0].kind",
        ),
        (
            f'{WEBHOOK}url_env = "URL"',
            DiagnosticCode.INVALID_VALUE,
            "notifications[0].url",
        ),
        (
            f'{WEBHOOK}secret = "a"\nsecret_env = "B"',
            DiagnosticCode.INVALID_VALUE,
            "notifications[0].secret",
        ),
        (
            f'{WEBHOOK}secret_keyring = "opendrs"',
            DiagnosticCode.INVALID_VALUE,
            "notifications[0].secret_keyring",
        ),
        (
            f'{EMAIL}user = "u"\npassword_env = "P"\npassword_file = "p"',
            DiagnosticCode.INVALID_VALUE,
            "notifications[0].password_env",
        ),
        (
            f"{WEBHOOK}timeout = 0",
            DiagnosticCode.OUT_OF_RANGE,
            "notifications[0].timeout",
        ),
        (f'{EMAIL}user = "u"', DiagnosticCode.INVALID_VALUE, "notifications[0].user"),
        (
            f'{EMAIL}user = "u"\npassword_env = "P"\nsecurity = "none"',
            DiagnosticCode.INVALID_VALUE,
            "notifications[0].security",
        ),
        (
            EMAIL.replace("b@h", "b"),
            DiagnosticCode.INVALID_VALUE,
            "notifications[0].recipients",
        ),
    ],
)
def test_invalid_notifications_are_diagnosed(
    text: str, code: DiagnosticCode, field: str
) -> None:
    _, found = read(f"{text}\n")

    assert found == [(code, field)]
