"""Settings of a cluster of libvirt hosts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated
from urllib.parse import parse_qsl

from opendrs.config.network_load import NetworkCapacity, capacity_problems
from opendrs.config.platform_kinds import PlatformKind, on_demand
from opendrs.errors import InvalidSettingError
from opendrs.model import RATE, Seconds

MIB = 1 << 20
MAX_DURATION = 86_400  # seconds
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/\S*")
# Something between the first colon and an @, unless the colon begins a port.
_PASSWORD = re.compile(r"//[^@/?\[]*:(?!\d+(?:[/?]|$)).*@")
_SECRETS = ("pass", "secret", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibvirtSettings:
    """Settings of a cluster of libvirt hosts and of its migrations.

    Attributes:
        nodes: Connection URI of each node, by the name of the node.
        migration_uris: URI of a node as the other nodes reach it, if it differs from
            the connection URI.
        labels: Labels of each node, for node affinity rules.
        bandwidth: Limit of one migration in bytes per second; None for no limit.
            Rounded down to whole MiB, the unit of libvirt.
        auto_converge: Throttle a guest that writes its memory faster than it is sent.
        post_copy: Switch a migration to post-copy after *post_copy_after*: the guest
            continues on the target, which fetches the remaining memory. From then on
            the migration cannot be aborted, and a failure terminates the guest.
        post_copy_after: Seconds of pre-copy before that.
        unsafe: Migrate even if libvirt cannot verify that the disks are shared. A
            disk that is not shared then loses data.
        shared_storage: Paths below which all nodes have the same files.
        sample: Seconds between the two samples that give the CPU usage and the
            network traffic.
        network_capacity: Bytes per second that each node can receive and send in
            total, for the load `network`; None if unknown, and not measured.
        timeout: Seconds in which a host must respond.

    Raises:
        InvalidSettingError: A value is invalid; with all errors.
    """

    nodes: Mapping[str, str]
    migration_uris: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bandwidth: Annotated[int, RATE] | None = None
    auto_converge: bool = True
    post_copy: bool = False
    post_copy_after: Seconds = 60.0
    unsafe: bool = False
    shared_storage: tuple[str, ...] = ()
    sample: Seconds = 1.0
    network_capacity: NetworkCapacity = None
    timeout: Seconds = 15.0

    def __post_init__(self) -> None:
        labels = {node: tuple(words) for node, words in self.labels.items()}
        for name, value in (
            ("nodes", MappingProxyType(dict(self.nodes))),
            ("migration_uris", MappingProxyType(dict(self.migration_uris))),
            ("labels", MappingProxyType(labels)),
            ("shared_storage", tuple(self.shared_storage)),
        ):
            object.__setattr__(self, name, value)
        if problems := tuple(_problems(self)):
            raise InvalidSettingError(*problems)

    def peer_uri(self, node: str) -> str:
        """Return the URI with which other nodes reach *node*."""
        return self.migration_uris.get(node, self.nodes[node])


def _problems(settings: LibvirtSettings) -> Iterator[str]:
    yield from _node_problems(settings)
    yield from _number_problems(settings)
    for path in settings.shared_storage:
        if not path.startswith("/"):
            yield f"shared_storage: expected absolute paths, got {path!r}"


def _node_problems(settings: LibvirtSettings) -> Iterator[str]:
    if not settings.nodes:
        yield "nodes: expected at least one node with its URI, got none"
    first_with: dict[str, str] = {}
    for node, uri in settings.nodes.items():
        if not node:
            yield "nodes: expected a name for each node, got an empty one"
        yield from _uri_problems(f"nodes.{node}", uri)
        if (other := first_with.setdefault(uri, node)) != node:
            yield f"nodes.{node}: same URI as {other}; each node needs its own"
    for node, uri in settings.migration_uris.items():
        yield from _uri_problems(f"migration_uris.{node}", uri)
    for name in ("migration_uris", "labels"):
        for node in sorted(getattr(settings, name).keys() - settings.nodes.keys()):
            yield f"{name}.{node}: unknown node; expected a name in nodes"


def _uri_problems(key: str, uri: str) -> Iterator[str]:
    # The URI itself is never shown: it may contain a password.
    if contains_password(uri):
        yield (
            f"{key}: the URI contains a password, which libvirt ignores; use a key, a "
            "certificate, or auth.conf"
        )
    elif not _URI.fullmatch(uri):
        yield f"{key}: expected a URI such as qemu+ssh://root@host/system"


def contains_password(uri: str) -> bool:
    """Return True if *uri* seems to contain a secret."""
    parameters = parse_qsl(uri.partition("?")[2], keep_blank_values=True)
    return bool(_PASSWORD.search(uri)) or any(
        secret in key.lower() for key, _ in parameters for secret in _SECRETS
    )


def _number_problems(settings: LibvirtSettings) -> Iterator[str]:
    if settings.bandwidth is not None and settings.bandwidth < MIB:
        yield (
            f"bandwidth: expected at least {MIB} bytes/s (the minimum of libvirt), got "
            f"{settings.bandwidth}"
        )
    for name in ("post_copy_after", "sample", "timeout"):
        seconds = getattr(settings, name)
        if not (math.isfinite(seconds) and seconds > 0):
            yield f"{name}: expected more than 0 s, got {seconds}"
        elif seconds > MAX_DURATION:
            yield f"{name}: expected at most {MAX_DURATION} s, got {seconds}"
    yield from capacity_problems(settings.network_capacity)


def _nodes(settings: LibvirtSettings) -> Mapping[str, str]:
    return settings.nodes


KIND = PlatformKind(
    settings_type=LibvirtSettings,
    create=on_demand("opendrs.platforms.libvirt.platform:LibvirtPlatform"),
    nodes=_nodes,
    check=on_demand("opendrs.platforms.libvirt.checks:check_settings"),
    require_library=on_demand("opendrs.platforms.libvirt.client:load_library"),
    check_online=on_demand("opendrs.platforms.libvirt.checks:check_online"),
    ask=on_demand("opendrs.platforms.libvirt.checks:ask"),
)
