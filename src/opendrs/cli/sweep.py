"""The command `opendrs sweep`: all combinations of policies, settings and loads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from opendrs.cli.console import print_json, printable
from opendrs.cli.options import JSON, IntegerRange, format_option
from opendrs.cli.progress import counting_bars
from opendrs.cli.sweep_report import (
    SweepReport,
    draw_sweep_report,
    print_sweep,
    sweep_document,
)
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import format_count
from opendrs.simulation.atomic_output import PLOT_SUFFIXES, check_outputs
from opendrs.simulation.sweep.checkpoint import checkpoint_path
from opendrs.simulation.sweep.dask_cluster import connect, run_on_cluster
from opendrs.simulation.sweep.grid import SweepGrid
from opendrs.simulation.sweep.parsing import read_sweep
from opendrs.simulation.sweep.results import METRICS, sweep_candidates
from opendrs.simulation.sweep.run import (
    PreparedTrial,
    TaskRunner,
    finished_rows,
    prepare_trials,
    run_sweep,
)
from opendrs.simulation.sweep.tasks import (
    SweepTask,
    TaskResults,
    available_cores,
    run_locally,
)

RESULT_SUFFIXES = (".parquet",)
ProgressFactory = Callable[[str], Callable[[int, int], None]]


@click.command(name="sweep")
@click.argument("file", metavar="SWEEP", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The results, one row for each run (default: SWEEP with the suffix .parquet).",
)
@click.option(
    "--jobs",
    type=IntegerRange(1, 4096),
    metavar="N",
    help="Number of processes (default: the number of cores).",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on the Dask cluster with this scheduler, such as tcp://host:8786.",
)
@click.option(
    "--front",
    nargs=2,
    type=click.Choice(METRICS),
    default=("energy_kwh", "slav"),
    metavar="METRIC METRIC",
    help="The metrics of the Pareto front, both minimized (default energy_kwh slav).",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot both metrics and the front to FILE.svg, .png or .pdf.",
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
    output_format: str,
) -> None:
    """Simulate all combinations of policies, settings, loads and seeds.

    SWEEP is a scenario file with lists of values instead of single values; every
    combination is run. Finished runs are stored: a sweep that was stopped or killed
    continues with the missing ones. The table marks the candidates on the Pareto
    front: no other candidate is better in both metrics.

    \b
      opendrs sweep settings.toml
      opendrs sweep settings.toml --jobs 8 --plot front.svg
      opendrs sweep settings.toml --front energy_kwh migrations
      opendrs sweep settings.toml --scheduler tcp://10.0.0.1:8786
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    if jobs is not None and scheduler is not None:
        raise ConfigurationError(
            "--jobs: cannot be combined with --scheduler",
            code=DiagnosticCode.INCONSISTENT,
        )
    if front[0] == front[1]:
        raise ConfigurationError(
            f"--front: expected two different metrics, got {front[0]} twice",
            code=DiagnosticCode.DUPLICATE_NAME,
        )
    grid = read_sweep(file)
    results = file.with_suffix(".parquet") if out is None else out
    outputs = [(results, RESULT_SUFFIXES), *([(plot, PLOT_SUFFIXES)] if plot else [])]
    check_outputs(outputs, [file, *grid.inputs()])
    existing = finished_rows(results)
    with (
        _workers(scheduler, jobs or available_cores()) as execute,
        _trial_progress() as create_progress,
    ):
        trials = prepare_trials(grid, create_progress("reading"))
        with _report_interruption(results, trials):
            rows = run_sweep(trials, results, execute, create_progress("running"))
    report = SweepReport(
        title=_title(grid, file),
        results=results,
        computed=sum(each.identity not in existing for each in trials),
        runs=len(trials),
        front=front,
        candidates=sweep_candidates([each.trial for each in trials], rows, front),
    )
    if output_format == JSON:
        print_json(sweep_document(report))
    else:
        print_sweep(report)
    if plot is not None:
        draw_sweep_report(report, plot)


def _title(grid: SweepGrid, file: Path) -> str:
    return grid.title or file.stem


@contextmanager
def _report_interruption(
    results: Path, trials: Sequence[PreparedTrial]
) -> Iterator[None]:
    """Print how many runs are stored when a sweep is interrupted."""
    try:
        yield
    except BaseException:
        checkpoint = checkpoint_path(results)
        with suppress(ConfigurationError):
            existing = finished_rows(results)
            completed = sum(each.identity in existing for each in trials)
            if checkpoint.exists() and completed:
                runs = format_count(len(trials), "run")
                click.echo(
                    f"opendrs: interrupted: {completed} of {runs} finished and stored; "
                    "repeat the command to continue",
                    err=True,
                )
        raise


@contextmanager
def _workers(scheduler: str | None, jobs: int) -> Iterator[TaskRunner]:
    """Yield the task runner: local processes, or the Dask cluster at *scheduler*."""
    if scheduler is None:
        yield lambda tasks: run_locally(tasks, jobs)
        return
    with connect(scheduler) as client:

        def execute(tasks: Sequence[SweepTask]) -> TaskResults:
            return run_on_cluster(client, tasks, _print_event)

        yield execute


def _print_event(event: str) -> None:
    """Write a line to standard error; click.echo would overwrite the progress bars."""
    sys.stderr.write(f"{printable(event)}\n")


@contextmanager
def _trial_progress() -> Iterator[ProgressFactory]:
    """Yield a function that starts the progress bar of a phase on a terminal."""
    with counting_bars() as bars:
        if bars is None:
            yield lambda _: _ignore_progress
            return

        def start_phase(name: str) -> Callable[[int, int], None]:
            task = bars.add_task(printable(name), total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield start_phase


def _ignore_progress(done: int, total: int) -> None:
    del done, total
