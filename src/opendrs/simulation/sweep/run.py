"""A sweep from its grid to its results: what is missing is done, and kept at once."""

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
SweepProgress = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True, slots=True)
class PreparedTrial:
    """A trial whose load has been seen.

    Attributes:
        trial: The run.
        digest: That of its load.
        identity: What tells it from any other.
    """

    trial: Trial
    digest: str
    identity: str

    def task(self) -> SweepTask:
        """Return it as it is handed to whoever does it."""
        return SweepTask(
            identity=self.identity,
            environment=self.trial.environment,
            policy_run=self.trial.policy_run,
            digest=self.digest,
        )


def prepare_trials(grid: SweepGrid, progress: SweepProgress) -> list[PreparedTrial]:
    """Return the trials of *grid* once all loads are known to be sound.

    The runs of one load come one after the other.

    Args:
        grid: The grid.
        progress: Told how many loads have been read.

    Raises:
        ConfigurationError: A load cannot be read, or guests find no room.
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
        # Whether there is room depends on the policy in the model of CloudSim only.
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
    """Return what earlier sweeps have left, by identity.

    Raises:
        InvalidFileError: There is something else in its place.
    """
    rows = [*read_results(results), *read_checkpoint(checkpoint_path(results)).values()]
    return {str(row["id"]): row for row in rows}


def run_sweep(
    trials: Sequence[PreparedTrial],
    results: Path,
    run_tasks: TaskRunner,
    progress: SweepProgress,
) -> list[ResultRow]:
    """Return what comes of *trials*, and write it to *results*.

    What is there already is not done again, and what else is there stays. Each run
    is kept as soon as it is done, in a journal beside the results, until all are.

    Args:
        trials: What is wanted.
        results: Where it goes.
        run_tasks: Who does what is missing.
        progress: Told how many runs are done.

    Raises:
        ConfigurationError: A run cannot be, or what is there is something else.
        StoreError: It cannot be kept, or another sweep has the same results.
        PlatformError: Who works failed.
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
    """Check that what is there, if anything is, has to do with what is wanted."""
    if rows and not any(each.identity in rows for each in trials):
        path = results if results.exists() else checkpoint_path(results)
        raise InvalidFileError(
            f"{display_path(path)} holds runs of another sweep, or of another opendrs, "
            "and none of this one: remove it, or give another name with --out"
        )


def _run_missing(
    trials: Sequence[PreparedTrial],
    rows: dict[str, ResultRow],
    checkpoint: SweepCheckpoint,
    run_tasks: TaskRunner,
    progress: SweepProgress,
) -> None:
    missing = {each.identity: each for each in trials if each.identity not in rows}
    uses = Counter(each.identity for each in trials)  # one run, by several names
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
