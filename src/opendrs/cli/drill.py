"""The command opendrs drill: failure drills of the HA manager."""

from __future__ import annotations

from pathlib import Path

import click

from opendrs.cli.drill_failure import (
    FailureOptions,
    simulate_each_failure,
    simulate_failure,
)
from opendrs.cli.drill_output import FORMATS, DrillOutput
from opendrs.cli.drill_run import run_drill_command
from opendrs.cli.options import config_option, source_argument
from opendrs.errors import ConfigurationError, DiagnosticCode


@click.command(name="drill")
@source_argument
@click.option(
    "--fail",
    "failed_nodes",
    multiple=True,
    metavar="NODE",
    help="Fail this node of the cluster SOURCE; can be repeated.",
)
@click.option(
    "--each-node",
    is_flag=True,
    help="Fail each node in turn; checks whether the cluster survives any one failure.",
)
@click.option(
    "--assume-ha", "assume_ha", is_flag=True, help="Treat all guests as HA-managed."
)
@click.option(
    "--scheduler",
    type=click.Choice(["basic", "static", "dynamic"]),
    default="basic",
    help="CRS mode with which the HA manager selects nodes, with --fail or --each-node "
    "(default basic).",
)
@click.option(
    "--expect",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare the log with this file and print the differences.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(FORMATS),
    default=None,
    help="Log of Proxmox VE, JSON lines, or tables (default log; with --fail table).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the log to this file.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a plot of guests over time to this file: *.svg or *.png.",
)
@click.option(
    "--guests", is_flag=True, help="List all affected guests instead of at most 20."
)
@config_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    failed_nodes: tuple[str, ...],
    each_node: bool,
    assume_ha: bool,
    scheduler: str,
    expect: Path | None,
    output_format: str | None,
    output: Path | None,
    plot: Path | None,
    guests: bool,
    config: Path | None,
) -> int:
    """Test the HA manager on simulated nodes with injected failures.

    SOURCE is a drill file (TOML) or a scenario directory of Proxmox VE. With --fail or
    --each-node, SOURCE is a cluster: a snapshot file, a platform of the configuration,
    or demo. The cluster itself is never changed.

    \b
      opendrs drill power-loss.toml             run the drill and print its log
      opendrs drill power-loss.toml --plot power-loss.svg
      opendrs drill scenario --expect scenario/log.expect
      opendrs drill cluster.json --fail node3   target and downtime of guests
      opendrs drill demo --each-node            simulate the failure of each node

    Exit status: 0 = as expected, or the cluster survives; 1 = an expectation failed, or
    the cluster does not survive; 2 = invalid file or options.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    drill_output = DrillOutput(
        output_format=output_format, log=output, plot=plot, guests=guests
    )
    drill_output.check()
    if not failed_nodes and not each_node:
        if assume_ha:
            raise _conflict("--assume-ha: requires --fail or --each-node")
        return run_drill_command(source, drill_output, expect)
    if expect is not None:
        raise _conflict("--expect: not allowed with --fail or --each-node")
    options = FailureOptions(assume_ha=assume_ha, scheduler=scheduler, config=config)
    if each_node:
        if failed_nodes:
            raise _conflict("--fail: not allowed with --each-node")
        if plot is not None or output is not None:
            raise _conflict("--plot, --output: not allowed with --each-node")
        return simulate_each_failure(source, options, drill_output)
    return simulate_failure(source, failed_nodes, options, drill_output)


def _conflict(message: str) -> ConfigurationError:
    return ConfigurationError(message, code=DiagnosticCode.INCONSISTENT)
