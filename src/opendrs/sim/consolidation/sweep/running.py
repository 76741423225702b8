"""A sweep from its grid to its results: what is missing is done, and kept at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from opendrs.errors import InvalidFileError
from opendrs.platforms.file import shown_path
from opendrs.sim.consolidation.scenario.running import (
    digest_of,
    load_of,
    require_room,
)
from opendrs.sim.consolidation.scenario.scenario import Model, Source
from opendrs.sim.consolidation.sweep.grid import (
    Grid,
    Trial,
    identity_of,
    parameters_of,
)
from opendrs.sim.consolidation.sweep.journal import (
    Journal,
    journal_path,
    open_journal,
    read_journal,
)
from opendrs.sim.consolidation.sweep.results import (
    Row,
    read_results,
    renamed,
    row_of,
    write_results,
)
from opendrs.sim.consolidation.sweep.task import Done, Task

Work = Callable[[Sequence[Task]], Done]
Progress = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True, slots=True)
class Entry:
    """A trial whose load has been seen.

    Attributes:
        trial: The run.
        digest: That of its load.
        identity: What tells it from any other.
    """

    trial: Trial
    digest: str
    identity: str

    def task(self) -> Task:
        """Return it as it is handed to whoever does it."""
        return Task(
            identity=self.identity,
            stage=self.trial.stage,
            contender=self.trial.contender,
            digest=self.digest,
        )


def prepared(grid: Grid, progress: Progress) -> list[Entry]:
    """Return the trials of *grid* once all loads are known to be sound.

    The runs of one load come one after the other.

    Args:
        grid: The grid.
        progress: Told how many loads have been read.

    Raises:
        ConfigurationError: A load cannot be read, or guests find no room.
    """
    groups: dict[tuple[Source, Model], list[Trial]] = {}
    for trial in grid.trials:
        stage = trial.stage
        groups.setdefault((stage.source, stage.model), []).append(trial)
    found: list[Entry] = []
    progress(0, len(groups))
    for number, ((source, model), trials) in enumerate(groups.items(), 1):
        load = load_of(source, model)
        digest = digest_of(load)
        # Whether there is room depends on the policy in the model of CloudSim only.
        alike = {
            (t.stage.pools, t.stage.guests, model is Model.CLOUDSIM and t.label): t
            for t in trials
        }
        for trial in alike.values():
            require_room(trial.stage, trial.contender, load)
        for trial in trials:
            identity = identity_of(parameters_of(trial, digest))
            found.append(Entry(trial, digest, identity))
        progress(number, len(groups))
    return found


def kept(results: Path) -> dict[str, Row]:
    """Return what earlier sweeps have left, by identity.

    Raises:
        InvalidFileError: There is something else in its place.
    """
    rows = [*read_results(results), *read_journal(journal_path(results)).values()]
    return {str(row["id"]): row for row in rows}


def finished(
    entries: Sequence[Entry], results: Path, work: Work, progress: Progress
) -> list[Row]:
    """Return what comes of *entries*, and write it to *results*.

    What is there already is not done again, and what else is there stays. Each run
    is kept as soon as it is done, in a journal beside the results, until all are.

    Args:
        entries: What is wanted.
        results: Where it goes.
        work: Who does what is missing.
        progress: Told how many runs are done.

    Raises:
        ConfigurationError: A run cannot be, or what is there is something else.
        StoreError: It cannot be kept, or another sweep has the same results.
        PlatformError: Who works failed.
    """
    with open_journal(journal_path(results)) as journal:
        try:
            earlier = [*read_results(results), *journal.rows.values()]
            rows = {str(row["id"]): row for row in earlier}
            _require_some_of(entries, rows, results)
            _do_missing(entries, rows, journal, work, progress)
            mine = [renamed(rows[each.identity], each.trial) for each in entries]
            wanted = {each.identity for each in entries}
            others = [row for row in earlier if row["id"] not in wanted]
            write_results(results, [*others, *mine])
        except BaseException:
            if not journal.rows:
                journal.remove()
            raise
        journal.remove()
        return mine


def _require_some_of(
    entries: Sequence[Entry], rows: Mapping[str, Row], results: Path
) -> None:
    """Check that what is there, if anything is, has to do with what is wanted."""
    if rows and not any(each.identity in rows for each in entries):
        path = results if results.exists() else journal_path(results)
        raise InvalidFileError(
            f"{shown_path(path)} holds runs of another sweep, or of another opendrs, "
            "and none of this one: remove it, or give another name with --out"
        )


def _do_missing(
    entries: Sequence[Entry],
    rows: dict[str, Row],
    journal: Journal,
    work: Work,
    progress: Progress,
) -> None:
    missing = {each.identity: each for each in entries if each.identity not in rows}
    called = Counter(each.identity for each in entries)  # one run, by several names
    done, total = sum(called[each] for each in called if each in rows), len(entries)
    progress(done, total)
    if not missing:
        return
    with closing(work([each.task() for each in missing.values()])) as found:
        for task, metrics in found:
            entry = missing[task.identity]
            row = row_of(entry.trial, entry.identity, entry.digest, metrics)
            journal.add(row)
            rows[entry.identity] = row
            done += called[entry.identity]
            progress(done, total)
