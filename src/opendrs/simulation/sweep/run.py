"""Execution of a sweep: missing runs are executed, and saved one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from opendrs.config import display_path
from opendrs.errors import InvalidFileError
from opendrs.simulation.scenario.definition import SimulationModel, WorkloadSource
from opendrs.simulation.scenario.run import (
    check_initial_placement,
    load_digest,
    read_load,
)
from opendrs.simulation.sweep.checkpoint import (
    SweepCheckpoint,
    checkpoint_path,
    open_checkpoint,
    read_checkpoint,
)
from opendrs.simulation.sweep.grid import (
    SweepGrid,
    Trial,
    trial_identity,
    trial_parameters,
)
from opendrs.simulation.sweep.results import (
    ResultRow,
    read_results,
    result_row,
    with_current_names,
    write_results,
)
from opendrs.simulation.sweep.tasks import SweepTask, TaskResults

TaskRunner = Callable[[Sequence[SweepTask]], TaskResults]
SweepProgress = Callable[[int, int], None]  # done, total


@dataclass(frozen=True, slots=True)
class PreparedTrial:
    """Trial with a validated load.

    Attributes:
        trial: The run.
        digest: Digest of its load.
        identity: Unique identity of the run.
    """

    trial: Trial
    digest: str
    identity: str

    def task(self) -> SweepTask:
        """Return the task of this run."""
        return SweepTask(
            identity=self.identity,
            environment=self.trial.environment,
            policy_run=self.trial.policy_run,
            digest=self.digest,
        )


def prepare_trials(grid: SweepGrid, progress: SweepProgress) -> list[PreparedTrial]:
    """Return the trials of *grid* after checking all loads.

    The runs of one load are adjacent.

    Args:
        grid: The grid.
        progress: Called with the number of loads read.

    Raises:
        ConfigurationError: A load cannot be read, or the guests do not fit.
    """
    groups: dict[tuple[WorkloadSource, SimulationModel], list[Trial]] = {}
    for trial in grid.trials:
        environment = trial.environment
        groups.setdefault((environment.source, environment.model), []).append(trial)
    prepared: list[PreparedTrial] = []
    progress(0, len(groups))
    for number, ((source, model), trials) in enumerate(groups.items(), 1):
        load = read_load(source, model)
        digest = load_digest(load)
        # The initial placement depends on the policy only in the CloudSim model.
        placements = {
            (
                same.environment.pools,
                same.environment.guests,
                model is SimulationModel.CLOUDSIM and same.label,
            ): same
            for same in trials
        }
        for trial in placements.values():
            check_initial_placement(trial.environment, trial.policy_run, load)
        for trial in trials:
            identity = trial_identity(trial_parameters(trial, digest))
            prepared.append(PreparedTrial(trial, digest, identity))
        progress(number, len(groups))
    return prepared


def finished_rows(results: Path) -> dict[str, ResultRow]:
    """Return the rows of earlier sweeps, by identity.

    Raises:
        InvalidFileError: A file exists but has another format.
    """
    rows = [*read_results(results), *read_checkpoint(checkpoint_path(results)).values()]
    return {str(row["id"]): row for row in rows}


def run_sweep(
    trials: Sequence[PreparedTrial],
    results: Path,
    run_tasks: TaskRunner,
    progress: SweepProgress,
) -> list[ResultRow]:
    """Return the rows of *trials*, and write them to *results*.

    Existing runs are not repeated, and other rows in the file are kept. Each run is
    saved to a checkpoint beside the results as soon as it is done.

    Args:
        trials: Runs of this sweep.
        results: Output file.
        run_tasks: Executor of the missing runs.
        progress: Called with the number of completed runs.

    Raises:
        ConfigurationError: A run is invalid, or the file has another format.
        StoreError: A file cannot be written, or another sweep has the same results.
        PlatformError: A process or the Dask cluster failed.
    """
    with open_checkpoint(checkpoint_path(results)) as checkpoint:
        try:
            earlier = [*read_results(results), *checkpoint.rows.values()]
            rows = {str(row["id"]): row for row in earlier}
            _check_same_sweep(trials, rows, results)
            _run_missing(trials, rows, checkpoint, run_tasks, progress)
            own_rows = [
                with_current_names(rows[each.identity], each.trial) for each in trials
            ]
            identities = {each.identity for each in trials}
            others = [row for row in earlier if row["id"] not in identities]
            write_results(results, [*others, *own_rows])
        except BaseException:
            if not checkpoint.rows:
                checkpoint.remove()
            raise
        checkpoint.remove()
        return own_rows


def _check_same_sweep(
    trials: Sequence[PreparedTrial], rows: Mapping[str, ResultRow], results: Path
) -> None:
    """Check that existing rows, if any, include runs of this sweep."""
    if rows and not any(each.identity in rows for each in trials):
        path = results if results.exists() else checkpoint_path(results)
        raise InvalidFileError(
            f"{display_path(path)}: contains only runs of another sweep or version of "
            "opendrs; remove it, or give another name with --out"
        )


def _run_missing(
    trials: Sequence[PreparedTrial],
    rows: dict[str, ResultRow],
    checkpoint: SweepCheckpoint,
    run_tasks: TaskRunner,
    progress: SweepProgress,
) -> None:
    missing = {each.identity: each for each in trials if each.identity not in rows}
    uses = Counter(each.identity for each in trials)  # equal runs with several names
    done, total = sum(uses[each] for each in uses if each in rows), len(trials)
    progress(done, total)
    if not missing:
        return
    with closing(run_tasks([each.task() for each in missing.values()])) as results:
        for task, metrics in results:
            trial = missing[task.identity]
            row = result_row(trial.trial, trial.identity, trial.digest, metrics)
            checkpoint.add(row)
            rows[trial.identity] = row
            done += uses[trial.identity]
            progress(done, total)
