"""From the word SOURCE to a platform, and what is observed on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from opendrs.cli.options import JSON
from opendrs.cli.screen import warn
from opendrs.controller import remembered
from opendrs.controller.clock import SystemClock
from opendrs.controller.future_times import warn_of_snapshot, warn_of_times
from opendrs.controller.nodes import with_known_nodes
from opendrs.controller.plausibility import impossible
from opendrs.controller.settings import NO_SETTINGS, RESERVED, Settings, read_settings
from opendrs.controller.stores import SqliteStore
from opendrs.errors import (
    ConfigurationError,
    InvalidFileError,
    StoreError,
    UnknownPlatformError,
)
from opendrs.model import GuestId, Network, NodeAffinity, NodeId, Rule, Snapshot
from opendrs.platforms.connect import connect
from opendrs.platforms.file import FilePlatform, complain, shown, shown_path
from opendrs.platforms.file.complaints import Complaint
from opendrs.policies import Policy
from opendrs.ports import Clock, Platform, Store
from opendrs.sim import SimulatedClock, SimulatedPlatform, draw_cluster

DEFAULT_CONFIG = Path("opendrs.toml")
OWNER = "platform"  # under which a record keeps whose it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A platform, and what goes with it.

    Attributes:
        platform: The platform.
        clock: The time that passes there.
        rules: The rules that the configuration adds there.
        networks: The networks that the configuration names.
        lasting: Whether what happens there outlasts this process, so that
            records of it must be kept.
    """

    platform: Platform
    clock: Clock
    rules: tuple[Rule, ...] = ()
    networks: tuple[Network, ...] = ()
    lasting: bool = True


def load_settings(config: Path | None) -> Settings:
    """Return what the configuration file says.

    Args:
        config: The file; None for the default one, which need not exist.

    Raises:
        ConfigurationError: Something in it is wrong; with all that is.
    """
    if config is not None:
        return read_settings(config)
    if not _is_found(DEFAULT_CONFIG):
        return NO_SETTINGS
    warn(f"using {DEFAULT_CONFIG}, found in the working directory")
    return read_settings(DEFAULT_CONFIG)


def _is_found(config: Path) -> bool:
    try:
        return config.exists()
    except OSError:  # a working directory that may not be looked into
        return False


def open_source(
    word: str, settings: Settings, *, pace: float = 0.0, at: datetime | None = None
) -> Source:
    """Return what *word* means.

    Args:
        word: The name of a platform, a file, or `demo`.
        settings: Where platforms are named.
        pace: Real seconds for each second on a simulated platform; 1 for real time.
        at: The time whose snapshot of a history is meant; None for the newest.

    Raises:
        UnknownPlatformError: It is nothing of that.
        ConfigurationError: A time is given, and it is no file.
        PlatformError: The platform cannot be reached.
    """
    return as_of(_opened(word, settings, pace), at)


def as_of(source: Source, at: datetime | None) -> Source:
    """Return *source* as it was recorded at that time; None for the newest.

    Raises:
        ConfigurationError: It is no file.
    """
    if at is None:
        return source
    if not isinstance(source.platform, FilePlatform):
        raise ConfigurationError(
            f"--at {at.isoformat()}: {source.platform.name} is no history in a file"
        )
    return replace(source, platform=source.platform.as_of(at))


def _opened(word: str, settings: Settings, pace: float) -> Source:
    if word == RESERVED:
        return simulation(seed=1, pace=pace)
    if word in settings.platforms:
        platform = connect(settings.connection(word), settings.rules)
        return Source(
            platform=platform,
            clock=SystemClock(),
            rules=settings.rules,
            networks=settings.limits.networks,
            lasting=not isinstance(platform, FilePlatform),
        )
    path = Path(word)
    if not _is_meant_as_file(path):
        names = ", ".join(sorted(settings.platforms)) or "none"
        raise UnknownPlatformError(
            f"{shown(word)} is neither a file nor a configured platform "
            f"(there is: {names})"
        )
    return file_source(path)


def file_source(path: Path) -> Source:
    """Return the cluster of the snapshot, or the newest of a history, in *path*."""
    return Source(platform=FilePlatform(path), clock=SystemClock(), lasting=False)


def _is_meant_as_file(path: Path) -> bool:
    try:
        return path.exists() or bool(path.suffix) or len(path.parts) > 1
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return True


def simulation(*, seed: int, pace: float = 0.0) -> Source:
    """Return a simulated cluster.

    Args:
        seed: Draws the cluster.
        pace: Real seconds for each simulated one; 0 to wait for none. With 1 it has
            the time of this machine, so that others can speak of the same time.
    """
    real = SystemClock()
    clock = real if pace == 1 else SimulatedClock(pace=pace, real=real)
    platform = SimulatedPlatform(draw_cluster(seed), clock, name="demo", seed=seed)
    return Source(platform=platform, clock=clock, lasting=False)


def pace_for(form: str) -> float:
    """Return the real seconds for each simulated one: on a terminal, people watch."""
    return 0.05 if form != JSON and sys.stdout.isatty() else 0.0


