"""The command `opendrs replay`: repeat recorded decisions, and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import add_row, console, create_table, print_json
from opendrs.cli.options import JSON, IntegerRange, config_option, format_option
from opendrs.cli.platform_store import open_to_read
from opendrs.controller import ReplayedDecision, replay
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import repr_value
from opendrs.model import format_count, format_timestamp

DIFFERENT = 1


@click.command(name="replay")
@click.argument("platform", metavar="PLATFORM")
@click.option(
    "--run", "run", metavar="RUN", help="Only the cycle with this name (column cycle)."
)
@click.option(
    "--last",
    type=IntegerRange(1),
    metavar="NUMBER",
    help="Only the newest NUMBER cycles (default: all with inputs).",
)
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="List the same decisions too (in JSON: always).",
)
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    platform: str,
    run: str | None,
    last: int | None,
    show_all: bool,
    config: Path | None,
    output_format: str,
) -> int:
    """Repeat the recorded decisions of PLATFORM and report differences.

    apply and run record each cycle: the snapshot, the settings of the policy, its
    state from earlier cycles, and the decision. replay repeats the decision from the
    same inputs, and it must be the same, byte for byte. A difference means that another
    version of OpenDRS, or another search of the policy optimize (compiled or plain),
    made the recorded decision. Only decisions that differ are listed. Neither the
    platform nor the database is changed.

    \b
      opendrs replay lab
      opendrs replay lab --last 10
      opendrs replay lab --format json           print both decisions of each cycle

    Exit status: 0 = all decisions are the same; 1 = one differs; 2 = invalid input; 3 =
    the database cannot be read, or a record cannot be replayed.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    with open_to_read(platform, load_settings(config)) as store:
        cycles = store.cycles(run=run, last=last)
        replayed = [replay(cycle) for cycle in cycles]
    if run is not None and not replayed:
        raise ConfigurationError(
            f"--run: no recorded cycle with its inputs: {repr_value(run)}",
            code=DiagnosticCode.UNKNOWN_NAME,
        )
    if output_format == JSON:
        print_json([_document(each) for each in replayed])
    else:
        _print(replayed, show_all=show_all)
    return 0 if all(each.is_same for each in replayed) else DIFFERENT


def _print(replayed: Sequence[ReplayedDecision], *, show_all: bool) -> None:
    screen = console()
    different = sum(not each.is_same for each in replayed)
    count = format_count(len(replayed), "decision")
    screen.print(
        f"replay: {count}: " + (f"{different} differ" if different else "all the same")
        if replayed
        else "replay: no recorded cycle"
    )
    listed = [each for each in replayed if show_all or not each.is_same]
    if not listed:
        return
    table = create_table(
        "cycle", "policy", "reason", "steps", "result", right=["steps"]
    )
    for each in listed:
        add_row(
            table,
            each.run,
            each.policy,
            str(each.recorded["reason"]),
            str(len(each.recorded["steps"])),
            "same" if each.is_same else _difference(each),
        )
    screen.print()
    screen.print(table)


def _difference(each: ReplayedDecision) -> str:
    """Return which parts of the decision differ."""
    parts = [
        name
        for name, value in each.recorded.items()
        if value != each.repeated.get(name)
    ]
    return f"differs: {', '.join(parts) or 'order of fields'}"


def _document(each: ReplayedDecision) -> dict[str, object]:
    return {
        "run": each.run,
        "decided_at": format_timestamp(each.decided_at),
        "policy": each.policy,
        "same": each.is_same,
        "recorded": each.recorded,
        "repeated": each.repeated,
    }
