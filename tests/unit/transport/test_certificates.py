"""TLS contexts of an authority and of pinned certificates, in real handshakes."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx2
import pytest

from opendrs.errors import ConfigurationError, PlatformUnavailableError
from opendrs.transport.certificates import (
    CertificateChangedError,
    authority_context,
    certificate_fingerprint,
    fetch_certificate,
    format_fingerprint,
    pinned_context,
)
from support.https_server import Answer, Certificate, HttpsServer, https_server

OK = Answer(200, "OK", b"{}")


def pins(certificate: Certificate) -> tuple[str, ...]:
    return (certificate.fingerprint.replace(":", ""),)


def status(server: HttpsServer, context: ssl.SSLContext) -> int:
    with httpx2.Client(verify=context, trust_env=False, timeout=60) as client:
        return client.get(f"https://{server.host}/").status_code


def test_fetched_certificate_has_the_fingerprint_of_the_server() -> None:
    certificate = Certificate()
    with https_server(lambda _: OK, certificate) as server:
        found = fetch_certificate("127.0.0.1", server.port, 60)

    assert format_fingerprint(certificate_fingerprint(found)) == certificate.fingerprint
    assert server.requests == []


def test_pinned_context_accepts_the_pinned_certificate() -> None:
    certificate = Certificate()
    with https_server(lambda _: OK, certificate) as server:
        context = pinned_context("127.0.0.1", server.port, pins(certificate), 60)

        assert status(server, context) == 200


def test_pinned_context_rejects_another_certificate_before_a_request() -> None:
    certificate = Certificate()
    with https_server(lambda _: OK, certificate) as server:
        with pytest.raises(CertificateChangedError) as caught:
            pinned_context("127.0.0.1", server.port, ("0" * 64,), 60)

        assert certificate.fingerprint in str(caught.value)
        assert format_fingerprint("0" * 64) in str(caught.value)
        assert server.requests == []


def test_pinned_context_rejects_another_certificate_of_the_same_authority() -> None:
    certificate = Certificate()
    sibling = Certificate(authority=certificate.authority)
    with https_server(lambda _: OK, certificate) as server:
        context = pinned_context("127.0.0.1", server.port, pins(certificate), 60)
        server.present(sibling)

        with pytest.raises(httpx2.ConnectError):
            status(server, context)

        assert server.requests == []


def test_pinned_context_without_server_is_unavailable() -> None:
    with https_server(lambda _: OK, Certificate()) as server:
        port = server.port

    with pytest.raises(PlatformUnavailableError):
        pinned_context("127.0.0.1", port, ("0" * 64,), 1)


def test_authority_context_trusts_its_certificates_alone(tmp_path: Path) -> None:
    certificate = Certificate()
    context = authority_context("x", certificate.write_authority(tmp_path / "ca.pem"))
    with https_server(lambda _: OK, certificate) as server:
        assert status(server, context) == 200
    with (
        https_server(lambda _: OK, Certificate()) as other,
        pytest.raises(httpx2.ConnectError),
    ):
        status(other, context)


def test_authority_context_of_a_file_without_certificates_is_an_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("nothing")

    with pytest.raises(ConfigurationError):
        authority_context("x", path)
