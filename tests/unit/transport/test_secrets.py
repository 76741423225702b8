"""Secrets from files, environment variables and systemd credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendrs.errors import ConfigurationError
from opendrs.transport.secrets import create_ssl_context, read_secret


def secret(file: Path | None = None, variable: str | None = None) -> str:
    return read_secret("platform pve", "token", file=file, variable=variable)


def test_secret_in_file_has_no_line_break(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("abc=1\n", encoding="utf-8")

    assert secret(path) == "abc=1"


def test_variable_takes_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PVE_TOKEN", "from-variable")

    assert secret(tmp_path / "missing", "PVE_TOKEN") == "from-variable"


def test_missing_file_is_read_from_systemd_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("credential", encoding="utf-8")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))

    assert secret(Path("/etc/opendrs/token")) == "credential"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_unusable_file_raises_error_with_setting_but_not_content(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)

    with pytest.raises(ConfigurationError, match=f"platform pve: token_file: {path}"):
        secret(path)


@pytest.mark.parametrize("value", ["", "\udcff"])
def test_unusable_variable_raises_error(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PVE_TOKEN", value)

    with pytest.raises(ConfigurationError, match=r"token_env: .* PVE_TOKEN"):
        secret(variable="PVE_TOKEN")


def test_neither_file_nor_variable_raises_error() -> None:
    with pytest.raises(ConfigurationError, match="token_file or token_env"):
        secret()


def test_ca_without_certificates_raises_error(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("no certificate", encoding="utf-8")

    with pytest.raises(ConfigurationError, match=f"platform pve: ca: {path}"):
        create_ssl_context("platform pve", path)
