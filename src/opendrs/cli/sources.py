"""Resolution of SOURCE to a platform, and its observation."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from opendrs.cli.console import warn
from opendrs.cli.options import JSON
from opendrs.cli.platforms import PLATFORMS, connect_platform, kind_of
from opendrs.config import (
    Diagnostic,
    DiagnosticCode,
    KeyPath,
    display_path,
    raise_diagnostics,
)
from opendrs.config.plausibility import find_impossible
from opendrs.config.settings import NO_SETTINGS, RESERVED_NAME, Settings
from opendrs.config.settings_reading import read_settings, read_valid_settings
from opendrs.controller import SystemClock
from opendrs.controller.history import warn_future_snapshot
from opendrs.errors import (
    ConfigurationError,
    InvalidFileError,
    UnknownPlatformError,
)
from opendrs.escapes import repr_value
from opendrs.model import GuestId, Network, NodeAffinity, NodeId, Rule, Snapshot
from opendrs.platforms.snapshot_file import SnapshotFilePlatform
from opendrs.ports import Clock, Platform
from opendrs.simulation import SimulatedClock, SimulatedPlatform, demo_cluster
from opendrs.simulation.datacenter import LINK_BANDWIDTH

DEFAULT_CONFIG = Path("opendrs.toml")
_UNRELATED_TABLES = frozenset(
    {"agent", "api", "limits", "metrics", "notifications", "protection", "rules"}
)
"""Tables that neither locate the store of a platform nor determine its mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """A platform with its clock, rules and networks.

    Attributes:
        platform: The platform.
        clock: The clock of the platform; simulated platforms have their own.
        rules: The rules of the configuration.
        networks: The networks of the configuration.
        is_persistent: True if the platform outlives this process, so that records
            must be stored on disk.
    """

    platform: Platform
    clock: Clock
    rules: tuple[Rule, ...] = ()
    networks: tuple[Network, ...] = ()
    is_persistent: bool = True


def load_settings(config: Path | None) -> Settings:
    """Return the settings of the configuration file.

    Args:
        config: The file; None for `./opendrs.toml`, which is optional.

    Raises:
        ConfigurationError: The file is invalid; with all errors.
    """
    path = _config_path(config)
    return NO_SETTINGS if path is None else read_settings(path, PLATFORMS)


def load_store_settings(config: Path | None, platform: str) -> Settings:
    """Return the settings for a command that needs only the store of *platform*.

    A controller goes on with its former configuration while the file is invalid. Errors
    that concern neither the store nor the mode are warnings.

    Args:
        config: The file; None for `./opendrs.toml`, which is optional.
        platform: Name of the platform.

    Raises:
        ConfigurationError: The file is invalid otherwise; with all errors.
    """
    path = _config_path(config)
    if path is None:
        return NO_SETTINGS
    settings, diagnostics = read_valid_settings(path, PLATFORMS)
    if not all(_is_unrelated(each.path, platform) for each in diagnostics):
        raise_diagnostics(display_path(path), diagnostics)
    for each in diagnostics:
        warn(f"warning: {display_path(path)}: {each}")
    return settings


def has_store(name: str, settings: Settings) -> bool:
    """Return False if the platform *name* has no store; True if that is unknown."""
    path = settings.store_path(name)
    try:
        return path is None or path.exists()
    except (OSError, ValueError):  # opening the store reports the error
        return True


def _is_unrelated(path: KeyPath, platform: str) -> bool:
    """Return True if an error at *path* concerns neither the store nor the mode."""
    table, *keys = path or ("",)
    if table == "platform":
        return bool(keys) and keys[0] != platform
    if table == "policy":
        return bool(keys) and keys[0] != "name"
    return table in _UNRELATED_TABLES


def _config_path(config: Path | None) -> Path | None:
    """Return the configuration file; None if none is given and the default is absent.

    The use of the default is printed.
    """
    if config is not None:
        return config
    if not _exists(DEFAULT_CONFIG):
        return None
    warn(f"using ./{DEFAULT_CONFIG}")
    return DEFAULT_CONFIG


def _exists(config: Path) -> bool:
    try:
        return config.exists()
    except OSError:  # no permission for the working directory
        return False


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
    system_clock = SystemClock()
    clock = (
        system_clock
        if pace == 1
        else SimulatedClock(time_scale=pace, wall_clock=system_clock)
    )
    cluster = replace(demo_cluster(seed), bandwidth=LINK_BANDWIDTH)
    platform = SimulatedPlatform(cluster, clock, name="demo", seed=seed)
    return ClusterSource(platform=platform, clock=clock, is_persistent=False)


def only_platform(settings: Settings, config: Path) -> str:
    """Return the name of the only configured platform.

    Raises:
        UnknownPlatformError: There is none, or more than one.
    """
    if len(settings.platforms) != 1:
        names = ", ".join(sorted(settings.platforms)) or "none but demo"
        raise UnknownPlatformError(
            f"{display_path(config)}: platform: expected one, got "
            f"{len(settings.platforms)}; select it with --platform NAME "
            f"(configured: {names})",
            code=DiagnosticCode.INCONSISTENT,
        )
    (name,) = settings.platforms
    return name


def command_target(platform: str, config: Path) -> str:
    """Return *platform* and the option `--config` if *config* is not the default."""
    options = [] if config == DEFAULT_CONFIG else ["--config", str(config.absolute())]
    return shlex.join([platform, *options])


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
    rules: Sequence[Rule], networks: Sequence[Network], snapshot: Snapshot
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each name that is not in *snapshot*.

    Args:
        rules: Rules of the configuration.
        networks: Networks of the configuration.
        snapshot: The cluster.
    """
    yield from _rule_mismatches(rules, snapshot)
    for index, network in enumerate(networks):
        for node in sorted(set(network.nodes) - snapshot.nodes.keys()):
            path = ("limits", "networks", index, "nodes")
            yield _unknown_name(path, f"unknown node {repr_value(node)}")


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
