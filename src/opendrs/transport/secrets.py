"""Secrets and certificates that the operator names in the configuration."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from opendrs.config.regular_files import MAX_SECRET_SIZE, read_regular, require_regular
from opendrs.errors import ConfigurationError, DiagnosticCode


def read_secret(
    subject: str, setting: str, *, file: Path | None, variable: str | None
) -> str:
    """Return a secret from a file, or from an environment variable.

    Args:
        subject: Part of the configuration that it belongs to, for error messages.
        setting: Name of the setting without suffix: `password` for `password_file` and
            `password_env`.
        file: File with the secret. If it does not exist, the credential of the systemd
            unit with the name of the file is used.
        variable: Environment variable with the secret; takes precedence.

    Raises:
        ConfigurationError: The secret is missing, empty or not text.

    Source:
        systemd.exec(5), `LoadCredential=` and `CREDENTIALS_DIRECTORY`.
    """
    if variable is not None:
        return _from_environment(f"{subject}: {setting}_env", variable)
    if file is None:
        raise ConfigurationError(
            f"{subject}: expected {setting}_file or {setting}_env, found neither",
            code=DiagnosticCode.MISSING_KEY,
        )
    location = f"{subject}: {setting}_file: {file}"
    try:
        text = read_regular(credential_path(file), MAX_SECRET_SIZE).decode()
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "not text"
        raise ConfigurationError(
            f"{location}: {problem}", code=DiagnosticCode.UNUSABLE_FILE
        ) from None
    if not text.rstrip("\r\n"):
        raise ConfigurationError(
            f"{location} is empty", code=DiagnosticCode.MISSING_KEY
        )
    return text.rstrip("\r\n")


def create_ssl_context(subject: str, ca: Path | None) -> ssl.SSLContext:
    """Return the context that trusts *ca* alone, or the system trust store.

    Args:
        subject: Part of the configuration that it belongs to, for error messages.
        ca: File with the only trusted certificates; None for the system trust store.

    Raises:
        ConfigurationError: The file cannot be read, or has no certificates.
    """
    try:
        if ca is not None:
            require_regular(ca)
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # SSLError is a subclass
        problem = (
            "no certificates" if isinstance(error, ssl.SSLError) else error.strerror
        )
        raise ConfigurationError(
            f"{subject}: ca: {ca}: {problem}", code=DiagnosticCode.UNUSABLE_FILE
        ) from None


def _from_environment(location: str, variable: str) -> str:
    secret = os.environ.get(variable)
    if not secret:
        raise ConfigurationError(
            f"{location}: the environment variable {variable} is not set",
            code=DiagnosticCode.MISSING_KEY,
        )
    if any("\ud800" <= character <= "\udfff" for character in secret):
        raise ConfigurationError(
            f"{location}: the environment variable {variable} is not text"
        )
    return secret


def credential_path(file: Path) -> Path:
    """Return *file*, or the systemd credential of its name if it does not exist."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    if directory and not file.exists():
        credential = Path(directory) / file.name
        return credential if credential.exists() else file
    return file
