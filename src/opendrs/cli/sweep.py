"""opendrs sweep: policies, settings, loads and seeds, in every combination."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from opendrs.cli.figures import counted
from opendrs.cli.live import counting_bars
from opendrs.cli.options import JSON, format_option
from opendrs.cli.screen import print_json, visible
from opendrs.cli.swept import Outcome, document, draw, print_outcome
from opendrs.errors import ConfigurationError
from opendrs.sim.consolidation.outputs import PICTURES, require_outputs
from opendrs.sim.consolidation.sweep.cluster import on_cluster
from opendrs.sim.consolidation.sweep.form import read_sweep
from opendrs.sim.consolidation.sweep.grid import Grid
from opendrs.sim.consolidation.sweep.journal import journal_path
from opendrs.sim.consolidation.sweep.local import cores, locally
from opendrs.sim.consolidation.sweep.results import METRICS
from opendrs.sim.consolidation.sweep.running import (
    Entry,
    Work,
    finished,
    kept,
    prepared,
)
from opendrs.sim.consolidation.sweep.scheduler import connected
from opendrs.sim.consolidation.sweep.summary import candidates
from opendrs.sim.consolidation.sweep.task import Done, Task

RESULTS = (".parquet",)
Tell = Callable[[str], Callable[[int, int], None]]


@click.command(name="sweep")
@click.argument("file", metavar="SWEEP", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The results, a row for each run; SWEEP with .parquet unless said.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="How many processes run; as many as there are cores unless said.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on the Dask cluster whose scheduler is there, such as tcp://host:8786.",
)
@click.option(
    "--front",
    nargs=2,
    type=click.Choice(METRICS),
    default=("energy_kwh", "slav"),
    metavar="METRIC METRIC",
    help="Which two metrics are weighed, less being better; energy_kwh and slav.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw them, and the front, to FILE.svg, .png or .pdf.",
)
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    file: Path,
    out: Path | None,
    jobs: int | None,
    scheduler: str | None,
    front: tuple[str, str],
    plot: Path | None,
    form: str,
) -> None:
    """Try policies with many settings over many loads and seeds.

    SWEEP is a scenario file in which lists of values stand where a scenario has one:
    every combination runs. What is finished is kept; a sweep that was stopped, or
    killed, goes on where it was. The table marks who is not beaten in both metrics.

    \b
      opendrs sweep settings.toml
      opendrs sweep settings.toml --jobs 8 --plot front.svg
      opendrs sweep settings.toml --front energy_kwh migrations
      opendrs sweep settings.toml --scheduler tcp://10.0.0.1:8786
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    if jobs is not None and scheduler is not None:
        raise ConfigurationError("--jobs is for this machine: not with --scheduler")
    if front[0] == front[1]:
        raise ConfigurationError(
            f"--front: expected two different metrics, found {front[0]} twice"
        )
    grid = read_sweep(file)
    results = file.with_suffix(".parquet") if out is None else out
    wanted = [(results, RESULTS), *([(plot, PICTURES)] if plot else [])]
    require_outputs(wanted, [file, *grid.inputs()])
    earlier = kept(results)
    with _workers(scheduler, jobs or cores()) as work, _progress() as tell:
        entries = prepared(grid, tell("reading"))
        with _told_when_stopped(results, entries):
            rows = finished(entries, results, work, tell("running"))
    outcome = Outcome(
        title=_title(grid, file),
        results=results,
        computed=sum(each.identity not in earlier for each in entries),
        runs=len(entries),
        front=front,
        candidates=candidates([each.trial for each in entries], rows, front),
    )
    if form == JSON:
        print_json(document(outcome))
    else:
        print_outcome(outcome)
    if plot is not None:
        draw(outcome, plot)


def _title(grid: Grid, file: Path) -> str:
    return grid.title or file.stem


@contextmanager
def _told_when_stopped(results: Path, entries: Sequence[Entry]) -> Iterator[None]:
    """Say what is kept when a sweep does not come to its end."""
    try:
        yield
    except BaseException:
        journal = journal_path(results)
        with suppress(ConfigurationError):
            found = kept(results)
            done = sum(each.identity in found for each in entries)
            if journal.exists() and done:
                click.echo(
                    f"opendrs: {done} of {counted(len(entries), 'run')} done and kept; "
                    "the same command goes on from there",
                    err=True,
                )
        raise


@contextmanager
def _workers(scheduler: str | None, jobs: int) -> Iterator[Work]:
    """Give whoever does the runs."""
    if scheduler is None:
        yield lambda tasks: locally(tasks, jobs)
        return
    with connected(scheduler) as client:

        def work(tasks: Sequence[Task]) -> Done:
            return on_cluster(client, tasks, _report)

        yield work


def _report(event: str) -> None:
    """Write a line to standard error; click.echo would write across the bars."""
    sys.stderr.write(f"{visible(event)}\n")


@contextmanager
def _progress() -> Iterator[Tell]:
    """Give what shows on a terminal how far everything is."""
    with counting_bars() as bars:
        if bars is None:
            yield lambda _: _silent
            return

        def begin(name: str) -> Callable[[int, int], None]:
            task = bars.add_task(visible(name), total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield begin


def _silent(done: int, total: int) -> None:
    del done, total
