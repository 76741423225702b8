"""The command `opendrs undrain`: let a drained node receive guests again."""

from __future__ import annotations

from pathlib import Path

import click

from opendrs.cli.apply_cycle import FAILURE
from opendrs.cli.console import console, print_json
from opendrs.cli.controller_policies import configured_policy
from opendrs.cli.drain_requests import end_drain, read_drained_nodes
from opendrs.cli.maintenance_cycles import (
    MaintenanceResult,
    MaintenanceTask,
    run_maintenance,
)
from opendrs.cli.options import JSON, config_option, format_option
from opendrs.cli.output import record_document
from opendrs.cli.sources import load_settings, open_source, require_writable
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

    With --bring-back, the guests return that the drain has moved. Each of them is tried
    once. If a controller runs, its next cycle returns them; otherwise this command
    does.

    \b
      opendrs undrain lab n1
      opendrs undrain lab n1 --bring-back

    Exit status: 0 done; 3 a guest could not be returned.
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
    return _report(node, result, output_format, bring_back=bring_back)


def _report(
    node: str, result: MaintenanceResult | None, output_format: str, *, bring_back: bool
) -> int:
    records = () if result is None else result.records
    done = sum(record.outcome is Outcome.DONE for record in records)
    if output_format == JSON:
        print_json(
            {
                "node": node,
                "bring_back": bring_back,
                "executed_by": "controller" if result is None else "undrain",
                "records": [record_document(each) for each in records],
            }
        )
    else:
        screen = console()
        screen.print(f"{node} is no longer drained.")
        if result is None:
            screen.print("A controller is running: its next cycle returns the guests.")
        elif bring_back:
            screen.print(f"{format_count(done, 'guest')} returned.")
    return 0 if done == len(records) else FAILURE
