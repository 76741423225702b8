"""A snapshot in a file as a platform on which nothing can be started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from opendrs.config import (
    display_path,
    is_history,
    read_history_snapshot,
    read_snapshot,
    snapshot_from,
)
from opendrs.config.snapshot_history import no_snapshot_before
from opendrs.errors import UnsupportedError
from opendrs.model import Action, Rule, Snapshot
from opendrs.ports import TaskId, TaskState, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFileSettings:
    """Where the snapshot is.

    Attributes:
        path: The file, in the format opendrs-snapshot/1.
    """

    path: Path


class SnapshotFilePlatform:
    """The cluster that a snapshot file describes."""

    def __init__(
        self, path: Path, *, name: str | None = None, rules: Iterable[Rule] = ()
    ) -> None:
        """Use the snapshot in *path*, in which *rules* hold as well.

        Args:
            path: The file; read anew by each `observe`. Of a history, the newest
                snapshot is used.
            name: What to call the cluster; the name of the file when None.
            rules: Rules in force besides those in the file.
        """
        self._path = path
        self._name = path.stem if name is None else name
        self._rules = tuple(rules)
        self._at: datetime | None = None
        self._damage = ""

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self._name

    @property
    def path(self) -> Path:
        """Return the file."""
        return self._path

    @property
    def damage(self) -> str:
        """Return the damage of a history that the last look passed over, if any."""
        return self._damage

    def as_of(self, at: datetime) -> SnapshotFilePlatform:
        """Return the cluster of the same file as it was recorded at that time.

        That is the newest snapshot of a history that was taken then or before.
        """
        copy = SnapshotFilePlatform(self._path, name=self._name, rules=self._rules)
        copy._at = at
        return copy

    def observe(self) -> Snapshot:
        """Return the snapshot in the file.

        Raises:
            InvalidFileError: It holds none, or none of the time that is asked for.
        """
        if is_history(self._path):
            entry = read_history_snapshot(self._path, self._at)
            self._damage = (
                entry.damage and f"{display_path(self._path)}: {entry.damage}"
            )
            snapshot = snapshot_from(entry.document, entry.source)
        else:
            snapshot = read_snapshot(self._path)
            if self._at is not None and snapshot.taken_at > self._at:
                raise no_snapshot_before(self._path, self._at, snapshot.taken_at)
        additional = [rule for rule in self._rules if rule not in snapshot.rules]
        return replace(snapshot, rules=(*snapshot.rules, *additional))

    def start(self, action: Action) -> TaskId:
        """Refuse: a file cannot do anything."""
        self._raise_unsupported(action)

    def find(self, action: Action) -> TaskId:
        """Refuse: a file cannot do anything."""
        self._raise_unsupported(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return that *task* is lost: none was ever started here."""
        return TaskStatus(TaskState.LOST, f"{self._name} is a file: no task {task}")

    def abort(self, task: TaskId) -> None:
        """Refuse: there is nothing to abort."""
        self._raise_unsupported(task)

    def _raise_unsupported(self, request: object) -> NoReturn:
        raise UnsupportedError(
            f"{self._name} is a snapshot in a file: it can be planned for, not "
            f"changed ({request})"
        )
