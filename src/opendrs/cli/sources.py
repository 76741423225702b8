"""From the word SOURCE to a platform, and what is observed on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from opendrs.cli.console import warn
from opendrs.cli.options import JSON
from opendrs.config import Diagnostic, display_path, raise_diagnostics
from opendrs.config.plausibility import find_impossible
from opendrs.config.settings import NO_SETTINGS, RESERVED_NAME, Settings
from opendrs.config.settings_reading import read_settings
from opendrs.controller import SystemClock, enrich_snapshot
from opendrs.controller.history import warn_future_records, warn_future_snapshot
from opendrs.controller.node_inventory import fill_known_nodes
from opendrs.errors import (
    ConfigurationError,
    InvalidFileError,
    StoreError,
    UnknownPlatformError,
)
from opendrs.escapes import repr_value
from opendrs.model import GuestId, Network, NodeAffinity, NodeId, Rule, Snapshot
from opendrs.platforms.registry import connect_platform
from opendrs.platforms.snapshot_file import SnapshotFilePlatform
from opendrs.policies import Policy
from opendrs.ports import Clock, Platform, Store
from opendrs.simulation import SimulatedClock, SimulatedPlatform, demo_cluster
from opendrs.store import SqliteStore

DEFAULT_CONFIG = Path("opendrs.toml")
OWNER_KEY = "platform"  # under which a record keeps whose it is


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """A platform, and what goes with it.

    Attributes:
        platform: The platform.
        clock: The time that passes there.
        rules: The rules that the configuration adds there.
        networks: The networks that the configuration names.
        is_persistent: Whether what happens there outlasts this process, so that
            records of it must be kept.
    """

    platform: Platform
    clock: Clock
    rules: tuple[Rule, ...] = ()
    networks: tuple[Network, ...] = ()
    is_persistent: bool = True


def load_settings(config: Path | None) -> Settings:
    """Return what the configuration file says.

    Args:
        config: The file; None for the default one, which need not exist.

    Raises:
        ConfigurationError: Something in it is wrong; with all that is.
    """
    if config is not None:
        return read_settings(config)
    if not _exists(DEFAULT_CONFIG):
        return NO_SETTINGS
    warn(f"using {DEFAULT_CONFIG}, found in the working directory")
    return read_settings(DEFAULT_CONFIG)


def _exists(config: Path) -> bool:
    try:
        return config.exists()
    except OSError:  # a working directory that may not be looked into
        return False


def open_source(
    name: str, settings: Settings, *, pace: float = 0.0, at: datetime | None = None
) -> ClusterSource:
    """Return what *name* means.

    Args:
        name: The name of a platform, a file, or `demo`.
        settings: Where platforms are named.
        pace: Real seconds for each second on a simulated platform; 1 for real time.
        at: The time whose snapshot of a history is meant; None for the newest.

    Raises:
        UnknownPlatformError: It is nothing of that.
        ConfigurationError: A time is given, and it is no file.
        PlatformError: The platform cannot be reached.
    """
    return as_of(_open_platform(name, settings, pace), at)


def as_of(source: ClusterSource, at: datetime | None) -> ClusterSource:
    """Return *source* as it was recorded at that time; None for the newest.

    Raises:
        ConfigurationError: It is no file.
    """
    if at is None:
        return source
    if not isinstance(source.platform, SnapshotFilePlatform):
        raise ConfigurationError(
            f"--at {at.isoformat()}: {source.platform.name} is no history in a file"
        )
    return replace(source, platform=source.platform.as_of(at))


def _open_platform(name: str, settings: Settings, pace: float) -> ClusterSource:
    if name == RESERVED_NAME:
        return simulated_source(seed=1, pace=pace)
    if name in settings.platforms:
        platform = connect_platform(settings.connection(name), settings.rules)
        return ClusterSource(
            platform=platform,
            clock=SystemClock(),
            rules=settings.rules,
            networks=settings.limits.networks,
            is_persistent=not isinstance(platform, SnapshotFilePlatform),
        )
    path = Path(name)
    if not _looks_like_path(path):
        names = ", ".join(sorted(settings.platforms)) or "none"
        raise UnknownPlatformError(
            f"{repr_value(name)} is neither a file nor a configured platform "
            f"(there is: {names})"
        )
    return file_source(path)


def file_source(path: Path) -> ClusterSource:
    """Return the cluster of the snapshot, or the newest of a history, in *path*."""
    return ClusterSource(
        platform=SnapshotFilePlatform(path), clock=SystemClock(), is_persistent=False
    )


def _looks_like_path(path: Path) -> bool:
    try:
        return path.exists() or bool(path.suffix) or len(path.parts) > 1
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return True


def simulated_source(*, seed: int, pace: float = 0.0) -> ClusterSource:
    """Return a simulated cluster.

    Args:
        seed: Draws the cluster.
        pace: Real seconds for each simulated one; 0 to wait for none. With 1 it has
            the time of this machine, so that others can speak of the same time.
    """
    system_clock = SystemClock()
    clock = (
        system_clock
        if pace == 1
        else SimulatedClock(time_scale=pace, wall_clock=system_clock)
    )
    platform = SimulatedPlatform(demo_cluster(seed), clock, name="demo", seed=seed)
    return ClusterSource(platform=platform, clock=clock, is_persistent=False)


def simulation_pace(output_format: str) -> float:
    """Return the real seconds for each simulated one: on a terminal, people watch."""
    return 0.05 if output_format != JSON and sys.stdout.isatty() else 0.0


def require_writable(platform: Platform) -> None:
    """Check that something can be done on *platform*.

    Raises:
        ConfigurationError: Nothing can: it is a file.
    """
    if isinstance(platform, SnapshotFilePlatform):
        raise ConfigurationError(
            f"{display_path(platform.path)} is a snapshot in a file: it can be planned "
            "for, not changed"
        )


def observe(source: ClusterSource) -> Snapshot:
    """Return the cluster as it is now, once rules and networks fit it.

    Raises:
        ConfigurationError: A rule of the configuration names a guest or a node
            that is not there, or a network such a node.
        PlatformError: The platform cannot be asked.
    """
    platform = source.platform
    snapshot = platform.observe()
    if isinstance(platform, SnapshotFilePlatform):
        raise_diagnostics(platform.name, find_impossible(snapshot), InvalidFileError)
        if platform.damage:
            warn(platform.damage)
    context = f"the configuration, on {source.platform.name}"
    raise_diagnostics(context, name_mismatches(source.rules, source.networks, snapshot))
    warn_future_snapshot(snapshot)
    return snapshot


def enrich_from_store(
    snapshot: Snapshot, policy: Policy[Any], source: ClusterSource, settings: Settings
) -> Snapshot:
    """Return *snapshot* with what the record of *source* knows, if there is one.

    Raises:
        ConfigurationError: It is the record of another platform.
        StoreError: The record cannot be read.
    """
    path = settings.store_path(source.platform.name)
    if not source.is_persistent or not _may_exist(path):
        return snapshot
    with SqliteStore(path, read_only=True) as store:
        store_owner(store, source.platform.name)
        warn_future_records(store, source.clock.now())
        return enrich_snapshot(snapshot, policy, store)


def with_powered_off_nodes(
    snapshot: Snapshot, source: ClusterSource, settings: Settings
) -> Snapshot:
    """Return *snapshot* with what the record of *source* knows of nodes that sleep.

    Where there is no such record, or it is that of another platform, nothing is.

    Raises:
        StoreError: The record cannot be read.
    """
    path = settings.store_path(source.platform.name)
    all_online = all(node.online for node in snapshot.nodes.values())
    if all_online or not source.is_persistent or not _may_exist(path):
        return snapshot
    with SqliteStore(path, read_only=True) as store:
        owner = store.load(OWNER_KEY) or {}
        if owner.get("name") != source.platform.name:
            return snapshot
        return fill_known_nodes(snapshot, store)


def _may_exist(path: Path) -> bool:
    """Return whether there is a file *path*, or that cannot be found out."""
    try:
        return path.exists()
    except (OSError, ValueError):  # the store says what is wrong
        return True


@contextmanager
def open_store(source: ClusterSource, settings: Settings) -> Iterator[SqliteStore]:
    """Yield the record of *source*, to write to; what does not last has none on disk.

    Raises:
        ConfigurationError: It is the record of another platform, or there is none to
            keep where the configuration says.
        StoreError: It cannot be opened.
    """
    if not source.is_persistent:
        if settings.store is not None:
            raise ConfigurationError(
                f"[store] path: {source.platform.name} ends with this process, and no "
                "record of it is kept; leave [store] out, or use another configuration"
            )
        with SqliteStore(None) as store:
            yield store
        return
    name = source.platform.name
    with SqliteStore(settings.store_path(name)) as store:
        if store_owner(store, name) is None:
            store.save(OWNER_KEY, {"name": name})
        yield store


def store_owner(store: Store, name: str) -> str | None:
    """Return whose record it is: that of *name*, or None for nobody's yet.

    What one platform had started would be asked after, and lost, on another.

    Raises:
        ConfigurationError: It is that of another platform.
        StoreError: It cannot be read, or does not say whose it is.
    """
    document = store.load(OWNER_KEY)
    if document is None:
        return None
    if not isinstance(document.get("name"), str):
        raise StoreError("the record does not say of which platform it is")
    if document["name"] != name:
        raise ConfigurationError(
            f"[store] path: this is the record of {repr_value(document['name'])}; "
            f"{name} needs one of its own"
        )
    return name


def name_mismatches(
    rules: Sequence[Rule], networks: Sequence[Network], snapshot: Snapshot
) -> Iterator[Diagnostic]:
    """Yield a complaint for each name that is not in *snapshot*.

    Args:
        rules: Rules that the configuration adds.
        networks: Networks that it names.
        snapshot: The cluster they are for.
    """
    yield from _rule_mismatches(rules, snapshot)
    for index, network in enumerate(networks):
        for node in sorted(set(network.nodes) - snapshot.nodes.keys()):
            path = ("limits", "networks", index, "nodes")
            yield Diagnostic(path, f"there is no node {repr_value(node)}")


def _rule_mismatches(rules: Sequence[Rule], snapshot: Snapshot) -> Iterator[Diagnostic]:
    """Yield a complaint for each name in *rules* that *snapshot* does not have.

    While a node is not online, a guest that is not there may be on that node.
    """
    complete = all(node.online for node in snapshot.nodes.values())
    for index, rule in enumerate(rules):
        guests: frozenset[GuestId] = getattr(rule, "guests", frozenset())
        for guest in sorted(guests - snapshot.guests.keys() if complete else ()):
            yield Diagnostic(
                ("rules", index, "guests"), f"there is no guest {repr_value(guest)}"
            )
        nodes: frozenset[NodeId] = frozenset()
        if isinstance(rule, NodeAffinity):
            nodes = frozenset(rule.nodes)
        for node in sorted(nodes - snapshot.nodes.keys()):
            yield Diagnostic(
                ("rules", index, "nodes"), f"there is no node {repr_value(node)}"
            )
