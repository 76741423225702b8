"""opendrs drill: what the HA manager would do."""

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
from opendrs.errors import ConfigurationError


@click.command(name="drill")
@source_argument
@click.option(
    "--fail",
    "failed_nodes",
    multiple=True,
    metavar="NODE",
    help="SOURCE is a cluster in which this host dies now; may be repeated.",
)
@click.option("--each-node", is_flag=True, help="Each host in turn: N+1 or not.")
@click.option(
    "--assume-ha", "assume_ha", is_flag=True, help="Take every guest to be HA-managed."
)
@click.option(
    "--scheduler",
    type=click.Choice(["basic", "static", "dynamic"]),
    default="basic",
    help="How the HA manager chooses nodes, with --fail; basic by default.",
)
@click.option(
    "--expect",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare with this log and show the difference.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(FORMATS),
    default=None,
    help="The log as Proxmox VE writes it, JSON lines, or tables.",
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
    help="Draw guests over nodes over time: *.svg or *.png.",
)
@click.option("--guests", is_flag=True, help="List all guests, however many.")
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
    """Drill the HA manager: hosts fail, guests recover, nothing is touched.

    SOURCE is a drill file (TOML), or a scenario directory in the layout of
    Proxmox VE. With --fail or --each-node it is a cluster: a snapshot file, a
    platform of the configuration, or the word demo.

    \b
      opendrs drill power-loss.toml             what happens, second by second
      opendrs drill power-loss.toml --plot power-loss.svg
      opendrs drill scenario --expect scenario/log.expect
      opendrs drill cluster.json --fail node3   what restarts where, and fits
      opendrs drill demo --each-node            does it survive any one loss?

    Exit status: 0 as expected, or the cluster survives; 1 not so; 2 a mistake
    in the file.
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    drill_output = DrillOutput(
        output_format=output_format, log=output, plot=plot, guests=guests
    )
    drill_output.check()
    if not failed_nodes and not each_node:
        _reject_options(assume_ha, "--assume-ha", "--fail or --each-node")
        return run_drill_command(source, drill_output, expect)
    _reject_options(expect is not None, "--expect", "a drill, not --fail")
    options = FailureOptions(assume_ha=assume_ha, scheduler=scheduler, config=config)
    if each_node:
        _reject_options(
            bool(failed_nodes), "--fail", "one host or some, --each-node for all"
        )
        _reject_options(
            plot is not None or output is not None, "--plot or --output", "--fail"
        )
        return simulate_each_failure(source, options, drill_output)
    return simulate_failure(source, failed_nodes, options, drill_output)


def _reject_options(given: bool, option: str, use: str) -> None:  # noqa: FBT001 - a condition
    """Raise a complaint about an option that does not go with the others."""
    if given:
        raise ConfigurationError(f"{option} is for {use}")
