"""Checks of platforms that connect to them: `opendrs check --online`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from opendrs.cli.console import TerminalConsole, add_row, create_table, printable
from opendrs.cli.platforms import connect_platform, kind_of
from opendrs.config.platform_kinds import (
    OnlineCheck,
    PlatformConnection,
    observe_once,
)
from opendrs.errors import OpenDRSError


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
) -> Iterator[PlatformCheck]:
    """Yield the results of all checks of the platforms, as they are known.

    A check that ends with an error is the last one of its platform.
    """
    for name, connection in connections.items():
        try:
            for check in _checks(connection):
                yield PlatformCheck(name, check)
        except OpenDRSError as error:
            failed = OnlineCheck("connection", ok=False, detail=str(error))
            yield PlatformCheck(name, failed)


def _checks(connection: PlatformConnection) -> Iterator[OnlineCheck]:
    own_checks = kind_of(connection).check_online
    if own_checks is not None:
        yield from own_checks(connection.name, connection.settings)
    yield from observe_once(connect_platform(connection))


def print_checks(screen: TerminalConsole, checks: Sequence[PlatformCheck]) -> None:
    """Print the results as a table, and the remedy below each failed check."""
    table = create_table("platform", "check", "result", "found")
    for each in checks:
        result = "ok" if each.check.ok else "FAILED"
        add_row(table, each.platform, each.check.subject, result, each.check.detail)
    screen.print(table)
    remedies = [each for each in checks if not each.check.ok and each.check.remedy]
    if remedies:
        screen.print("")
        screen.print("To correct this:")
    for each in remedies:
        screen.print(printable(f"  {each.check.remedy}"))


def checks_document(checks: Sequence[PlatformCheck]) -> list[dict[str, object]]:
    """Return the results as plain values."""
    return [{"platform": each.platform, **asdict(each.check)} for each in checks]
