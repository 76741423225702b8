"""Settings of a Proxmox VE cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from opendrs.config.network_load import NetworkCapacity, capacity_problems
from opendrs.config.platform_kinds import PlatformKind, on_demand
from opendrs.config.secret_sources import given_sources, source_names, source_problems
from opendrs.errors import InvalidSettingError
from opendrs.model import RATE, Seconds
from opendrs.transport.secrets import is_one_word

DEFAULT_PORT = 8006
KIB = 1 << 10
_MAX_DURATION = 86_400  # seconds
_TOKEN = re.compile(r"[^\s:/@!=]+@[A-Za-z][\w.\-]+![A-Za-z][\w.\-]+=\S+")
_USER = re.compile(r"[^\s:/]+@[A-Za-z][\w.\-]+")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9][A-Za-z0-9.\-]*)(?::(\d{1,5}))?")
_FINGERPRINT = re.compile(r"[0-9A-F]{64}")


class GuestNaming(StrEnum):
    """Origin of the ids of guests."""

    NAME = "name"
    """The name; with the number, `web/101`, if several guests have it."""
    ID = "id"
    """The id of the HA manager, such as `vm:101` and `ct:102`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRule:
    """Placement rule of all guests in a pool of Proxmox VE.

    Attributes:
        kind: Rule of the guests with each other; None if there is none.
        nodes: Nodes on which the guests are placed; empty for all nodes.
        strict_nodes: Whether other nodes are forbidden, or only not preferred.

    Raises:
        InvalidSettingError: There is neither a kind nor a node.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    kind: (
        Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]
        | None
    ) = None
    nodes: tuple[str, ...] = ()
    strict_nodes: bool = True

    def __post_init__(self) -> None:
        if self.kind is None and not self.nodes:
            raise InvalidSettingError("kind: expected kind or nodes, got neither")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxmoxSettings:
    """Settings of a Proxmox VE cluster and of its migrations.

    Attributes:
        hosts: Nodes whose API is used, as `HOST` or `HOST:PORT`; the first that
            responds is used, the others are tried when it does not.
        token_file: File with an API token `USER@REALM!ID=SECRET`. If it does not exist,
            the systemd credential with its name is used.
        token_env: Environment variable with an API token.
        token_keyring: Entry `SERVICE/USER` of the keyring with an API token.
        token: An API token; better in one of the places before.
        user: User `USER@REALM` that logs in with a password, instead of a token.
        password_file: File, or systemd credential, with its password.
        password_env: Environment variable with its password.
        password_keyring: Entry `SERVICE/USER` of the keyring with its password.
        password: Its password; better in one of the places before.
        ca: File with the certificates that signed those of the hosts, such as
            `pve-root-ca.pem`; the system trust store if neither this nor a
            fingerprint is set.
        fingerprints: SHA-256 fingerprints of the certificates of the hosts. Only these
            certificates are trusted, checked before a secret is sent.
        labels: Labels of each node.
        maintenance_nodes: Nodes in maintenance, in addition to those of the HA manager.
        ignored_nodes: Nodes that are neither source nor target: their state is
            excluded, and their guests are pinned.
        pools: Rule of the guests in each pool.
        proxlb_tags: Whether tags of ProxLB, such as `plb_affinity_web`, are rules.
        guest_ids: Whether guests are called by their names or their ids.
        restart_containers: Migrate containers, which stops and starts them.
        container_timeout: Seconds in which a container must stop for its migration.
        target_storage: Storage for copies of local disks on the target; None for the
            one of the same name. Needs the privilege VM.Config.Disk.
        keep_connections: Migrate the connection tracking state of guests, where the
            cluster can.
        bandwidth: Limit of one migration, or move of a disk, in bytes per second; None
            for the limit of the data center.
        load_window: Seconds over which the load of nodes is averaged; 0 for the
            current load.
        network_capacity: Bytes per second that each node can receive and send in
            total, for the load `network`; None if unknown.
        ha_timeout: Seconds in which the HA manager must begin a requested migration.
        timeout: Seconds in which a request must be answered.
        node_timeout: Seconds in which a request about one node must be answered.
        max_requests: Most requests of one observation. Those about single nodes and
            guests are spread over several observations if there are more.

    Raises:
        InvalidSettingError: A value is invalid; with all errors.
    """

    replaced: ClassVar[Mapping[str, str]] = {
        "local_disks": "limits.migrate_local_disks"
    }

    hosts: tuple[str, ...]
    token_file: Path | None = None
    token_env: str | None = None
    token_keyring: str | None = None
    token: str | None = field(default=None, repr=False)
    user: str | None = None
    password_file: Path | None = None
    password_env: str | None = None
    password_keyring: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    fingerprints: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    maintenance_nodes: tuple[str, ...] = ()
    ignored_nodes: tuple[str, ...] = ()
    pools: Mapping[str, PoolRule] = field(default_factory=dict)
    proxlb_tags: bool = False
    guest_ids: GuestNaming = GuestNaming.NAME
    restart_containers: bool = False
    container_timeout: Seconds = 180.0
    target_storage: str | None = None
    keep_connections: bool = False
    bandwidth: Annotated[int, RATE] | None = None
    load_window: Seconds = 300.0
    network_capacity: NetworkCapacity = None
    ha_timeout: Seconds = 90.0
    timeout: Seconds = 15.0
    node_timeout: Seconds = 5.0
    max_requests: int = 60

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(self.hosts))
        labels = {node: tuple(words) for node, words in self.labels.items()}
        object.__setattr__(self, "labels", MappingProxyType(labels))
        object.__setattr__(self, "pools", MappingProxyType(dict(self.pools)))
        prints = tuple(normalize_fingerprint(each) for each in self.fingerprints)
        object.__setattr__(self, "fingerprints", prints)
        if problems := tuple(_problems(self)):
            raise InvalidSettingError(*problems)


def normalize_fingerprint(text: str) -> str:
    """Return a fingerprint as upper-case hexadecimal digits without separators."""
    return re.sub(r"[\s:]", "", text).upper()


def split_host(host: str) -> tuple[str, int]:
    """Return name and port of *host*, an item of the setting hosts."""
    match = _HOST.fullmatch(host)
    if match is None:
        raise InvalidSettingError(f"hosts: expected HOST or HOST:PORT, got {host!r}")
    return match[1].strip("[]"), int(match[2] or DEFAULT_PORT)


def is_token(secret: str) -> bool:
    """Return True if *secret* has the form `USER@REALM!ID=SECRET`."""
    return is_one_word(secret) and _TOKEN.fullmatch(secret) is not None


def _problems(settings: ProxmoxSettings) -> Iterator[str]:
    if not settings.hosts:
        yield "hosts: expected at least one host, got none"
    for host in settings.hosts:
        match = _HOST.fullmatch(host)
        if match is None or not 0 < int(match[2] or DEFAULT_PORT) <= 65_535:
            yield f"hosts: expected HOST or HOST:PORT, got {host!r}"
    yield from _login_problems(settings)
    for fingerprint in settings.fingerprints:
        if not _FINGERPRINT.fullmatch(fingerprint):
            yield (
                "fingerprints: expected 64 hexadecimal digits (SHA-256), got "
                f"{fingerprint!r}"
            )
    if settings.ca is not None and settings.fingerprints:
        yield "fingerprints: expected either ca or fingerprints, got both"
    for name in sorted({*settings.maintenance_nodes} & {*settings.ignored_nodes}):
        yield (
            f"ignored_nodes: expected {name!r} in maintenance_nodes or here, got both"
        )
    yield from _number_problems(settings)


def _login_problems(settings: ProxmoxSettings) -> Iterator[str]:
    for setting in ("token", "password"):
        yield from source_problems(settings, setting)
    tokens = given_sources(settings, "token")
    passwords = given_sources(settings, "password")
    if tokens and (settings.user is not None or passwords):
        yield f"{tokens[0]}: expected either a token or a user, got both"
    if not tokens and (settings.user is None or not passwords):
        names = ", ".join(source_names("token"))
        yield f"token_file: expected one of {names}, or user and password_file"
    if settings.user is not None and not _USER.fullmatch(settings.user):
        yield f"user: expected USER@REALM, got {settings.user!r}"


def _number_problems(settings: ProxmoxSettings) -> Iterator[str]:
    if settings.bandwidth is not None and settings.bandwidth < KIB:
        yield f"bandwidth: expected at least {KIB} bytes/s, got {settings.bandwidth}"
    for name in ("container_timeout", "ha_timeout", "timeout", "node_timeout"):
        seconds = getattr(settings, name)
        if not (math.isfinite(seconds) and 0 < seconds <= _MAX_DURATION):
            yield (
                f"{name}: expected more than 0 s and at most {_MAX_DURATION} s, got "
                f"{seconds}"
            )
    yield from capacity_problems(settings.network_capacity)
    if not 0 <= settings.load_window <= 3600:
        yield f"load_window: expected 0 to 3600 s, got {settings.load_window}"
    if settings.max_requests < 20:
        yield f"max_requests: expected at least 20, got {settings.max_requests}"


KIND = PlatformKind(
    settings_type=ProxmoxSettings,
    create=on_demand("opendrs.platforms.proxmox.platform:ProxmoxPlatform"),
    check=on_demand("opendrs.platforms.proxmox.setup:check_settings"),
    check_online=on_demand("opendrs.platforms.proxmox.checks:check_online"),
    check_disk_moves=on_demand("opendrs.platforms.proxmox.checks:check_disk_moves"),
    ask=on_demand("opendrs.platforms.proxmox.setup:ask"),
    copies_local_disks=True,
)
