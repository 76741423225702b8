"""Resolution of SOURCE to a platform, and its observation."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from opendrs.cli.console import warn
from opendrs.cli.options import JSON
from opendrs.cli.platforms import ClusterSource, connect_platform, kind_of
from opendrs.config import (
    Diagnostic,
    DiagnosticCode,
    KeyPath,
    Severity,
    display_path,
    raise_diagnostics,
)
from opendrs.config.plausibility import find_impossible
from opendrs.config.settings import RESERVED_NAME, Settings
from opendrs.controller import SystemClock
from opendrs.controller.history import warn_future_snapshot
from opendrs.errors import (
    ConfigurationError,
    InvalidFileError,
    UnknownPlatformError,
)
from opendrs.escapes import repr_value
from opendrs.model import (
    FAILURE_DOMAIN,
    GuestId,
    Limits,
    Network,
    NodeAffinity,
    NodeId,
    NodeLimits,
    Rule,
    Snapshot,
)
from opendrs.platforms.snapshot_file import SnapshotFilePlatform
from opendrs.ports import Platform


def open_source(
    name: str, settings: Settings, *, pace: float = 0.0, at: datetime | None = None
) -> ClusterSource:
    """Return the cluster that *name* refers to.

    Args:
        name: The name of a platform, a file, or `demo`.
        settings: The configuration with the platforms.
        pace: Real seconds for each second on a simulated platform; 1 for real time.
        at: Use the newest snapshot of a history taken at this time or before; None
            for the newest.

    Raises:
        UnknownPlatformError: *name* is neither a file nor a platform.
        ConfigurationError: *at* is given, and *name* is not a file.
        PlatformError: The platform cannot be reached.
    """
    return as_of(_open_platform(name, settings, pace), at)


def as_of(source: ClusterSource, at: datetime | None) -> ClusterSource:
    """Return *source* as recorded at the time *at*; None for the newest snapshot.

    Raises:
        ConfigurationError: *at* is given, and *source* is not a file.
    """
    if at is None:
        return source
    if not isinstance(source.platform, SnapshotFilePlatform):
        raise ConfigurationError(
            f"--at: {source.platform.name} is not a history; expected a file of "
            "opendrs record --every",
            code=DiagnosticCode.INCONSISTENT,
        )
    return replace(source, platform=source.platform.as_of(at))


def _open_platform(name: str, settings: Settings, pace: float) -> ClusterSource:
    if name == RESERVED_NAME:
        return simulated_source(seed=1, pace=pace)
    if name in settings.platforms:
        connection = settings.connection(name)
        return ClusterSource(
            platform=connect_platform(connection, settings.rules),
            clock=SystemClock(),
            rules=settings.rules,
            networks=settings.limits.networks,
            is_persistent=not kind_of(connection).read_only,
        )
    path = Path(name)
    if not _looks_like_path(path):
        names = ", ".join(sorted(settings.platforms)) or "none"
        raise UnknownPlatformError(
            f"{repr_value(name)}: neither a file nor a configured platform "
            f"(configured: {names})"
        )
    return file_source(path)


def file_source(path: Path) -> ClusterSource:
    """Return the cluster in the snapshot file or history *path*."""
    return ClusterSource(
        platform=SnapshotFilePlatform(path), clock=SystemClock(), is_persistent=False
    )


def _looks_like_path(path: Path) -> bool:
    try:
        return path.exists() or bool(path.suffix) or len(path.parts) > 1
    except (OSError, ValueError):  # name too long, or with a zero byte
        return True


def simulated_source(*, seed: int, pace: float = 0.0) -> ClusterSource:
    """Return a simulated cluster.

    Args:
        seed: Seed of the cluster.
        pace: Real seconds for each simulated second; 0 to never wait. With 1, the
            system clock is used, so that agents share the time of the cluster.
    """
    from opendrs.simulation import (  # noqa: PLC0415 - only for a simulated cluster
        SimulatedClock,
        SimulatedPlatform,
        demo_cluster,
    )
    from opendrs.simulation.datacenter import LINK_BANDWIDTH  # noqa: PLC0415 - as above

    system_clock = SystemClock()
    clock = (
        system_clock
        if pace == 1
        else SimulatedClock(time_scale=pace, wall_clock=system_clock)
    )
    cluster = replace(demo_cluster(seed), bandwidth=LINK_BANDWIDTH)
    platform = SimulatedPlatform(cluster, clock, name="demo", seed=seed)
    return ClusterSource(platform=platform, clock=clock, is_persistent=False)


def simulation_pace(output_format: str) -> float:
    """Return the real seconds for each simulated second; 0 without a terminal."""
    return 0.05 if output_format != JSON and sys.stdout.isatty() else 0.0


def require_writable(platform: Platform) -> None:
    """Check that *platform* can execute actions.

    Raises:
        ConfigurationError: It is a snapshot file.
    """
    if isinstance(platform, SnapshotFilePlatform):
        raise ConfigurationError(
            f"{display_path(platform.path)}: a snapshot file cannot be changed; use "
            "opendrs plan",
            code=DiagnosticCode.INCONSISTENT,
        )


def observe(source: ClusterSource) -> Snapshot:
    """Return a snapshot, after a check that rules and networks match it.

    Raises:
        ConfigurationError: A rule or network of the configuration names a guest or
            node that does not exist.
        InvalidFileError: A snapshot file has impossible values.
        PlatformError: The platform cannot be observed.
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


