"""Settings for the observation of a controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendrs.cli.platforms import PLATFORMS
from opendrs.config import DiagnosticCode, path_text
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
