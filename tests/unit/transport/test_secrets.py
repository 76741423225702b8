"""Secrets from files, environment variables and systemd credentials."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import keyring
import keyring.errors
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null

from opendrs.config.secret_sources import source_names, source_problems
from opendrs.errors import ConfigurationError, DiagnosticCode, InvalidSettingError
from opendrs.platforms.proxmox.settings import ProxmoxSettings
from opendrs.transport.secrets import (
    create_ssl_context,
    read_located_secret,
    read_secret,
)
from support.errors import has_code


def secret(
    file: Path | None = None, variable: str | None = None, entry: str | None = None
) -> str:
    return read_secret(
        "platform pve: ", "token", file=file, variable=variable, entry=entry
    )


class FileBackend(KeyringBackend):
    """Backend of keyring with the entries in a JSON file."""

    priority = -1.0  # never the default
    path: Path

    def get_password(self, service: str, username: str) -> str | None:
        """Return the secret of an entry; None if there is none."""
        if not self.path.exists():
            return None
        entries: dict[str, str] = json.loads(self.path.read_text(encoding="utf-8"))
        return entries.get(json.dumps([service, username]))

    def set_password(self, service: str, username: str, password: str) -> None:
        """Add an entry."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else "{}"
        entries = {**json.loads(text), json.dumps([service, username]): password}
        self.path.write_text(json.dumps(entries), encoding="utf-8")

    def delete_password(self, service: str, username: str) -> None:
        """Reject the request: no test deletes an entry."""
        raise keyring.errors.PasswordDeleteError(f"{service}/{username}")


@pytest.fixture
def use_keyring() -> Iterator[Callable[[KeyringBackend], None]]:
    """Return the function that selects a backend until the end of the test."""
    before = keyring.get_keyring()
    yield keyring.set_keyring
    keyring.set_keyring(before)


def test_secret_is_read_from_keyring(
    tmp_path: Path, use_keyring: Callable[[KeyringBackend], None]
) -> None:
    backend = FileBackend()  # type: ignore[no-untyped-call]
    backend.path = tmp_path / "entries.json"
    use_keyring(backend)
    keyring.set_password("https://pve1:8006/api", "drs", "from-keyring")

    found = secret(tmp_path / "missing", entry="https://pve1:8006/api/drs")

    assert found == "from-keyring"


@pytest.mark.parametrize(
    ("backend", "code", "detail"),
    [
        (null.Keyring, DiagnosticCode.MISSING_KEY, r"keyring set 'open drs' lab"),
        (fail.Keyring, DiagnosticCode.UNUSABLE_FILE, "cannot read the keyring"),
    ],
)
def test_unusable_keyring_raises_error(
    use_keyring: Callable[[KeyringBackend], None],
    backend: type[KeyringBackend],
    code: DiagnosticCode,
    detail: str,
) -> None:
    use_keyring(backend())

    with pytest.raises(
        ConfigurationError,
        match=f"platform pve: token_keyring: open drs/lab: .*{detail}",
        check=has_code(code),
    ):
        secret(entry="open drs/lab")


def test_secret_in_the_configuration_itself_is_used() -> None:
    settings = ProxmoxSettings(hosts=("pve1",), token="drs@pve!a=inline")  # noqa: S106

    assert read_located_secret("", "token", settings) == "drs@pve!a=inline"
    assert "inline" not in repr(settings)


def test_secret_in_the_configuration_and_elsewhere_is_rejected() -> None:
    with pytest.raises(InvalidSettingError, match="got token_env and token") as raised:
        ProxmoxSettings(hosts=("pve1",), token="hunter2", token_env="TOKEN")  # noqa: S106

    assert "hunter2" not in str(raised.value)


def test_missing_keyring_library_is_reported_with_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(
        ConfigurationError,
        match=r"pip install '\.\[keyring\]'",
        check=has_code(DiagnosticCode.UNUSABLE_LIBRARY),
    ):
        secret(entry="opendrs/lab")


def test_keyring_is_imported_only_when_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc", encoding="utf-8")
    program = (
        "import sys; from pathlib import Path; "
        "from opendrs.transport.secrets import read_secret; "
        "read_secret('x', 'token', file=Path(sys.argv[1])); "
        "print('keyring' in sys.modules)"
    )

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, str(tmp_path / "token")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ({"token_file": "t"}, None),
        ({"token_keyring": "opendrs/lab"}, None),
        ({}, None),
        ({"token_file": "t", "token_keyring": "opendrs/lab"}, "token_keyring"),
        ({"token_keyring": "opendrs"}, "token_keyring"),
        ({"token_keyring": "opendrs/"}, "token_keyring"),
        ({"token_keyring": "/lab"}, "token_keyring"),
    ],
)
def test_invalid_sources_of_a_secret_are_reported(
    names: dict[str, str], problem: str | None
) -> None:
    sources = (*source_names("token"), "token")
    settings = SimpleNamespace(**{**dict.fromkeys(sources), **names})

    problems = list(source_problems(settings, "token"))

    assert [each.partition(":")[0] for each in problems] == (
        [] if problem is None else [problem]
    )


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
    with pytest.raises(
        ConfigurationError,
        match="token_file, token_env, token_keyring",
        check=has_code(DiagnosticCode.MISSING_KEY),
    ):
        secret()


def test_ca_without_certificates_raises_error(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("no certificate", encoding="utf-8")

    with pytest.raises(ConfigurationError, match=f"platform pve: ca: {path}"):
        create_ssl_context("platform pve: ", path)
