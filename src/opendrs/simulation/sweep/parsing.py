"""Parser of the sweep file, the format opendrs-sweep/1.

The fields are those of a scenario file. Where that has one value, a list of values
means one run per value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from opendrs.config import (
    Diagnostic,
    DiagnosticCode,
    FileFormat,
    KeyPath,
    display_path,
    duplicate_key_diagnostics,
    parse,
    raise_diagnostics,
    read_text,
    require_format,
)
from opendrs.errors import InvalidFileError
from opendrs.escapes import repr_value
from opendrs.simulation.scenario.candidates import (
    DEFAULT_POLICIES,
    label_with_settings,
)
from opendrs.simulation.scenario.definition import (
    PolicyRun,
    SimulationEnvironment,
    SimulationModel,
    WorkloadSource,
    source_name,
)
from opendrs.simulation.scenario.hosts import DEFAULT_HOSTS, HostPool
from opendrs.simulation.scenario.parsing import DEFAULT_SEED
from opendrs.simulation.sweep.grid import (
    SweepGrid,
    Trial,
    with_policy_seed,
    with_source_seed,
)
from opendrs.simulation.sweep.grid_expansion import (
    GridParser,
    ParsedChoice,
    count_alternatives,
)

SWEEP_FORMAT = "opendrs-sweep/1"
MAX_RUNS = 100_000
POLICY_TABLES = ("settings", "limits")


def read_sweep(path: Path) -> SweepGrid:
    """Return the grid in the file *path*.

    Raises:
        InvalidFileError: The file is invalid; with all errors.
    """
    source = display_path(path)
    return parse_sweep(parse(read_text(path), source, path.suffix), source, path.parent)


def parse_sweep(document: object, source: str, folder: Path) -> SweepGrid:
    """Return the grid in *document*.

    Args:
        document: Parsed plain values.
        source: Prefix of error messages.
        folder: Base of relative paths.

    Raises:
        InvalidFileError: The document is invalid; with all errors.
    """
    require_format(document, source, FileFormat.SWEEP)
    grid, diagnostics = sweep_and_diagnostics(document, folder)
    raise_diagnostics(source, diagnostics, InvalidFileError)
    return grid


def sweep_and_diagnostics(
    document: object, folder: Path
) -> tuple[SweepGrid, tuple[Diagnostic, ...]]:
    """Return the grid in *document* and all errors.

    Args:
        document: Parsed plain values.
        folder: Base of relative paths.
    """
    reader = _SweepReader(folder)
    trials = reader.trials(document)
    # An error in one value occurs in all its combinations.
    diagnostics = dict.fromkeys(
        [*duplicate_key_diagnostics(document), *reader.diagnostics]
    )
    title = document.get("title", "") if isinstance(document, Mapping) else ""
    return SweepGrid(title=str(title), trials=tuple(trials)), tuple(diagnostics)


class _SweepReader(GridParser):
    def trials(self, document: object) -> list[Trial]:
        tables = self.table((), document)
        self.check_format(tables, SWEEP_FORMAT)
        if self._exceeds_max_runs(tables):
            return []
        models = self.parse_values("model", tables.get("model", "opendrs"), self.model)
        seeds = self.parse_values("seed", tables.get("seed", DEFAULT_SEED), self.seed)
        environments = self._environments(tables, models)
        policy_runs = {
            choice.value: self._policy_runs(tables, choice.value) for choice in models
        }
        trials = [
            _trial(environment, policy_run, seed.value)
            for environment in environments
            for policy_run in policy_runs[environment.value.model]
            for seed in seeds
        ]
        if not self.diagnostics:
            self._check_distinct(trials)
        return trials

    # Size of the grid

    def _exceeds_max_runs(self, tables: Mapping[str, object]) -> bool:
        total = 1
        for name in ("model", "seed", "workload", "guests", "behavior", "limits"):
            total *= _count_choices(tables.get(name))
        hosts = tables.get("hosts")
        for pool in hosts if isinstance(hosts, list) else []:
            total *= count_alternatives(pool)
        total *= _count_choices(tables.get("policies"), POLICY_TABLES)
        if total > MAX_RUNS:
            message = f"too many runs: {total}; at most {MAX_RUNS} are allowed"
            self.diagnose((), message, DiagnosticCode.OUT_OF_RANGE)
        return total > MAX_RUNS

    def _check_distinct(self, trials: Sequence[Trial]) -> None:
        keys = [
            (trial.environment.model, trial.environment.source, trial.seed, trial.label)
            for trial in trials
        ]
        for (model, source, seed, label), count in Counter(keys).items():
            if count > 1:
                description = f"{repr_value(label)} on {source_name(source)} in {model}"
                self.diagnose(
                    (),
                    f"{description}, seed {seed}: {count} equal runs; remove duplicate "
                    "values and give each policy its own label",
                    DiagnosticCode.DUPLICATE_NAME,
                )

    # Environments

    def _environments(
        self,
        tables: Mapping[str, object],
        models: Sequence[ParsedChoice[SimulationModel]],
    ) -> list[ParsedChoice[SimulationEnvironment]]:
        combinations = product(
            models,
            self._sources(tables),
            self._hosts(tables),
            self.parse_alternatives(("guests",), tables.get("guests", {}), self.guests),
            self.parse_alternatives(
                ("behavior",), tables.get("behavior", {}), self.behavior
            ),
        )
        environments = []
        for model, source, hosts, guests, behavior in combinations:
            environment = SimulationEnvironment(
                model=model.value,
                source=source.value,
                pools=hosts.value,
                guests=guests.value,
                behavior=behavior.value,
            )
            self.check_model_support(environment, tables, {"workload": source.location})
            chosen = [choice.chosen for choice in (model, hosts, guests, behavior)]
            environments.append(ParsedChoice(environment, (), _merge(chosen)))
        return environments

    def _sources(
        self, tables: Mapping[str, object]
    ) -> list[ParsedChoice[WorkloadSource]]:
        if "workload" not in tables:
            code = DiagnosticCode.MISSING_KEY
            self.diagnose(("workload",), "is missing", code)
            return []
        value = tables["workload"]

        def read(location: KeyPath, table: object) -> WorkloadSource | None:
            return self.workload_source(location, table, DEFAULT_SEED)

        if not isinstance(value, list):
            return self.parse_alternatives(("workload",), value, read)
        sources: list[ParsedChoice[WorkloadSource]] = []
        for location, each in self.tables(("workload",), value):
            sources += self.parse_alternatives(location, each, read)
        return sources

    def _hosts(
        self, tables: Mapping[str, object]
    ) -> list[ParsedChoice[tuple[HostPool, ...]]]:
        if "hosts" not in tables:
            return [ParsedChoice(DEFAULT_HOSTS, ())]
        entries = self.tables(("hosts",), tables["hosts"])
        pools = [
            self.parse_alternatives(location, each, self.host_pool)
            for location, each in entries
        ]
        is_single = len(pools) == 1
        return [
            ParsedChoice(
                tuple(choice.value for choice in combination),
                ("hosts",),
                _merge(
                    {
                        f"hosts.{key}" if is_single else f"hosts[{number}].{key}": value
                        for key, value in choice.chosen.items()
                    }
                    for number, choice in enumerate(combination)
                ),
            )
            for combination in product(*pools)
        ]

    # Policies

    def _policy_runs(
        self, tables: Mapping[str, object], model: SimulationModel
    ) -> list[ParsedChoice[PolicyRun]]:
        entries = self.tables(
            ("policies",), tables.get("policies", [{"name": DEFAULT_POLICIES[model]}])
        )
        limit_choices = self.parse_alternatives(
            ("limits",), tables.get("limits", {}), self.limits
        )
        policy_runs = []
        for limits in limit_choices:

            def read(location: KeyPath, table: object) -> PolicyRun | None:
                return self.policy_run(
                    location,
                    table,
                    model=model,
                    limits=limits.value,  # noqa: B023 - called in this iteration
                    seed=DEFAULT_SEED,
                )

            for location, entry in entries:
                for choice in self.parse_alternatives(
                    location, entry, read, POLICY_TABLES
                ):
                    policy_run = _with_label(choice.value, entry, choice.chosen)
                    policy_runs.append(
                        ParsedChoice(policy_run, location, limits.chosen)
                    )
        return policy_runs


def _count_choices(value: object, nested: Sequence[str] = ()) -> int:
    if isinstance(value, list):
        return max(1, sum(count_alternatives(each, nested) for each in value))
    return count_alternatives(value, nested)


def _merge(parts: Iterable[Mapping[str, object]]) -> dict[str, object]:
    merged: dict[str, object] = {}
    for part in parts:
        merged |= part
    return merged


def _with_label(
    policy_run: PolicyRun, entry: object, chosen: Mapping[str, object]
) -> PolicyRun:
    """Return *policy_run* with a label that shows the chosen values."""
    has_label = isinstance(entry, Mapping) and "label" in entry
    missing = {
        name.removeprefix("settings."): value
        for name, value in chosen.items()
        if has_label or name.startswith("limits.")
    }
    return replace(policy_run, label=label_with_settings(policy_run.label, missing))


def _trial(
    environment: ParsedChoice[SimulationEnvironment],
    policy_run: ParsedChoice[PolicyRun],
    seed: int,
) -> Trial:
    return Trial(
        environment=replace(
            environment.value, source=with_source_seed(environment.value.source, seed)
        ),
        policy_run=with_policy_seed(policy_run.value, seed),
        seed=seed,
        chosen={**environment.chosen, **policy_run.chosen},
    )