def require_changeable(platform: Platform) -> None:
    """Check that something can be done on *platform*.

    Raises:
        ConfigurationError: Nothing can: it is a file.
    """
    if isinstance(platform, FilePlatform):
        raise ConfigurationError(
            f"{shown_path(platform.path)} is a snapshot in a file: it can be planned "
            "for, not changed"
        )


def observe(source: Source) -> Snapshot:
    """Return the cluster as it is now, once rules and networks fit it.

    Raises:
        ConfigurationError: A rule of the configuration names a guest or a node
            that is not there, or a network such a node.
        PlatformError: The platform cannot be asked.
    """
    platform = source.platform
    snapshot = platform.observe()
    if isinstance(platform, FilePlatform):
        complain(platform.name, impossible(snapshot), InvalidFileError)
        if platform.damage:
            warn(platform.damage)
    where = f"the configuration, on {source.platform.name}"
    complain(where, misfits(source.rules, source.networks, snapshot))
    warn_of_snapshot(snapshot)
    return snapshot


def with_record(
    snapshot: Snapshot, policy: Policy[Any], source: Source, settings: Settings
) -> Snapshot:
    """Return *snapshot* with what the record of *source* knows, if there is one.

    Raises:
        ConfigurationError: It is the record of another platform.
        StoreError: The record cannot be read.
    """
    path = settings.store_path(source.platform.name)
    if not source.lasting or not _may_be_there(path):
        return snapshot
    with SqliteStore(path, reading=True) as store:
        owner_of(store, source.platform.name)
        warn_of_times(store, source.clock.now())
        return remembered(snapshot, policy, store)


def with_sleepers(snapshot: Snapshot, source: Source, settings: Settings) -> Snapshot:
    """Return *snapshot* with what the record of *source* knows of nodes that sleep.

    Where there is no such record, or it is that of another platform, nothing is.

    Raises:
        StoreError: The record cannot be read.
    """
    path = settings.store_path(source.platform.name)
    awake = all(node.online for node in snapshot.nodes.values())
    if awake or not source.lasting or not _may_be_there(path):
        return snapshot
    with SqliteStore(path, reading=True) as store:
        owner = store.load(OWNER) or {}
        if owner.get("name") != source.platform.name:
            return snapshot
        return with_known_nodes(snapshot, store)


def _may_be_there(path: Path) -> bool:
    """Return whether there is a file *path*, or that cannot be found out."""
    try:
        return path.exists()
    except (OSError, ValueError):  # the store says what is wrong
        return True


@contextmanager
def record_of(source: Source, settings: Settings) -> Iterator[SqliteStore]:
    """Yield the record of *source*, to write to; what does not last has none on disk.

    Raises:
        ConfigurationError: It is the record of another platform, or there is none to
            keep where the configuration says.
        StoreError: It cannot be opened.
    """
    if not source.lasting:
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
        if owner_of(store, name) is None:
            store.save(OWNER, {"name": name})
        yield store


def owner_of(store: Store, name: str) -> str | None:
    """Return whose record it is: that of *name*, or None for nobody's yet.

    What one platform had started would be asked after, and lost, on another.

    Raises:
        ConfigurationError: It is that of another platform.
        StoreError: It cannot be read, or does not say whose it is.
    """
    saved = store.load(OWNER)
    if saved is None:
        return None
    if not isinstance(saved.get("name"), str):
        raise StoreError("the record does not say of which platform it is")
    if saved["name"] != name:
        raise ConfigurationError(
            f"[store] path: this is the record of {shown(saved['name'])}; "
            f"{name} needs one of its own"
        )
    return name


def misfits(
    rules: Sequence[Rule], networks: Sequence[Network], snapshot: Snapshot
) -> Iterator[Complaint]:
    """Yield a complaint for each name that is not in *snapshot*.

    Args:
        rules: Rules that the configuration adds.
        networks: Networks that it names.
        snapshot: The cluster they are for.
    """
    yield from _misfits(rules, snapshot)
    for index, network in enumerate(networks):
        for node in sorted(set(network.nodes) - snapshot.nodes.keys()):
            at = ("limits", "networks", index, "nodes")
            yield Complaint(at, f"there is no node {shown(node)}")


def _misfits(rules: Sequence[Rule], snapshot: Snapshot) -> Iterator[Complaint]:
    """Yield a complaint for each name in *rules* that *snapshot* does not have.

    While a node is not online, a guest that is not there may be on that node.
    """
    complete = all(node.online for node in snapshot.nodes.values())
    for index, rule in enumerate(rules):
        guests: frozenset[GuestId] = getattr(rule, "guests", frozenset())
        for guest in sorted(guests - snapshot.guests.keys() if complete else ()):
            yield Complaint(
                ("rules", index, "guests"), f"there is no guest {shown(guest)}"
            )
        nodes: frozenset[NodeId] = frozenset()
        if isinstance(rule, NodeAffinity):
            nodes = frozenset(rule.nodes)
        for node in sorted(nodes - snapshot.nodes.keys()):
            yield Complaint(
                ("rules", index, "nodes"), f"there is no node {shown(node)}"
            )
