"""opendrs simulate: what policies do over recorded or drawn load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.progress import (
    BarColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from opendrs.cli.live import progress_bars
from opendrs.cli.options import JSON, AmountRange, format_option, set_option
from opendrs.cli.screen import add_row, console, print_json, table, visible
from opendrs.cli.simulated import (
    Outputs,
    Report,
    document,
    inputs_of,
    simulated,
    title_of,
)
from opendrs.controller.selection import parse_assignments
from opendrs.errors import ConfigurationError
from opendrs.model.limits import LONGEST_TIME
from opendrs.model.quantities import MEBIBYTES, TIME
from opendrs.sim.consolidation.hardware import HOSTS
from opendrs.sim.consolidation.readers import READERS
from opendrs.sim.consolidation.scenario.asked import Asked, changed, scenario_asked
from opendrs.sim.consolidation.scenario.parts import (
    KINDS,
    LARGEST_SEED,
    MOST_DAYS,
    MOST_GUESTS,
    SYNTHETIC,
)
from opendrs.sim.consolidation.scenario.reading import read_scenario
from opendrs.sim.consolidation.scenario.scenario import Model, Scenario

FILES = (".toml", ".json")
HELP = f"""Say what policies cost over recorded or drawn load.

SCENARIO is a file that says all of it, and ends in .toml or .json. KIND is what PATH
holds: {", ".join(READERS)}; or {SYNTHETIC}, which needs no PATH.

\b
  opendrs simulate day.toml --plot day.svg
  opendrs simulate planetlab 20110303.tar.gz
  opendrs simulate planetlab 20110303.tar.gz --policy consolidate --policy lr-mmt
  opendrs simulate planetlab 20110303.tar.gz --model cloudsim-3.0.3 --policy lr-mmt
  opendrs simulate synthetic --guests 5000 --set target=0.85 --series day.parquet
"""


@click.command(name="simulate", help=HELP)
@click.argument("source", metavar="SCENARIO|KIND")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option(
    "--model",
    type=click.Choice([each.value for each in Model]),
    help="Default: opendrs.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="consolidate (the default), none, or a policy of CloudSim or Neat such as "
    "lr-mmt-1.2 or neat-mhod-0.1; with cloudsim-3.0.3 npa, dvfs, or such as lr-mmt-1.2 "
    "(default thr-mmt). Several are compared.",
)
@set_option
@click.option(
    "--hosts", type=click.IntRange(1, 10**6), help=f"How many; {HOSTS} unless said."
)
@click.option(
    "--memory",
    type=AmountRange(MEBIBYTES, 1, 10**9),
    metavar="MB",
    help="Memory of each host, also '64 GiB'; 65536 unless said, so that CPU is what "
    "is short.",
)
@click.option(
    "--apart",
    type=click.IntRange(0, MOST_GUESTS),
    help="How many guests at a time, by name, must be on different hosts.",
)
@click.option(
    "--guests",
    type=click.IntRange(1, MOST_GUESTS),
    help="How many are drawn; of a trace, the first so many by name.",
)
@click.option(
    "--days",
    type=click.FloatRange(0, MOST_DAYS, min_open=True),
    help="For how long; whole days of synthetic load.",
)
@click.option(
    "--start",
    type=AmountRange(TIME, 0, LONGEST_TIME),
    metavar="SECONDS",
    help="Where to begin in a trace; also '1 d'.",
)
@click.option(
    "--interval",
    type=AmountRange(TIME, 0, LONGEST_TIME),
    metavar="SECONDS",
    help="From one sample of a trace to the next, also '10 min', if not as recorded.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, LARGEST_SEED),
    metavar="N",
    help="Of what is drawn by chance; 1 unless said.",
)
@click.option(
    "--out",
    "metrics",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the metrics to FILE.json, .csv or .parquet; may be repeated.",
)
@click.option(
    "--series",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what happens in each interval to FILE.json, .csv or .parquet.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw load and number of hosts over time, and of several policies energy "
    "against SLAV, to FILE.svg, .png or .pdf.",
)
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    path: Path | None,
    policies: tuple[str, ...],
    assignments: tuple[str, ...],
    metrics: tuple[Path, ...],
    series: Path | None,
    plot: Path | None,
    form: str,
    **said: str | float | None,
) -> None:
    """Simulate, and tell what came of it; see HELP."""
    settings = parse_assignments(assignments)
    outputs = Outputs(metrics=metrics, series=series, plot=plot)
    asked = Asked(
        **{name: value for name, value in said.items() if value is not None},  # type: ignore[arg-type]
        policies=policies,
        settings=settings,
    )
    scenario, read = _scenario(source, path, asked)
    outputs.check([*read, *inputs_of(scenario)])
    with _progress() as progress:
        reports = simulated(scenario, outputs, progress)
    outputs.write(title_of(scenario), reports)
    if form == JSON:
        print_json(document(reports))
    else:
        _print(reports)


def _scenario(
    source: str, path: Path | None, asked: Asked
) -> tuple[Scenario, list[Path]]:
    """Return what to run, and the files that say so."""
    if source in KINDS:
        return scenario_asked(source, path, asked), []
    file = Path(source)
    if file.suffix not in FILES:
        raise ConfigurationError(
            f"{source}: expected a scenario file (.toml or .json), or one of "
            f"{', '.join(KINDS)}"
        )
    if path is not None:
        raise ConfigurationError(f"a scenario takes no PATH, found {path}")
    return read_scenario(file, changed(asked)), [file]


@contextmanager
def _progress() -> Iterator[Callable[[str], Callable[[int, int], None] | None]]:
    """Give what shows on a terminal how far each run is."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with progress_bars(*columns) as bars:
        if bars is None:
            yield lambda _: None
            return

        def begin(name: str) -> Callable[[int, int], None]:
            task = bars.add_task(visible(name), total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield begin


def _print(reports: Sequence[Report]) -> None:
    screen = console()
    names = [report.policy for report in reports]
    screen.print(visible(f"{reports[0].model}: {', '.join(names)}"))
    screen.print()
    heads = names if len(names) > 1 else [""]
    made = table("metric", *map(visible, heads), right=list(map(visible, heads)))
    for metric in reports[0].metrics:
        figures = [_figure(report.metrics.get(metric)) for report in reports]
        add_row(made, metric.replace("_", " "), *figures)
    screen.print(made)
    for note in reports[0].notes:
        screen.print(visible(note))


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:.0f}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.1f}"
