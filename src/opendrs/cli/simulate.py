"""opendrs simulate: what a policy does over recorded or drawn load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from opendrs.cli.options import JSON, format_option, seed_option, set_option
from opendrs.cli.screen import add_row, console, print_json, table, visible
from opendrs.cli.simulated import (
    Report,
    cloudsim_report,
    opendrs_report,
    require_place,
    write_report,
)
from opendrs.controller.selection import parse_assignments
from opendrs.errors import ConfigurationError
from opendrs.sim.consolidation.readers import READERS
from opendrs.sim.consolidation.synthetic import Synthetic, synthetic
from opendrs.sim.consolidation.workload import Workload

OPENDRS, CLOUDSIM = "opendrs", "cloudsim-3.0.3"
SYNTHETIC = "synthetic"


@click.command(name="simulate")
@click.argument("kind", type=click.Choice([*READERS, SYNTHETIC]), metavar="KIND")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--model", type=click.Choice([OPENDRS, CLOUDSIM]), default=OPENDRS)
@click.option(
    "--policy",
    metavar="NAME",
    help="consolidate (the default) or none; with cloudsim-3.0.3 npa, dvfs, or such as "
    "lr-mmt-1.2 (default thr-mmt).",
)
@set_option
@click.option("--hosts", type=click.IntRange(1, 10**6), default=800, show_default=True)
@click.option(
    "--memory",
    type=click.FloatRange(1, 10**9),
    default=65_536.0,
    help="MB of each host; 65536, so that CPU is what is short.",
)
@click.option(
    "--apart",
    type=click.IntRange(0, 10**6),
    default=0,
    help="How many guests at a time, by name, must be on different hosts.",
)
@click.option("--guests", type=click.IntRange(1, 10**6), default=1000)
@click.option("--days", type=click.IntRange(1, 366), default=1)
@seed_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the metrics to FILE.json or FILE.csv.",
)
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    kind: str,
    path: Path | None,
    model: str,
    policy: str | None,
    assignments: tuple[str, ...],
    hosts: int,
    memory: float,
    apart: int,
    guests: int,
    days: int,
    seed: int,
    out: Path | None,
    form: str,
) -> None:
    """Say what a policy costs over recorded or drawn load.

    KIND is what PATH holds: planetlab or google, a directory or tar archive with a
    file per guest, or csv; or synthetic, which needs no PATH and takes --guests,
    --days and --seed.

    \b
      opendrs simulate planetlab 20110303.tar.gz
      opendrs simulate planetlab 20110303.tar.gz --set target=0.85
      opendrs simulate planetlab 20110303.tar.gz --model cloudsim-3.0.3 --policy lr-mmt
      opendrs simulate synthetic --guests 5000 --hosts 1000 --out day.csv
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    require_place(out)
    settings = parse_assignments(assignments)
    if model == CLOUDSIM:
        if kind != "planetlab" or settings or apart:
            raise ConfigurationError(
                f"{CLOUDSIM} runs planetlab, and takes neither --set nor --apart"
            )
        report = cloudsim_report(_required(kind, path), policy, hosts, seed)
    else:
        work = _workload(kind, path, Synthetic(guests=guests, days=days, seed=seed))
        with _progress() as tell:
            report = opendrs_report(
                work,
                policy,
                settings,
                hosts=hosts,
                memory=memory,
                apart=apart,
                progress=tell,
            )
    write_report(report, out)
    if form == JSON:
        print_json(report.document())
    else:
        _print(report)


def _workload(kind: str, path: Path | None, drawn: Synthetic) -> Workload:
    if kind == SYNTHETIC:
        if path is not None:
            raise ConfigurationError(f"synthetic takes no PATH, found {path}")
        return synthetic(drawn)
    return READERS[kind](_required(kind, path))


def _required(kind: str, path: Path | None) -> Path:
    if path is None:
        raise ConfigurationError(f"{kind} needs a PATH")
    return path


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Give what shows on a terminal how far a run is."""
    if not sys.stderr.isatty():
        yield None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print(report: Report) -> None:
    screen = console()
    screen.print(visible(f"{report.model}: {report.policy}"))
    screen.print()
    made = table("metric", "", right=[""])
    for name, value in report.metrics.items():
        add_row(made, name.replace("_", " "), _figure(value))
    screen.print(made)
    for note in report.notes:
        screen.print(visible(note))


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:.0f}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.1f}"
