"""TLS context with a client certificate that trusts one pinned server certificate.

All members of a cluster present the same self-signed certificate, whose names are those
of its first member. So the certificate is pinned and names are not compared. A context
that trusts one certificate refuses any other in the handshake, before a request is
sent.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from opendrs.config.regular_files import require_regular
from opendrs.errors import ConfigurationError, DiagnosticCode, PermissionDeniedError
from opendrs.platforms.incus.settings import DEFAULT_PORT, IncusSettings
from opendrs.transport import certificates
from opendrs.transport.secrets import credential_path


def client_context(settings: IncusSettings) -> ssl.SSLContext:
    """Return the context of *settings*; with a fingerprint it is empty.

    Raises:
        ConfigurationError: A file cannot be read, or has no certificate or no key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # Incus offers nothing older
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.server_certificate is not None:
        pinned = credential_path(settings.server_certificate)
        try:
            require_regular(pinned)
            context.load_verify_locations(cafile=pinned)
        except OSError as error:  # SSLError is a subclass
            raise _file_error("server_certificate", pinned, error) from None
    assert settings.certificate is not None  # noqa: S101 - checked by the settings
    assert settings.key is not None  # noqa: S101 - as above
    certificate, key = (
        credential_path(settings.certificate),
        credential_path(settings.key),
    )
    for name, path in (("certificate", certificate), ("key", key)):
        try:
            require_regular(path)
        except OSError as error:
            raise _file_error(name, path, error) from None
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise _file_error("certificate, key", certificate, error) from None
    return context


def trust_fingerprint(
    context: ssl.SSLContext, url: str, fingerprint: str, timeout: float
) -> None:
    """Let *context* trust the certificate of the member at *url*.

    Args:
        context: The context.
        url: The URL of the member.
        fingerprint: The expected SHA-256 fingerprint in hexadecimal digits.
        timeout: Seconds in which the member must respond.

    Raises:
        PermissionDeniedError: The certificate has another fingerprint.
        PlatformUnavailableError: The member is unreachable, or does not speak TLS.
    """
    certificate = fetch_certificate(url, timeout)
    found = certificates.certificate_fingerprint(certificate).lower()
    if found != fingerprint:
        raise PermissionDeniedError(
            f"{url}: another certificate than the pinned one: expected fingerprint "
            f"{fingerprint}, got {found}; if it was renewed, compare it with incus "
            "info on a member and set fingerprint"
        )
    context.load_verify_locations(cadata=certificate)


def fetch_certificate(url: str, timeout: float) -> bytes:
    """Return the certificate (DER) that the member at *url* presents.

    Raises:
        PlatformUnavailableError: The member is unreachable, or does not speak TLS.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    return certificates.fetch_certificate(host, port, timeout)


def _no_password() -> str:
    """Reject a key with a password, for which OpenSSL would ask on the terminal."""
    raise ValueError("expected a key without a password")


def _file_error(name: str, path: Path, error: Exception) -> ConfigurationError:
    if isinstance(error, ssl.SSLError):
        detail = "expected PEM: a certificate, and a key that belongs to it"
    else:
        detail = getattr(error, "strerror", None) or str(error)
    return ConfigurationError(
        f"{name}: {path}: {detail}", code=DiagnosticCode.UNUSABLE_FILE
    )
