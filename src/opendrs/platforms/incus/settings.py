"""Settings of an Incus cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from opendrs.config.network_load import NetworkCapacity, capacity_problems
from opendrs.config.platform_kinds import PlatformKind, on_demand
from opendrs.errors import InvalidSettingError
from opendrs.model import Seconds

DEFAULT_SOCKET = Path("/var/lib/incus/unix.socket")
DEFAULT_PORT = 8443
_MAX_DURATION = 86_400  # seconds
_MAX_REQUESTS = 64
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_PROJECT = re.compile(r"[^\s/?#&'\"*_]+")
_EXPECTED_URL = "expected a URL such as https://10.0.0.1:8443"


class RebalancerState(StrEnum):
    """State of the rebalancer of Incus (`cluster.rebalance.interval` above 0 is on)."""

    AUTO = "auto"
    """Read from the server; a restricted certificate cannot read it."""
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncusSettings:
    """Settings of an Incus cluster.

    The cluster is reached through the unix socket of one member, or by HTTPS with a
    client certificate.

    Attributes:
        socket: Unix socket of a member on this machine.
        urls: URLs of members. The first that responds is used; the others are tried
            when it does not.
        certificate: File with the client certificate (PEM).
        key: File with its key (PEM). Of a file that does not exist, the credential of
            the systemd unit with its name is used.
        server_certificate: File with the certificate of the cluster (PEM), the only
            one that is trusted.
        fingerprint: SHA-256 fingerprint of that certificate, instead of the file.
        projects: Projects whose instances are managed; all that are visible if empty.
        rebalancer: State of the rebalancer of Incus: on, off, or auto to read it from
            the server. While it is on, it owns the virtual machines it can move.
        sample: Seconds between the two measurements of the CPU use and the network
            traffic of instances in the first observation; 0 to measure them from the
            second observation on. Incus measures at most every 8 s.
        network_capacity: Bytes per second that each node can receive and send in
            total, for the load `network`; None if unknown, and not measured.
        timeout: Seconds in which a request must be answered.
        max_requests: Most requests at the same time.

    Raises:
        InvalidSettingError: A value is invalid; with all errors.
    """

    replaced: ClassVar[Mapping[str, str]] = {
        "local_disks": "limits.migrate_local_disks"
    }

    socket: Path | None = None
    urls: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    server_certificate: Path | None = None
    fingerprint: str | None = None
    projects: tuple[str, ...] = ()
    rebalancer: RebalancerState = RebalancerState.AUTO
    sample: Seconds = 0.0
    network_capacity: NetworkCapacity = None
    timeout: Seconds = 10.0
    max_requests: int = 8

    def __post_init__(self) -> None:
        urls = tuple(url.rstrip("/") for url in self.urls)
        object.__setattr__(self, "urls", urls)
        object.__setattr__(self, "projects", tuple(self.projects))
        if self.fingerprint is not None:
            plain = self.fingerprint.replace(":", "").strip().lower()
            object.__setattr__(self, "fingerprint", plain)
        if problems := tuple(_problems(self)):
            raise InvalidSettingError(*problems)

    def manages(self, project: str) -> bool:
        """Return True if instances of *project* are managed."""
        return not self.projects or project in self.projects


def _problems(settings: IncusSettings) -> Iterator[str]:
    yield from _connection_problems(settings)
    for project in settings.projects:
        if not _PROJECT.fullmatch(project):
            yield f"projects: expected names of projects, got {project!r}"
    if not math.isfinite(settings.timeout) or not (
        0 < settings.timeout <= _MAX_DURATION
    ):
        yield (
            f"timeout: expected more than 0 and at most {_MAX_DURATION} s, got "
            f"{settings.timeout}"
        )
    if not math.isfinite(settings.sample) or not 0 <= settings.sample <= _MAX_DURATION:
        yield (
            f"sample: expected at least 0 and at most {_MAX_DURATION} s, got "
            f"{settings.sample}"
        )
    yield from capacity_problems(settings.network_capacity)
    if not 1 <= settings.max_requests <= _MAX_REQUESTS:
        yield (
            f"max_requests: expected 1 to {_MAX_REQUESTS}, got {settings.max_requests}"
        )


def _connection_problems(settings: IncusSettings) -> Iterator[str]:
    if (settings.socket is None) == (not settings.urls):
        yield "socket, urls: expected exactly one of both"
    needed = {"certificate": settings.certificate, "key": settings.key}
    pins = (settings.server_certificate, settings.fingerprint)
    if settings.urls:
        for url in settings.urls:
            yield from _url_problems(url)
        for name, value in needed.items():
            if value is None:
                yield f"{name}: expected a file, which urls require"
        if pins.count(None) != 1:
            yield "server_certificate, fingerprint: expected exactly one of both"
    elif any((*needed.values(), *pins)):
        yield (
            "certificate, key, server_certificate, fingerprint: expected with urls, "
            "not with socket"
        )
    if settings.fingerprint is not None and not _FINGERPRINT.fullmatch(
        settings.fingerprint
    ):
        yield (
            "fingerprint: expected the 64 hexadecimal digits that incus info shows as "
            "certificate_fingerprint"
        )


def _url_problems(text: str) -> Iterator[str]:
    # A URL with a user may contain a password, so it is never shown.
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # invalid brackets or port
        yield f"urls: {_EXPECTED_URL}"
        return
    if url.username is not None or url.password is not None:
        yield "urls: contains a user or a password; use certificate and key"
    elif (
        url.scheme != "https"
        or not url.hostname
        or port == 0
        or url.path
        or url.query
        or url.fragment
        or not text.isprintable()
        or " " in text
    ):
        yield f"urls: {_EXPECTED_URL}, got {text!r}"


KIND = PlatformKind(
    settings_type=IncusSettings,
    create=on_demand("opendrs.platforms.incus.platform:IncusPlatform"),
    check_online=on_demand("opendrs.platforms.incus.setup:check_online"),
    check_snapshot=on_demand("opendrs.platforms.incus.setup:check_snapshot"),
    ask=on_demand("opendrs.platforms.incus.setup:ask"),
    copies_local_disks=True,
)
