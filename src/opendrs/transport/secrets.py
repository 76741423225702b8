"""Secrets and certificates that the operator names in the configuration."""

from __future__ import annotations

import os
import shlex
import ssl
from importlib import import_module
from pathlib import Path

from opendrs.config.regular_files import MAX_SECRET_SIZE, read_regular, require_regular
from opendrs.config.secret_sources import source_names, split_keyring_entry
from opendrs.errors import ConfigurationError, DiagnosticCode


def read_secret(
    prefix: str,
    setting: str,
    *,
    file: Path | None,
    variable: str | None = None,
    entry: str | None = None,
) -> str:
    """Return a secret from a file, an environment variable or the keyring.

    Args:
        prefix: Part of the configuration that it belongs to, at the start of error
            messages: `agent.` or `platform lab: `.
        setting: Name of the setting without suffix: `password` for `password_file`,
            `password_env` and `password_keyring`.
        file: File with the secret. If it does not exist, the credential of the systemd
            unit with the name of the file is used.
        variable: Environment variable with the secret; takes precedence.
        entry: Entry `SERVICE/USER` of the keyring; takes precedence over the file.

    Raises:
        ConfigurationError: The secret is missing, empty or not text, or the library
            keyring is not installed.

    Source:
        systemd.exec(5), `LoadCredential=` and `CREDENTIALS_DIRECTORY`.
    """
    if variable is not None:
        return _from_environment(f"{prefix}{setting}_env", variable)
    if entry is not None:
        return _from_keyring(f"{prefix}{setting}_keyring: {entry}", entry)
    if file is None:
        raise ConfigurationError(
            f"{prefix}{setting}_file: expected one of "
            f"{', '.join(source_names(setting))}, got none",
            code=DiagnosticCode.MISSING_KEY,
        )
    location = f"{prefix}{setting}_file: {file}"
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


def create_ssl_context(prefix: str, ca: Path | None) -> ssl.SSLContext:
    """Return the context that trusts *ca* alone, or the system trust store.

    Args:
        prefix: As of `read_secret`.
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
            f"{prefix}ca: {ca}: {problem}", code=DiagnosticCode.UNUSABLE_FILE
        ) from None


def read_located_secret(prefix: str, setting: str, settings: object) -> str:
    """Return the secret that the settings `{setting}_file` etc. of *settings* locate.

    A secret in the configuration itself is accepted; `check` and `run` warn about it.

    Raises:
        ConfigurationError: As `read_secret`.
    """
    inline: str | None = getattr(settings, setting)
    if inline is not None:
        return inline
    file, variable, entry = (getattr(settings, name) for name in source_names(setting))
    return read_secret(prefix, setting, file=file, variable=variable, entry=entry)


def is_one_word(secret: str) -> bool:
    """Return True if *secret* is plain text without spaces, as a header needs it.

    The library of requests would include any other one in its error.
    """
    return secret.isascii() and secret.isprintable() and " " not in secret


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


def _from_keyring(location: str, entry: str) -> str:
    try:
        keyring = import_module("keyring")
    except ImportError:
        raise ConfigurationError(
            f"{location}: keyring is not installed; run pip install '.[keyring]' in a "
            "checkout of opendrs",
            code=DiagnosticCode.UNUSABLE_LIBRARY,
        ) from None
    service, user = split_keyring_entry(entry)
    try:
        secret: str | None = keyring.get_password(service, user)
    except Exception as error:  # noqa: BLE001 - backends have errors of their own
        problem = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigurationError(
            f"{location}: cannot read the keyring: {problem}",
            code=DiagnosticCode.UNUSABLE_FILE,
        ) from None
    if not secret:
        command = shlex.join(["keyring", "set", service, user])
        raise ConfigurationError(
            f"{location}: no such entry in the keyring; add it with: {command}",
            code=DiagnosticCode.MISSING_KEY,
        )
    return secret


def credential_path(file: Path) -> Path:
    """Return *file*, or the systemd credential of its name if it does not exist."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    if directory and not file.exists():
        credential = Path(directory) / file.name
        return credential if credential.exists() else file
    return file
