"""Runs and reports of a simulation, and the files they are written to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opendrs.model import format_count
from opendrs.simulation.atomic_output import (
    PLOT_SUFFIXES,
    TABLE_SUFFIXES,
    AtomicFiles,
    CellValue,
    check_outputs,
    json_bytes,
    table_bytes,
)
from opendrs.simulation.scenario.definition import (
    PolicyRun,
    RecordedWorkload,
    SimulationScenario,
    source_name,
)
from opendrs.simulation.scenario.run import (
    MetricValues,
    SimulationLoad,
    check_initial_placement,
    read_load,
    simulate_policy,
)
from opendrs.simulation.time_series import TimeSeriesRecorder
from opendrs.simulation.workload import Workload

ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """Result of the simulation of one policy.

    Attributes:
        model: The simulation model.
        policy: The label of the policy.
        settings: The settings that were given; others have their defaults.
        metrics: The metrics by name.
        notes: Changes that were made to the load when it was read.
        recorder: The recorded time series; None if it was not requested.
    """

    model: str
    policy: str
    settings: Mapping[str, object] = field(default_factory=dict)
    metrics: MetricValues = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    recorder: TimeSeriesRecorder | None = None

    def document(self) -> dict[str, object]:
        """Return the report as a JSON document, without the time series."""
        return {
            "model": self.model,
            "policy": self.policy,
            "settings": dict(self.settings),
            "metrics": dict(self.metrics),
            "notes": list(self.notes),
        }

    def row(self) -> dict[str, CellValue]:
        """Return the report as a table row; settings are JSON text."""
        settings = json.dumps(dict(self.settings), ensure_ascii=False)
        first = {"model": self.model, "policy": self.policy, "settings": settings}
        return {**first, **self.metrics}


def reports_document(reports: Sequence[SimulationReport]) -> object:
    """Return *reports* as a JSON document: an object for one, a list for several."""
    documents = [report.document() for report in reports]
    return documents[0] if len(documents) == 1 else documents


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOutputs:
    """The output files.

    Attributes:
        metrics: Files for the metrics.
        series: File for the time series; None for no file.
        plot: File for the plot; None for no file.
    """

    metrics: tuple[Path, ...] = ()
    series: Path | None = None
    plot: Path | None = None

    def check(self, inputs: Sequence[Path]) -> None:
        """Check the output files before a long run.

        Args:
            inputs: Input files, which must not be overwritten.

        Raises:
            InvalidFileError: A name has an unsupported suffix, occurs twice, is that
                of an input, or is in a directory that does not exist.
        """
        tables = [*self.metrics, *([self.series] if self.series else [])]
        plots = [self.plot] if self.plot else []
        check_outputs(
            [
                *((path, TABLE_SUFFIXES) for path in tables),
                *((path, PLOT_SUFFIXES) for path in plots),
            ],
            inputs,
        )

    def write(self, title: str, reports: Sequence[SimulationReport]) -> None:
        """Write all files, or none.

        Raises:
            InvalidFileError: A file cannot be written.
        """
        with AtomicFiles() as files:
            for path in self.metrics:
                files.add(path, _metrics_content(reports, path.suffix))
            if self.series is not None:
                content = table_bytes(_series_columns(reports), self.series.suffix)
                files.add(self.series, content)
            if self.plot is not None:
                _draw_reports(title, reports, files.new(self.plot), self.plot.suffix)


def input_files(scenario: SimulationScenario) -> list[Path]:
    """Return the files that *scenario* is read from."""
    source = scenario.environment.source
    return [source.path] if isinstance(source, RecordedWorkload) else []


def run_scenario(
    scenario: SimulationScenario,
    outputs: SimulationOutputs,
    progress: Callable[[str], ProgressCallback | None],
) -> list[SimulationReport]:
    """Simulate each policy of *scenario* and return the reports.

    Args:
        scenario: The scenario.
        outputs: The output files; a time series is recorded only if one needs it.
        progress: Returns the progress callback of the policy with that label, or None.

    Raises:
        ConfigurationError: The load cannot be read, or the guests do not fit on the
            hosts.
    """
    load = read_load(scenario.environment.source, scenario.environment.model)
    for policy_run in scenario.policy_runs:
        check_initial_placement(scenario.environment, policy_run, load)
    return [
        _run_policy(scenario, policy_run, load, outputs, progress(policy_run.label))
        for policy_run in scenario.policy_runs
    ]


def _run_policy(
    scenario: SimulationScenario,
    policy_run: PolicyRun,
    load: SimulationLoad,
    outputs: SimulationOutputs,
    progress: ProgressCallback | None,
) -> SimulationReport:
    is_recorded = outputs.series is not None or outputs.plot is not None
    recorder = (
        TimeSeriesRecorder(with_frames=outputs.plot is not None)
        if is_recorded
        else None
    )
    metrics = simulate_policy(
        scenario.environment, policy_run, load, progress=progress, observer=recorder
    )
    return SimulationReport(
        model=scenario.environment.model,
        policy=policy_run.label,
        settings=policy_run.settings,
        metrics=metrics,
        notes=load.notes if isinstance(load, Workload) else (),
        recorder=recorder,
    )


def plot_title(scenario: SimulationScenario) -> str:
    """Return the title of the plots of *scenario*."""
    environment = scenario.environment
    hosts = sum(pool.count for pool in environment.pools)
    title = scenario.title or source_name(environment.source)
    return f"{title} ({format_count(hosts, 'host')}, model {environment.model})"


def _metrics_content(reports: Sequence[SimulationReport], suffix: str) -> bytes:
    if suffix == ".json":
        return json_bytes(reports_document(reports))
    rows = [report.row() for report in reports]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return table_bytes(columns, suffix)


def _series_columns(reports: Sequence[SimulationReport]) -> dict[str, list[CellValue]]:
    """Return the concatenated time series of *reports*, with the column `policy`."""
    columns: dict[str, list[CellValue]] = {}
    for name, recorder in _recorders(reports):
        parts = recorder.time_series().columns()
        length = len(parts["time_s"])
        columns.setdefault("policy", []).extend([name] * length)
        for column, values in parts.items():
            columns.setdefault(column, []).extend(values.tolist())
    return columns


def _recorders(
    reports: Sequence[SimulationReport],
) -> Iterator[tuple[str, TimeSeriesRecorder]]:
    for report in reports:
        assert report.recorder is not None  # noqa: S101 - for the type checker
        yield report.policy, report.recorder


def _draw_reports(
    title: str, reports: Sequence[SimulationReport], path: Path, suffix: str
) -> None:
    from opendrs.simulation.plots import (  # noqa: PLC0415
        PlottedRun,
        draw_runs,
    )

    runs = [
        PlottedRun(
            label=report.policy,
            series=recorder.time_series(),
            frames=recorder.load_frames(),
            energy_kwh=_nan_if_none(report.metrics["energy_kwh"]),
            slav=_nan_if_none(report.metrics["slav"]),
        )
        for report, (_, recorder) in zip(reports, _recorders(reports), strict=True)
    ]
    draw_runs(title, runs, path, suffix)


def _nan_if_none(value: float | None) -> float:
    return float("nan") if value is None else float(value)
