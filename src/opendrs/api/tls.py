"""TLS context of the API, and validation of its credentials."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from opendrs.api.tokens import read_tokens
from opendrs.config import display_path, run_checks
from opendrs.config.regular_files import require_regular
from opendrs.config.settings import ApiSettings
from opendrs.errors import ConfigurationError, DiagnosticCode


def tls_context(settings: ApiSettings) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or newer with the certificate of the controller.

    Raises:
        ConfigurationError: Certificate or key cannot be used.
    """
    return credentials_context("api", settings.certificate, settings.key)


def credentials_context(table: str, certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or newer.

    Args:
        table: Table of the configuration, for error messages.
        certificate: File with the certificate.
        key: File with the private key.

    Raises:
        ConfigurationError: Certificate or key cannot be used.
    """
    unreadable = [
        *_unreadable_file(f"{table}.certificate", certificate),
        *_unreadable_file(f"{table}.key", key),
    ]
    if unreadable:
        raise ConfigurationError(*unreadable, code=DiagnosticCode.UNUSABLE_FILE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, partial(_reject_password, table))
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{table}.certificate, {table}.key: cannot use "
            f"{display_path(certificate)} and {display_path(key)}: "
            f"{_tls_error_detail(error)}",
            code=DiagnosticCode.UNUSABLE_FILE,
        ) from error
    return context


def _unreadable_file(name: str, path: Path) -> Iterator[str]:
    try:
        require_regular(path)
    except (OSError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else error
        yield f"{name}: cannot read {display_path(path)}: {detail}"


def _reject_password(table: str) -> str:
    raise ConfigurationError(
        f"{table}.key: the key is protected by a password; remove the password",
        code=DiagnosticCode.UNUSABLE_FILE,
    )


def _tls_error_detail(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    return "expected a certificate and its private key in PEM"


def check_credentials(settings: ApiSettings) -> None:
    """Check the files with certificate, key and tokens.

    Raises:
        ConfigurationError: A file cannot be used; with all problems.
    """
    run_checks(partial(read_tokens, settings.tokens), partial(tls_context, settings))
