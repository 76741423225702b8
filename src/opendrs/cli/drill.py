"""opendrs drill: what the HA manager would do."""

from __future__ import annotations

from pathlib import Path

import click

from opendrs.cli.drill_course import hold
from opendrs.cli.drill_loss import LossOptions, lose_each, lose_these
from opendrs.cli.drill_output import FORMATS, Output
from opendrs.cli.options import config_option, source_argument
from opendrs.errors import ConfigurationError


@click.command(name="drill")
@source_argument
@click.option(
    "--fail",
    "failing",
    multiple=True,
    metavar="NODE",
    help="SOURCE is a cluster in which this host dies now; may be repeated.",
)
@click.option("--fail-each", is_flag=True, help="Each host in turn: N+1 or not.")
@click.option(
    "--all", "everyone", is_flag=True, help="Take every guest to be HA-managed."
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
    "form",
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
    failing: tuple[str, ...],
    fail_each: bool,
    everyone: bool,
    scheduler: str,
    expect: Path | None,
    form: str | None,
    output: Path | None,
    plot: Path | None,
    guests: bool,
    config: Path | None,
) -> int:
    """Drill the HA manager: hosts fail, guests recover, nothing is touched.

    SOURCE is a drill file (TOML), or a scenario directory in the layout of
    Proxmox VE. With --fail or --fail-each it is a cluster: a snapshot file, a
    platform of the configuration, or the word demo.

    \b
      opendrs drill power-loss.toml             what happens, second by second
      opendrs drill power-loss.toml --plot power-loss.svg
      opendrs drill scenario --expect scenario/log.expect
      opendrs drill cluster.json --fail node3   what restarts where, and fits
      opendrs drill demo --fail-each            does it survive any one loss?

    Exit status: 0 as expected, or the cluster survives; 1 not so; 2 a mistake
    in the file.
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    wanted = Output(form=form, log=output, plot=plot, guests=guests)
    wanted.check()
    if not failing and not fail_each:
        _refuse(everyone, "--all", "--fail or --fail-each")
        return hold(source, wanted, expect)
    _refuse(expect is not None, "--expect", "a drill, not --fail")
    options = LossOptions(everyone=everyone, scheduler=scheduler, config=config)
    if fail_each:
        _refuse(bool(failing), "--fail", "one host or some, --fail-each for all")
        _refuse(plot is not None or output is not None, "--plot or --output", "--fail")
        return lose_each(source, options, wanted)
    return lose_these(source, failing, options, wanted)


def _refuse(said: bool, option: str, use: str) -> None:  # noqa: FBT001 - a condition
    """Raise a complaint about an option that does not go with the others."""
    if said:
        raise ConfigurationError(f"{option} is for {use}")