def name_mismatches(
    rules: Sequence[Rule],
    networks: Sequence[Network],
    snapshot: Snapshot,
    overrides: Sequence[NodeLimits] = (),
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each name that is not in *snapshot*.

    Args:
        rules: Rules of the configuration.
        networks: Networks of the configuration.
        snapshot: The cluster.
        overrides: Limits of single nodes.
    """
    yield from _rule_mismatches(rules, snapshot)
    parts: tuple[tuple[str, Sequence[Network | NodeLimits]], ...] = (
        ("networks", networks),
        ("overrides", overrides),
    )
    for key, entries in parts:
        for index, entry in enumerate(entries):
            for node in sorted(set(entry.nodes) - snapshot.nodes.keys()):
                path = ("limits", key, index, "nodes")
                yield _unknown_name(path, f"unknown node {repr_value(node)}")


def limit_mismatches(
    limits: Limits, snapshots: Iterable[Snapshot]
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each name in *limits* that is on no platform.

    It is an error, or for a load a warning. Names of storages are checked only if those
    of every node are known.

    Args:
        limits: Limits of the configuration.
        snapshots: The clusters of all platforms.
    """
    clusters = list(snapshots)
    yield from load_mismatches(limits, clusters)
    nodes = [node for each in clusters for node in each.nodes.values()]
    key = limits.tolerated_domain
    if key is not None and all(node.domain(key) is None for node in nodes):
        domains = "failure domain" if key == FAILURE_DOMAIN else f"label {key}=NAME"
        message = f"unknown domains {repr_value(key)}: no node has a {domains}"
        yield _unknown_name(("limits", "tolerated_domain"), message)
    if not all(node.online and node.storages is not None for node in nodes):
        return
    present = {storage.id for node in nodes for storage in node.storages or ()}
    for index, group in enumerate(limits.storage_groups):
        for name in sorted(set(group.storages) - present):
            path = ("limits", "storage_groups", index, "storages")
            yield _unknown_name(path, f"unknown storage {repr_value(name)}")


def load_mismatches(
    limits: Limits, snapshots: Sequence[Snapshot]
) -> Iterator[Diagnostic]:
    """Yield a warning for each further load in *limits* that nothing has.

    It is none of the loads, and of the capacities, of a node or guest. A load may be
    unknown for a while, so that is no error. Loads are checked if a node is online.

    Args:
        limits: Limits of the configuration.
        snapshots: The clusters of all platforms.
    """
    nodes = [node for each in snapshots for node in each.nodes.values()]
    known = {name for each in nodes for name in (*each.loads, *each.load_capacities)}
    known.update(
        name
        for each in snapshots
        for guest in each.guests.values()
        for name in guest.loads
    )
    if not any(node.online for node in nodes):
        return
    for index, load in enumerate(limits.loads):
        if load.name in known:
            continue
        names = ", ".join(map(repr_value, sorted(known))) or "none"
        yield Diagnostic(
            ("limits", "loads", index, "name"),
            f"unknown load {repr_value(load.name)}: no node and no guest has it; "
            f"known loads: {names}",
            severity=Severity.WARNING,
            code=DiagnosticCode.UNKNOWN_NAME,
            unknown_name=load.name,
            known_names=tuple(known),
        )


def _rule_mismatches(rules: Sequence[Rule], snapshot: Snapshot) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each name in *rules* that is not in *snapshot*.

    Guests are checked only if all nodes are online: a missing guest may be on a node
    that is not.
    """
    complete = all(node.online for node in snapshot.nodes.values())
    for index, rule in enumerate(rules):
        for key in ("guests", "other_guests") if complete else ():
            guests: frozenset[GuestId] = getattr(rule, key, frozenset())
            for guest in sorted(guests - snapshot.guests.keys()):
                yield _unknown_name(
                    ("rules", index, key), f"unknown guest {repr_value(guest)}"
                )
        nodes: frozenset[NodeId] = frozenset()
        if isinstance(rule, NodeAffinity):
            nodes = frozenset(rule.nodes)
        for node in sorted(nodes - snapshot.nodes.keys()):
            yield _unknown_name(
                ("rules", index, "nodes"), f"unknown node {repr_value(node)}"
            )


def _unknown_name(path: KeyPath, message: str) -> Diagnostic:
    return Diagnostic(path, message, code=DiagnosticCode.UNKNOWN_NAME)
