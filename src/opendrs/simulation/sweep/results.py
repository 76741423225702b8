"""Results of sweeps in a Parquet file, one row per run, and their means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

from opendrs import __version__
from opendrs.config import display_path
from opendrs.config.regular_files import open_regular
from opendrs.errors import InvalidFileError
from opendrs.model import Limits
from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.atomic_output import (
    AtomicFiles,
    CellValue,
    TableColumns,
    table_bytes,
)
from opendrs.simulation.cloudsim import CloudSimMetrics, MigrationScheme
from opendrs.simulation.cloudsim.schemes import CloudSimBaseline
from opendrs.simulation.hardware import SimulationBehavior
from opendrs.simulation.metrics import SimulationMetrics, pareto_front
from opendrs.simulation.scenario.candidates import policy_settings
from opendrs.simulation.scenario.definition import source_name
from opendrs.simulation.scenario.run import MetricValues
from opendrs.simulation.sweep.grid import Trial, canonical_json, trial_parameters

RESULTS_FORMAT = "opendrs-sweep-results/1"
FORMAT_KEY = "opendrs"  # metadata key of the format in the file
ResultRow = Mapping[str, CellValue]
RUN_COLUMNS = ("id", "model", "workload", "load", "policy", "name", "seed", "hosts")

SETTING_COLUMNS = tuple(
    f"policy.{each.name}" for each in fields(Consolidate) if each.name != "limits"
)

LIMIT_FIELDS = tuple(
    each.name
    for each in fields(Limits)
    if not any(text in str(each.type) for text in ("str", "tuple"))
)
"""Limits that are numbers."""
LIMIT_COLUMNS = tuple(f"limits.{name}" for name in LIMIT_FIELDS)
BEHAVIOR_COLUMNS = tuple(f"behavior.{each.name}" for each in fields(SimulationBehavior))

METRICS = tuple(
    dict.fromkeys(
        [
            *(each.name for each in fields(SimulationMetrics)),
            "bound_ratio",
            *(each.name for each in fields(CloudSimMetrics) if each.name != "energy"),
        ]
    )
)

COLUMNS = (
    *RUN_COLUMNS,
    *SETTING_COLUMNS,
    *LIMIT_COLUMNS,
    *BEHAVIOR_COLUMNS,
    *METRICS,
    "opendrs",
    "parameters",
)

_INTEGER_COLUMNS = (
    "seed",
    "hosts",
    "migrations",
    "shutdowns",
    "power_ons",
    "guests",
    "guests_left",
)

_INTEGER_SETTINGS = (
    "averaging_window",
    "history_length",
    "max_failed_drains",
    "max_drained_nodes",
    "seed",
)

_TEXT_SETTINGS = ("detector", "guest_selection", "placement", "power_model")

COLUMN_TYPES: Mapping[str, type[CellValue]] = MappingProxyType(
    {
        **dict.fromkeys(COLUMNS, float),
        **dict.fromkeys(RUN_COLUMNS, str),
        **dict.fromkeys(("opendrs", "parameters"), str),
        **dict.fromkeys(_INTEGER_COLUMNS, int),
        **{f"policy.{name}": int for name in _INTEGER_SETTINGS},
        **{f"policy.{name}": str for name in _TEXT_SETTINGS},
        "policy.manage_power": bool,
    }
)
"""Types of the columns; those of later versions are inferred."""


def result_row(
    trial: Trial, identity: str, digest: str, metrics: MetricValues
) -> ResultRow:
    """Return the row of a run.

    Args:
        trial: The run.
        identity: Unique identity of the run.
        digest: Digest of its load.
        metrics: Metrics of the run.
    """
    environment, policy = trial.environment, trial.policy_run.policy
    row: dict[str, CellValue] = {
        **dict.fromkeys(COLUMNS),
        "id": identity,
        "model": environment.model.value,
        "workload": source_name(environment.source),
        "load": digest,
        "policy": trial.label,
        "name": trial.policy_run.name,
        "seed": trial.seed,
        "hosts": sum(pool.count for pool in environment.pools),
        "opendrs": __version__,
        "parameters": canonical_json(trial_parameters(trial, digest)),
        **metrics,
    }
    if isinstance(policy, Consolidate):
        for name, value in policy_settings(policy):
            row[f"policy.{name}"] = _plain_value(value)
    if policy is not None and not isinstance(
        policy, CloudSimBaseline | MigrationScheme
    ):
        for name in LIMIT_FIELDS:
            row[f"limits.{name}"] = getattr(policy.limits, name)
        for each in fields(SimulationBehavior):
            row[f"behavior.{each.name}"] = getattr(environment.behavior, each.name)
    return row


def with_current_names(row: ResultRow, trial: Trial) -> ResultRow:
    """Return *row* with the names of *trial*: names are not part of an identity."""
    return {
        **row,
        "workload": source_name(trial.environment.source),
        "policy": trial.label,
        "name": trial.policy_run.name,
    }


def _plain_value(value: object) -> CellValue:
    """Return *value* as a plain type instead of an enum."""
    if isinstance(value, str):
        return str(value)
    assert value is None or isinstance(value, bool | int | float)  # noqa: S101
    return value


def read_results(path: Path) -> list[ResultRow]:
    """Return the rows of the file *path*; empty if it does not exist.

    Raises:
        InvalidFileError: The file cannot be read or is not the result of a sweep.
    """
    if not path.exists():
        return []
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    from pyarrow import parquet  # noqa: PLC0415

    name = display_path(path)
    try:
        parquet_table = parquet.read_table(path, partitioning=None)
        metadata = parquet_table.schema.metadata or {}
        if metadata.get(FORMAT_KEY.encode()) != RESULTS_FORMAT.encode():
            raise InvalidFileError(
                f"{name}: not the result of a sweep; give another name with --out"
            )
        rows: list[ResultRow] = parquet_table.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise InvalidFileError(f"{name}: invalid Parquet file: {first}") from error
    return rows


def results_bytes(rows: Iterable[ResultRow]) -> bytes:
    """Return the content of the file with *rows*, each once, in canonical order."""
    ordered = sorted({_row_order(row): row for row in rows}.values(), key=_row_order)
    further = sorted({name for row in ordered for name in row} - set(COLUMNS))
    names = [*COLUMNS, *further]
    columns: TableColumns = {name: [row.get(name) for row in ordered] for name in names}
    return table_bytes(columns, ".parquet", {FORMAT_KEY: RESULTS_FORMAT}, COLUMN_TYPES)


def _row_order(row: ResultRow) -> tuple[str, ...]:
    seed = row.get("seed")
    number = f"{seed:020}" if isinstance(seed, int) else ""
    return (
        *(str(row.get(name)) for name in ("model", "workload", "policy")),
        number,
        str(row["id"]),
    )


def write_results(path: Path, rows: Iterable[ResultRow]) -> None:
    """Write *rows* to *path* atomically; an up-to-date file is left unchanged.

    Raises:
        InvalidFileError: The file cannot be written.
    """
    content = results_bytes(rows)
    # Errors of the path are reported by the write below.
    with suppress(OSError), open_regular(path) as file:
        if file.read(len(content) + 1) == content:
            return
    with AtomicFiles() as files:
        files.add(path, content)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCandidate:
    """Policy with its settings and other chosen values.

    Attributes:
        label: Label in the results.
        name: Name of the policy.
        runs: Number of runs, over loads and seeds.
        means: Mean of each metric over the runs; None if a value is unknown.
        on_front: True on the Pareto front.
    """

    label: str
    name: str
    runs: int
    means: Mapping[str, float | None]
    on_front: bool = False


def sweep_candidates(
    trials: Sequence[Trial], rows: Sequence[ResultRow], front: tuple[str, str]
) -> list[SweepCandidate]:
    """Return the candidates, ordered by the first metric of the front.

    Args:
        trials: The runs of a grid.
        rows: Row of each run.
        front: Two metrics for which less is better.
    """
    groups: dict[str, list[tuple[Trial, ResultRow]]] = {}
    for trial, row in zip(trials, rows, strict=True):
        groups.setdefault(trial.label, []).append((trial, row))
    means = {
        label: _means([row for _, row in group]) for label, group in groups.items()
    }
    first, second = ([_or_nan(means[each][name]) for each in groups] for name in front)
    on_front = pareto_front(first, second)
    candidates = [
        SweepCandidate(
            label=label,
            name=group[0][0].policy_run.name,
            runs=len(group),
            means=means[label],
            on_front=bool(on_front[number]),
        )
        for number, (label, group) in enumerate(groups.items())
    ]
    order = dict(zip(groups, first, strict=True))
    return sorted(
        candidates, key=lambda each: (math.isnan(order[each.label]), order[each.label])
    )


def _means(rows: Sequence[ResultRow]) -> dict[str, float | None]:
    return {name: _mean([row.get(name) for row in rows]) for name in METRICS}


def _mean(values: Sequence[object]) -> float | None:
    known = [float(each) for each in values if isinstance(each, int | float)]
    return fmean(known) if len(known) == len(values) and known else None


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
