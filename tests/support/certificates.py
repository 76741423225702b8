"""Certificates and tokens for tests, and an interface that agents can reach."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx2
import trustme

from opendrs.api.tokens import hash_token
from opendrs.config.settings import ApiSettings

NODES = ("h1", "h2", "h3")


def node_token(node: str) -> str:
    """Return the token of *node*."""
    return f"the-token-of-{node}"


@dataclass(frozen=True)
class CertificateFiles:
    """Files with certificate, key and tokens, and their clients.

    Args:
        directory: The directory they are in.
    """

    directory: Path

    def __post_init__(self) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        authority.cert_pem.write_to_path(self.ca)
        issued.private_key_pem.write_to_path(self.settings.key)
        for blob in issued.cert_chain_pems:
            blob.write_to_path(self.settings.certificate, append=True)
        lines = [f'{node} = "{hash_token(node_token(node))}"\n' for node in NODES]
        self.settings.tokens.write_text("".join(lines))
        for secret in (self.settings.key, self.settings.tokens):
            secret.chmod(0o600)  # or each start would warn of it

    @property
    def ca(self) -> Path:
        """Return the certificate that signed the one of the controller."""
        return self.directory / "ca.pem"

    @property
    def settings(self) -> ApiSettings:
        """Return the settings of an interface on any free port."""
        return ApiSettings(
            certificate=self.directory / "controller.pem",
            key=self.directory / "controller.key",
            tokens=self.directory / "tokens.toml",
            listen="127.0.0.1:0",
        )

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the certificate authority."""
        return ssl.create_default_context(cafile=str(self.ca))

    def client(
        self, port: int, token: str | None = None, source: str = "127.0.0.1"
    ) -> httpx2.Client:
        """Return a client at the address *source*; it sends *token* if there is one."""
        return httpx2.Client(
            base_url=f"https://127.0.0.1:{port}",
            transport=httpx2.HTTPTransport(
                verify=self.ssl_context, local_address=source
            ),
            timeout=120,  # on a busy machine
            headers={"Authorization": f"Bearer {token}"} if token else {},
        )
