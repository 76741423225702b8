"""TLS contexts that trust a certificate authority or one pinned certificate.

A pinned certificate is compared before a request is sent: a context that trusts only
this certificate refuses any other one in the handshake, also one of the same
authority.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
from pathlib import Path

from opendrs.errors import PermissionDeniedError, PlatformUnavailableError
from opendrs.transport.secrets import create_ssl_context


class CertificateChangedError(PermissionDeniedError):
    """Host that presents another certificate than the pinned one."""


def authority_context(subject: str, ca: Path | None) -> ssl.SSLContext:
    """Return a context that trusts *ca*, or the system trust store if it is None.

    Args:
        subject: Part of the configuration that it belongs to, for error messages.
        ca: File with the only trusted certificates.

    Raises:
        ConfigurationError: The file cannot be read or contains no certificate.
    """
    context = create_ssl_context(f"{subject}: ", ca)
    # Platforms issue authorities without critical basic constraints, which Python 3.13
    # would reject.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def pinned_context(
    host: str, port: int, fingerprints: tuple[str, ...], timeout: float
) -> ssl.SSLContext:
    """Return a context that trusts only the certificate that the host presents now.

    Args:
        host: Name or address of the host.
        port: Its port.
        fingerprints: Accepted SHA-256 fingerprints, as hexadecimal digits.
        timeout: Seconds in which the host must respond.

    Raises:
        CertificateChangedError: The certificate has none of *fingerprints*.
        PlatformUnavailableError: The host is unreachable, or does not speak TLS.
    """
    certificate = fetch_certificate(host, port, timeout)
    fingerprint = certificate_fingerprint(certificate)
    if fingerprint not in fingerprints:
        expected = " or ".join(format_fingerprint(each) for each in fingerprints)
        raise CertificateChangedError(
            f"{host}:{port}: certificate has changed: pinned {expected}, got "
            f"{format_fingerprint(fingerprint)}; if it was renewed, compare it with "
            "the one on the host and set fingerprints"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context


def fetch_certificate(host: str, port: int, timeout: float) -> bytes:
    """Return the certificate (DER) that the host presents; nothing is sent to it.

    Raises:
        PlatformUnavailableError: The host is unreachable, or does not speak TLS.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout) as plain,
            context.wrap_socket(plain, server_hostname=host) as connection,
        ):
            return connection.getpeercert(binary_form=True) or b""
    except OSError as error:
        raise PlatformUnavailableError(
            f"{host}:{port} unreachable: {error or type(error).__name__}"
        ) from None


def certificate_fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 fingerprint of a DER certificate, as hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest().upper()


def format_fingerprint(fingerprint: str) -> str:
    """Return *fingerprint* as pairs of digits between colons."""
    return ":".join(fingerprint[i : i + 2] for i in range(0, len(fingerprint), 2))
