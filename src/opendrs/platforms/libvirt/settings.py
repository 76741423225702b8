"""What an operator says about a cluster of libvirt hosts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated
from urllib.parse import parse_qsl

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
    """A cluster of libvirt hosts, and how guests move in it.

    Attributes:
        nodes: Connection URI of each node, by the name it has in opendrs.
        migration_uris: URI of a node as the other nodes reach it; the
            connection URI where none is given.
        labels: What the operator says about each node.
        bandwidth: Bytes a second one migration may use; None for no limit.
            libvirt counts in MiB, so it is rounded down to whole ones.
        auto_converge: Whether a guest that writes its memory faster than it is
            sent is slowed down.
        post_copy: Whether a guest that still copies after *post_copy_after*
            goes on at the target, which then fetches the rest. From there on
            the migration cannot be given up, and a fault ends the guest.
        post_copy_after: Seconds of copying before that.
        unsafe: Whether to migrate where libvirt cannot see that the disks are
            shared. A disk that is not shared then loses data.
        shared_storage: Paths below which all nodes see the same files.
        sample: Seconds between the two readings that give processor use.
        timeout: Seconds in which a host must answer.

    Raises:
        InvalidSettingError: Something above cannot be; with all complaints.
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
        """Return the URI under which other nodes reach *node*."""
        return self.migration_uris.get(node, self.nodes[node])


def _problems(settings: LibvirtSettings) -> Iterator[str]:
    yield from _node_problems(settings)
    yield from _number_problems(settings)
    for path in settings.shared_storage:
        if not path.startswith("/"):
            yield f"shared_storage: {path!r} is not an absolute path"


def _node_problems(settings: LibvirtSettings) -> Iterator[str]:
    if not settings.nodes:
        yield "nodes: name at least one node and its URI"
    first_with: dict[str, str] = {}
    for node, uri in settings.nodes.items():
        if not node:
            yield "nodes: a node has an empty name"
        yield from _uri_problems(f"nodes.{node}", uri)
        if (other := first_with.setdefault(uri, node)) != node:
            yield f"nodes.{node}: is the same URI as that of {other}"
    for node, uri in settings.migration_uris.items():
        yield from _uri_problems(f"migration_uris.{node}", uri)
    for name in ("migration_uris", "labels"):
        for node in sorted(getattr(settings, name).keys() - settings.nodes.keys()):
            yield f"{name}.{node}: nodes has no such name"


def _uri_problems(key: str, uri: str) -> Iterator[str]:
    # The URI itself is never shown: it may hold a password.
    if contains_password(uri):
        yield (
            f"{key}: the URI holds a password, which libvirt does not use; "
            "give it a key, a certificate, or a file auth.conf"
        )
    elif not _URI.fullmatch(uri):
        yield f"{key}: is not a URI such as qemu+ssh://root@host/system"


def contains_password(uri: str) -> bool:
    """Return whether *uri* seems to hold a secret."""
    parameters = parse_qsl(uri.partition("?")[2], keep_blank_values=True)
    return bool(_PASSWORD.search(uri)) or any(
        secret in key.lower() for key, _ in parameters for secret in _SECRETS
    )


def _number_problems(settings: LibvirtSettings) -> Iterator[str]:
    if settings.bandwidth is not None and settings.bandwidth < MIB:
        yield (
            f"bandwidth: must be at least {MIB} bytes a second, the least that "
            f"libvirt can keep to, not {settings.bandwidth}"
        )
    for name in ("post_copy_after", "sample", "timeout"):
        seconds = getattr(settings, name)
        if not (math.isfinite(seconds) and seconds > 0):
            yield f"{name}: must be more than 0 seconds, not {seconds}"
        elif seconds > MAX_DURATION:
            yield f"{name}: must be at most {MAX_DURATION} seconds, not {seconds}"
