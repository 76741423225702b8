"""The table [web.oidc]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opendrs.cli.platforms import PLATFORMS
from opendrs.config.oidc_settings import OidcSettings
from opendrs.config.settings_reading import read_settings
from opendrs.errors import ConfigurationError, DiagnosticCode, InvalidSettingError

VALID: dict[str, Any] = {
    "issuer": "https://login.example.com/realms/ops",
    "client_id": "opendrs",
    "address": "https://drs.example.com:8470",
    "client_secret_env": "OIDC_SECRET",
    "viewer": ("staff",),
}
TABLE = """\
[web.oidc]
issuer = "https://login.example.com"
client_id = "opendrs"
client_secret_file = "secret"
address = "https://drs.example.com"
admin = ["vm-admins"]
"""


def test_defaults() -> None:
    settings = OidcSettings(**VALID)

    assert settings.redirect_uri == "https://drs.example.com:8470/sign-in"
    assert settings.label == "login.example.com"
    assert settings.scopes == ("openid", "profile")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("issuer", "http://login.example.com"),
        ("issuer", "https://login.example.com?x=1"),
        ("issuer", "https://user:pass@login.example.com"),
        ("issuer", "login.example.com"),
        ("issuer", "https://login.example.com:port"),
        ("address", "http://drs.example.com"),
        ("address", "https://drs.example.com/dashboard"),
        ("address", "https://drs.example.com/"),
        ("client_id", " "),
        ("role_claim", ""),
        ("user_claim", "a\nb"),
        ("name", ""),
        ("scopes", ("profile",)),
        ("scopes", ("openid", "two words")),
        ("operator", ("",)),
        ("timeout", 0.0),
        ("timeout", 31.0),
    ],
)
def test_invalid_value_is_reported(setting: str, value: object) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        OidcSettings(**{**VALID, setting: value})

    (message,) = caught.value.messages
    assert message.startswith(f"{setting}: expected ")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_loopback_needs_no_tls(host: str) -> None:
    address = f"http://{host}:8470"
    assert OidcSettings(**{**VALID, "issuer": address, "address": address})


def test_all_problems_are_reported() -> None:
    with pytest.raises(InvalidSettingError) as caught:
        OidcSettings(
            issuer="x", client_id="opendrs", address="y", client_secret_env=None
        )

    starts = [message.split(":")[0] for message in caught.value.messages]
    assert starts == ["issuer", "address", "client_secret_file", "viewer"]
    assert caught.value.codes[2:] == (
        DiagnosticCode.MISSING_KEY,
        DiagnosticCode.MISSING_KEY,
    )


def test_one_source_of_the_secret_is_expected() -> None:
    with pytest.raises(InvalidSettingError) as caught:
        OidcSettings(**VALID, client_secret_file=Path("secret"))

    assert list(caught.value.codes) == [DiagnosticCode.INCONSISTENT]


def test_table_is_read_with_paths_beside_it(tmp_path: Path) -> None:
    config = tmp_path / "opendrs.toml"
    config.write_text(f'[web]\nsession_time = "1h"\n{TABLE}')

    web = read_settings(config, PLATFORMS).web

    assert web.session_time == 3600
    assert web.oidc is not None
    assert web.oidc.client_secret_file == tmp_path / "secret"
    assert (web.oidc.viewer, web.oidc.admin) == ((), ("vm-admins",))


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ('issuer = "http://example.com"', "web.oidc.issuer"),
        ('client_secret = "hunter2"', "web.oidc.client_secret"),
        ("admin = 17", "web.oidc.admin"),
    ],
)
def test_error_names_the_setting_and_no_secret(
    tmp_path: Path, line: str, path: str
) -> None:
    name = line.partition(" ")[0]
    kept = [each for each in TABLE.splitlines() if not each.startswith(f"{name} ")]
    config = tmp_path / "opendrs.toml"
    config.write_text("\n".join([*kept, line]))

    with pytest.raises(ConfigurationError) as caught:
        read_settings(config, PLATFORMS)

    assert f"{path}:" in str(caught.value)
    assert "hunter2" not in str(caught.value)
