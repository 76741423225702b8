"""Checks of the settings of a cluster, and the questions of `connect`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from opendrs.config.diagnostics import Diagnostic, DiagnosticCode, KeyPath
from opendrs.config.platform_kinds import Questioner
from opendrs.config.plausibility import check_bandwidth
from opendrs.errors import (
    ConfigurationError,
    InvalidSettingError,
    PlatformUnavailableError,
)
from opendrs.platforms.proxmox.login import read_login
from opendrs.platforms.proxmox.settings import ProxmoxSettings, split_host
from opendrs.transport.certificates import (
    authority_context,
    certificate_fingerprint,
    fetch_certificate,
    format_fingerprint,
)

_CONNECT_TIMEOUT = 10.0  # seconds


def ask(questioner: Questioner) -> dict[str, object]:
    """Return the table of a cluster from the answers of the operator.

    Raises:
        InvalidSettingError: There is no host.
        PlatformUnavailableError: The certificate of a host cannot be read.
    """
    answer = questioner.text("API hosts, HOST or HOST:PORT, separated by commas")
    hosts = [host for each in answer.split(",") if (host := each.strip())]
    if not hosts:
        raise InvalidSettingError("hosts: expected at least one host, got none")
    table: dict[str, object] = {"hosts": hosts}
    fingerprints = [_host_fingerprint(host) for host in hosts]
    shown = ", ".join(
        f"{host} {fingerprint}"
        for host, fingerprint in zip(hosts, fingerprints, strict=True)
    )
    prompt = f"Fingerprints: {shown}. Does pvenode cert info show the same?"
    if questioner.confirm(prompt):
        table["fingerprints"] = fingerprints
    elif ca := questioner.text("File with the certificate authority, such as ca.pem"):
        table["ca"] = ca
    token = questioner.secret("token", "API token, USER@REALM!ID=SECRET")
    table["token_file"] = str(token)
    if questioner.confirm("May containers be stopped and started to migrate them?"):
        table["restart_containers"] = True
    return table


def check_settings(at: KeyPath, settings: ProxmoxSettings) -> Iterator[Diagnostic]:
    """Yield the secrets and certificates that cannot be read, and odd values."""
    if settings.bandwidth is not None:
        yield from check_bandwidth((*at, "bandwidth"), settings.bandwidth)
    subject = str(at[-1])
    for read in (
        partial(read_login, subject, settings),
        partial(authority_context, subject, settings.ca),
    ):
        try:
            read()
        except ConfigurationError as error:
            for message in error.messages:
                problem = message.removeprefix(f"{subject}: ")
                yield Diagnostic(at, problem, code=DiagnosticCode.UNUSABLE_FILE)


def _host_fingerprint(host: str) -> str:
    name, port = split_host(host)
    certificate = fetch_certificate(name, port, _CONNECT_TIMEOUT)
    if not certificate:
        raise PlatformUnavailableError(f"{host}: presents no certificate")
    return format_fingerprint(certificate_fingerprint(certificate))
