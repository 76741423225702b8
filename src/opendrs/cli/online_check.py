"""Checks of platforms that connect to them: `opendrs check --online`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from opendrs.cli.console import TerminalConsole, add_row, create_table, printable
from opendrs.cli.platforms import connect_platform, kind_of
from opendrs.cli.sources import limit_mismatches, name_mismatches
from opendrs.config.platform_kinds import OnlineCheck, PlatformConnection
from opendrs.errors import OpenDRSError
from opendrs.model import (
    DEFAULT_LIMITS,
    Limits,
    Rule,
    Snapshot,
    StorageGroup,
    format_count,
    format_list,
)

NAMES = "names"  # subject of the check of guests and nodes that rules name
LIMITS = "names in limits"  # subject of the check of storages, domains and loads


@dataclass(frozen=True, slots=True)
class PlatformCheck:
    """Result of one check of a platform.

    Attributes:
        platform: Name of the platform.
        check: The result.
    """

    platform: str
    check: OnlineCheck


def check_online(
    connections: Mapping[str, PlatformConnection],
    rules: Sequence[Rule] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[PlatformCheck]:
    """Yield the results of all checks of the platforms, as they are known.

    Each platform is observed after the checks of its kind. A check that ends with an
    error is the last one of its platform.

    Args:
        connections: The platforms, by name.
        rules: The rules of the configuration, whose names must exist.
        limits: The limits of the configuration, whose names must exist.
    """
    snapshots: list[Snapshot] = []
    for name, connection in connections.items():
        try:
            for check in _own_checks(connection, limits.storage_groups):
                yield PlatformCheck(name, check)
            snapshot = connect_platform(connection).observe()
            snapshots.append(snapshot)
            names = _names(rules, limits, snapshot)
            for check in (*_observation(snapshot), *names):
                yield PlatformCheck(name, check)
            for check in kind_of(connection).check_snapshot(snapshot):
                yield PlatformCheck(name, check)
        except OpenDRSError as error:
            failed = OnlineCheck("connection", ok=False, detail=str(error))
            yield PlatformCheck(name, failed)
    if snapshots and len(snapshots) == len(connections):
        unknown = [str(each) for each in limit_mismatches(limits, snapshots)]
        if unknown:
            found = OnlineCheck(LIMITS, ok=False, detail="; ".join(unknown))
            yield PlatformCheck(format_list(list(connections)), found)


def _own_checks(
    connection: PlatformConnection, groups: Sequence[StorageGroup]
) -> Iterator[OnlineCheck]:
    kind = kind_of(connection)
    if kind.check_online is not None:
        yield from kind.check_online(connection.name, connection.settings)
    if groups:
        yield from kind.check_disk_moves(connection.name, connection.settings, groups)


def _observation(snapshot: Snapshot) -> Iterator[OnlineCheck]:
    """Yield whether the platform could be observed."""
    unreachable = sorted(
        name for name, node in snapshot.nodes.items() if not node.reachable
    )
    detail = (
        f"{format_count(len(snapshot.nodes), 'node')}, "
        f"{format_count(len(snapshot.guests), 'guest')}"
    )
    yield OnlineCheck("observation", ok=bool(snapshot.nodes), detail=detail)
    if unreachable:
        detail = f"unreachable: {format_list(unreachable)}"
        yield OnlineCheck("nodes", ok=False, detail=detail)


def _names(
    rules: Sequence[Rule], limits: Limits, snapshot: Snapshot
) -> Iterator[OnlineCheck]:
    """Yield whether the guests and nodes that the configuration names exist."""
    networks, overrides = limits.networks, limits.overrides
    if not rules and not networks and not overrides:
        return
    mismatches = [
        str(each) for each in name_mismatches(rules, networks, snapshot, overrides)
    ]
    if mismatches:
        yield OnlineCheck(NAMES, ok=False, detail="; ".join(mismatches))
    elif all(node.online for node in snapshot.nodes.values()):
        yield OnlineCheck(NAMES, ok=True, detail="all guests and nodes exist")
    else:
        detail = "all nodes exist; guests are checked if all nodes are online"
        yield OnlineCheck(NAMES, ok=True, detail=detail)


def print_checks(screen: TerminalConsole, checks: Sequence[PlatformCheck]) -> None:
    """Print the results as a table, and the remedy below each failed check."""
    table = create_table("platform", "check", "result", "found")
    for each in checks:
        result = "ok" if each.check.ok else "FAILED"
        add_row(table, each.platform, each.check.subject, result, each.check.detail)
    screen.print(table)
    failed = [each.check for each in checks if not each.check.ok]
    remedies = dict.fromkeys(check.remedy for check in failed if check.remedy)
    if remedies:
        screen.print("")
        screen.print("To correct this:")
    for remedy in remedies:
        screen.print(printable(f"  {remedy}"))


def checks_document(checks: Sequence[PlatformCheck]) -> list[dict[str, object]]:
    """Return the results as plain values."""
    return [{"platform": each.platform, **asdict(each.check)} for each in checks]
