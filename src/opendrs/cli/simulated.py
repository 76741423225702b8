"""The reports of a simulation: run, told, and written to files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opendrs.sim.consolidation.outputs import (
    PICTURES,
    TABLES,
    Drafts,
    Value,
    json_bytes,
    require_outputs,
    table_bytes,
)
from opendrs.sim.consolidation.scenario.running import (
    Load,
    Metrics,
    load_of,
    metrics_of,
    require_room,
)
from opendrs.sim.consolidation.scenario.scenario import (
    Contender,
    Recorded,
    Scenario,
    source_name,
)
from opendrs.sim.consolidation.series import Recorder
from opendrs.sim.consolidation.workload import Workload

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was simulated, and what came of it.

    Attributes:
        model: Which model.
        policy: What the policy is called.
        settings: Its settings, as far as they were given.
        metrics: The metrics by name.
        notes: What was changed in reading.
        recorder: What happened in each interval; None unless it was asked for.
    """

    model: str
    policy: str
    settings: Mapping[str, object] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    recorder: Recorder | None = None

    def document(self) -> dict[str, object]:
        """Return all of it as plain values."""
        return {
            "model": self.model,
            "policy": self.policy,
            "settings": dict(self.settings),
            "metrics": dict(self.metrics),
            "notes": list(self.notes),
        }

    def row(self) -> dict[str, Value]:
        """Return it as a row of a table."""
        settings = json.dumps(dict(self.settings), ensure_ascii=False)
        first = {"model": self.model, "policy": self.policy, "settings": settings}
        return {**first, **self.metrics}


def document(reports: Sequence[Report]) -> object:
    """Return *reports* as plain values: one as it is, several as a list."""
    found = [report.document() for report in reports]
    return found[0] if len(found) == 1 else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The files that were asked for.

    Attributes:
        metrics: Where the metrics go.
        series: Where the series goes; None for nowhere.
        plot: Where the picture goes; None for nowhere.
    """

    metrics: tuple[Path, ...] = ()
    series: Path | None = None
    plot: Path | None = None

    def check(self, inputs: Sequence[Path]) -> None:
        """Check what can be checked before a long run.

        Args:
            inputs: Files that must not be written over.

        Raises:
            InvalidFileError: A name has another suffix, stands twice or is that of an
                input, or there is no place for it.
        """
        tables = [*self.metrics, *([self.series] if self.series else [])]
        pictures = [self.plot] if self.plot else []
        require_outputs(
            [
                *((path, TABLES) for path in tables),
                *((path, PICTURES) for path in pictures),
            ],
            inputs,
        )

    def write(self, title: str, reports: Sequence[Report]) -> None:
        """Write all of them, or none.

        Raises:
            InvalidFileError: One cannot be written.
        """
        with Drafts() as drafts:
            for path in self.metrics:
                drafts.add(path, _metrics(reports, path.suffix))
            if self.series is not None:
                content = table_bytes(_series(reports), self.series.suffix)
                drafts.add(self.series, content)
            if self.plot is not None:
                _draw(title, reports, drafts.new(self.plot), self.plot.suffix)


def inputs_of(scenario: Scenario) -> list[Path]:
    """Return the files that *scenario* is read from."""
    source = scenario.stage.source
    return [source.path] if isinstance(source, Recorded) else []


def simulated(
    scenario: Scenario,
    outputs: Outputs,
    progress: Callable[[str], Progress | None],
) -> list[Report]:
    """Return what each policy of *scenario* costs.

    Args:
        scenario: What to run.
        outputs: What is to be written of it; nothing else is recorded.
        progress: Makes what is told how far the policy of that name has come.

    Raises:
        ConfigurationError: The load cannot be read, or the guests find no room.
    """
    load = load_of(scenario.stage.source, scenario.stage.model)
    for contender in scenario.contenders:
        require_room(scenario.stage, contender, load)
    return [
        _report(scenario, contender, load, outputs, progress(contender.label))
        for contender in scenario.contenders
    ]


def _report(
    scenario: Scenario,
    contender: Contender,
    load: Load,
    outputs: Outputs,
    progress: Progress | None,
) -> Report:
    asked = outputs.series is not None or outputs.plot is not None
    recorder = Recorder(film=outputs.plot is not None) if asked else None
    metrics = metrics_of(
        scenario.stage, contender, load, progress=progress, watcher=recorder
    )
    return Report(
        model=scenario.stage.model,
        policy=contender.label,
        settings=contender.settings,
        metrics=metrics,
        notes=load.notes if isinstance(load, Workload) else (),
        recorder=recorder,
    )


def title_of(scenario: Scenario) -> str:
    """Return what stands above a picture of *scenario*."""
    stage = scenario.stage
    hosts = sum(pool.count for pool in stage.pools)
    title = scenario.title or source_name(stage.source)
    return f"{title} ({hosts} hosts, model {stage.model})"


def _metrics(reports: Sequence[Report], suffix: str) -> bytes:
    if suffix == ".json":
        return json_bytes(document(reports))
    rows = [report.row() for report in reports]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return table_bytes(columns, suffix)


def _series(reports: Sequence[Report]) -> dict[str, list[Value]]:
    """Return the series of *reports* below one another."""
    columns: dict[str, list[Value]] = {}
    for name, recorder in _recorded(reports):
        parts = recorder.series().columns()
        length = len(parts["time_s"])
        columns.setdefault("policy", []).extend([name] * length)
        for column, values in parts.items():
            columns.setdefault(column, []).extend(values.tolist())
    return columns


def _recorded(reports: Sequence[Report]) -> Iterator[tuple[str, Recorder]]:
    for report in reports:
        assert report.recorder is not None  # noqa: S101 - it was asked for
        yield report.policy, report.recorder


def _draw(title: str, reports: Sequence[Report], path: Path, suffix: str) -> None:
    from opendrs.sim.consolidation.pictures import (  # noqa: PLC0415 - seldom needed
        Shown,
        draw_runs,
    )

    runs = [
        Shown(
            label=report.policy,
            series=recorder.series(),
            film=recorder.film(),
            energy_kwh=_number(report.metrics["energy_kwh"]),
            slav=_number(report.metrics["slav"]),
        )
        for report, (_, recorder) in zip(reports, _recorded(reports), strict=True)
    ]
    draw_runs(title, runs, path, suffix)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
