"""The command `opendrs simulate`: cost of policies over recorded or synthetic load."""

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

from opendrs.cli.console import add_row, console, create_table, print_json, printable
from opendrs.cli.options import (
    JSON,
    IntegerRange,
    NumberRange,
    QuantityRange,
    format_option,
    set_option,
)
from opendrs.cli.progress import progress_bars
from opendrs.cli.simulation_report import (
    SimulationOutputs,
    SimulationReport,
    input_files,
    plot_title,
    reports_document,
    run_scenario,
)
from opendrs.config.policy_loading import parse_assignments
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import MAX_DURATION, MEBIBYTES, TIME
from opendrs.simulation.hardware import HOST_COUNT
from opendrs.simulation.metrics import metric_label
from opendrs.simulation.scenario.definition import SimulationModel, SimulationScenario
from opendrs.simulation.scenario.options import (
    ScenarioOptions,
    scenario_changes,
    scenario_from_options,
)
from opendrs.simulation.scenario.parsing import (
    MAX_DAYS,
    MAX_GUESTS,
    MAX_SEED,
    SYNTHETIC,
    WORKLOAD_KINDS,
    read_scenario,
)
from opendrs.simulation.traces import READERS

SCENARIO_SUFFIXES = (".toml", ".json")
COMMAND_HELP = f"""Compute the cost of policies over recorded or synthetic load.

SCENARIO is a scenario file in TOML or JSON. Without one, KIND is the format of the
trace in PATH: {", ".join(READERS)}; or {SYNTHETIC}, which needs no PATH. Prints energy,
SLA violation, migrations and other metrics of each policy.

SLATAH, PDM, SLAV and ESV are the metrics of Beloglazov and Buyya (2012). SLATAH is the
fraction of the active time of hosts in which they delivered less CPU than demanded. PDM
is the fraction of the demanded CPU that is lost to migrations. SLAV, the SLA violation,
is their product, and ESV is energy times SLAV. Smaller is better.

\b
  opendrs simulate day.toml --plot day.svg
  opendrs simulate planetlab 20110303.tar.gz
  opendrs simulate planetlab day.tar.gz --policy consolidate --policy lr-mmt
  opendrs simulate planetlab day.tar.gz --model cloudsim-3.0.3 --policy thr-mmt
  opendrs simulate synthetic --guests 5000 --set fill_target=0.85
"""


@click.command(name="simulate", help=COMMAND_HELP)
@click.argument("source", metavar="SCENARIO|KIND")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option(
    "--model",
    type=click.Choice([each.value for each in SimulationModel]),
    help="The simulation model (default opendrs).",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="A policy (default consolidate), none, or a policy of CloudSim or Neat such "
    "as lr-mmt-1.2 or neat-mhod-0.1. With the model cloudsim-3.0.3: npa, dvfs, or a "
    "policy such as lr-mmt-1.2 (default thr-mmt). Repeat it to compare policies.",
)
@set_option
@click.option(
    "--hosts",
    type=IntegerRange(1, 10**6),
    metavar="N",
    help=f"Number of hosts (default {HOST_COUNT}).",
)
@click.option(
    "--memory",
    type=QuantityRange(MEBIBYTES, 1, 10**9),
    metavar="MB",
    help="Memory of each host, also '64 GiB' (default 65536, so that only CPU is "
    "scarce).",
)
@click.option(
    "--anti-affinity-groups",
    type=IntegerRange(0, MAX_GUESTS),
    metavar="N",
    help="Anti-affinity: each N guests, in order of their names, must be on different "
    "hosts.",
)
@click.option(
    "--guests",
    type=IntegerRange(1, MAX_GUESTS),
    metavar="N",
    help="Number of synthetic guests; of a trace, use the first ones by name.",
)
@click.option(
    "--days",
    type=NumberRange(0, MAX_DAYS, min_open=True),
    metavar="DAYS",
    help="Simulated time in days; whole days for synthetic load.",
)
@click.option(
    "--start",
    type=QuantityRange(TIME, 0, MAX_DURATION),
    metavar="SECONDS",
    help="Offset of the first sample in a trace, also '1 d'.",
)
@click.option(
    "--interval",
    type=QuantityRange(TIME, 0, MAX_DURATION),
    metavar="SECONDS",
    help="Time between two samples of a trace, also '10 min' (default: as recorded).",
)
@click.option(
    "--seed",
    type=IntegerRange(0, MAX_SEED),
    metavar="N",
    help="Seed of the random generator (default 1).",
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
    help="Write a time series, one row per interval, to FILE.json, .csv or .parquet.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot load and number of hosts over time, and for several policies energy "
    "over SLAV, to FILE.svg, .png or .pdf.",
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
    output_format: str,
    **scenario_options: str | float | None,
) -> None:
    """Simulate and print the metrics; see COMMAND_HELP."""
    settings = parse_assignments(assignments)
    outputs = SimulationOutputs(metrics=metrics, series=series, plot=plot)
    options = ScenarioOptions(
        **{
            name: value for name, value in scenario_options.items() if value is not None
        },  # type: ignore[arg-type]
        policies=policies,
        settings=settings,
    )
    scenario, files = _load_scenario(source, path, options)
    outputs.check([*files, *input_files(scenario)])
    with _run_progress() as progress:
        reports = run_scenario(scenario, outputs, progress)
    outputs.write(plot_title(scenario), reports)
    if output_format == JSON:
        print_json(reports_document(reports))
    else:
        _print_reports(reports)


def _load_scenario(
    source: str, path: Path | None, options: ScenarioOptions
) -> tuple[SimulationScenario, list[Path]]:
    """Return the scenario, and the files it was read from."""
    if source in WORKLOAD_KINDS:
        return scenario_from_options(source, path, options), []
    file = Path(source)
    if file.suffix not in SCENARIO_SUFFIXES:
        raise ConfigurationError(
            f"{source}: expected a scenario file (.toml or .json), or one of "
            f"{', '.join(WORKLOAD_KINDS)}",
            code=DiagnosticCode.UNUSABLE_FILE,
        )
    if path is not None:
        raise ConfigurationError(
            f"{source}: a scenario file has no PATH: {path}; remove it",
            code=DiagnosticCode.INCONSISTENT,
        )
    return read_scenario(file, scenario_changes(options)), [file]


@contextmanager
def _run_progress() -> Iterator[Callable[[str], Callable[[int, int], None] | None]]:
    """Yield a function that shows the progress of each run on a terminal."""
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

        def start_run(name: str) -> Callable[[int, int], None]:
            task = bars.add_task(printable(name), total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield start_run


def _print_reports(reports: Sequence[SimulationReport]) -> None:
    screen = console()
    names = [report.policy for report in reports]
    screen.print(printable(f"model {reports[0].model}: {', '.join(names)}"))
    screen.print()
    headings = names if len(names) > 1 else [""]
    listing = create_table(
        "metric", *map(printable, headings), right=list(map(printable, headings))
    )
    for metric in reports[0].metrics:
        figures = [_metric_text(report.metrics.get(metric)) for report in reports]
        add_row(listing, metric_label(metric), *figures)
    screen.print(listing)
    for note in reports[0].notes:
        screen.print(printable(note))


def _metric_text(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:.0f}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.1f}"
