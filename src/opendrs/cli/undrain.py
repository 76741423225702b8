"""The command `opendrs undrain`: let a drained node receive guests again."""

from __future__ import annotations

from pathlib import Path

import click

from opendrs.cli.apply_cycle import FAILURE, INCOMPLETE
from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json, warn
from opendrs.cli.controller_policies import configured_policy
from opendrs.cli.drain_requests import (
    end_drain,
    read_drained_nodes,
    return_blocker,
)
from opendrs.cli.maintenance_cycles import (
    MaintenanceResult,
    MaintenanceTask,
    run_maintenance,
)
from opendrs.cli.options import JSON, config_option, format_option
from opendrs.cli.output import record_document
from opendrs.cli.sources import open_source, require_writable
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import repr_value
from opendrs.model import format_count
from opendrs.ports import Outcome


@click.command(name="undrain")
@click.argument("platform", metavar="PLATFORM")
@click.argument("node", metavar="NODE")
@click.option(
    "--bring-back",
    is_flag=True,
    help="Return the guests that the drain has moved, if they are still where it put "
    "them and the rules allow it.",
)
@config_option
@format_option
def command(
    *,
    platform: str,
    node: str,
    bring_back: bool,
    config: Path | None,
    output_format: str,
) -> int:
    """End the drain of a node: it receives guests again.

    With --bring-back, the guests that the drain has moved return. Each of them is tried
    once. If a controller runs, its next cycle returns them, provided that its mode
    allows that. If no controller runs, this command returns them.

    \b
      opendrs undrain lab n1
      opendrs undrain lab n1 --bring-back

    Exit status: 0 = done; 1 = the mode of the controller prevents the return; 3 = a
    guest could not be returned.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    settings.connection(platform)
    known = {each.node: each for each in read_drained_nodes(platform, settings)}
    if node not in known:
        names = ", ".join(known) or "none"
        raise ConfigurationError(
            f"{repr_value(node)}: not drained (drained: {names})",
            code=DiagnosticCode.UNKNOWN_NAME,
        )
    source = open_source(platform, settings)
    require_writable(source.platform)
    (drained,) = (each for name, each in known.items() if name == node)
    end_drain(source, settings, drained, bring_back=bring_back)
    result: MaintenanceResult | None = MaintenanceResult()
    if bring_back:
        result = run_maintenance(
            MaintenanceTask(
                command="undrain",
                source=source,
                settings=settings,
                policy=configured_policy(settings),
                shows_progress=output_format != JSON,
            )
        )
    blocker = return_blocker(source, settings) if result is None else ""
    if blocker:
        warn(blocker)
    return _report(node, result, blocker, output_format, bring_back=bring_back)


def _report(
    node: str,
    result: MaintenanceResult | None,
    blocker: str,
    output_format: str,
    *,
    bring_back: bool,
) -> int:
    """Show the result, and return the exit status.

    Args:
        node: The node.
        result: The steps; None if a controller returns the guests.
        blocker: Why the controller does not return them by itself; empty if it does.
        output_format: Tables or JSON.
        bring_back: True if guests are to return.
    """
    records = () if result is None else result.records
    done = sum(record.outcome is Outcome.DONE for record in records)
    if output_format == JSON:
        print_json(
            {
                "node": node,
                "bring_back": bring_back,
                "executed_by": "controller" if result is None else "undrain",
                "blocked": blocker or None,
                "records": [record_document(each) for each in records],
            }
        )
    else:
        screen = console()
        screen.print(f"{node} is no longer drained.")
        if result is None and not blocker:
            screen.print("A controller is running: its next cycle returns the guests.")
        elif bring_back and not blocker:
            screen.print(f"{format_count(done, 'guest')} returned.")
    if done < len(records):
        return FAILURE
    return INCOMPLETE if blocker else 0
