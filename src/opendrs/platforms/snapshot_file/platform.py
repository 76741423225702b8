"""Read-only platform for a snapshot or a history in a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
from opendrs.config.platform_kinds import PlatformKind
from opendrs.config.snapshot_history import no_snapshot_before
from opendrs.errors import UnsupportedError
from opendrs.model import Action, Rule, Snapshot
from opendrs.ports import TaskId, TaskState, TaskStatus
from opendrs.rules import with_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFileSettings:
    """Settings of a snapshot file.

    Attributes:
        path: The file, in the format opendrs-snapshot/1, or a history.
    """

    path: Path


class SnapshotFilePlatform:
    """The cluster in a snapshot file; it cannot execute actions."""

    def __init__(
        self, path: Path, *, name: str | None = None, rules: Iterable[Rule] = ()
    ) -> None:
        """Create the platform; the file is read by each `observe`.

        Args:
            path: The file. Of a history, the newest snapshot is used.
            name: The name of the cluster; None for the name of the file.
            rules: Rules in addition to those in the file.
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
        """Return the damage of a history found by the last `observe`; empty if none."""
        return self._damage

    def as_of(self, at: datetime) -> SnapshotFilePlatform:
        """Return a platform for the newest snapshot of the file taken until *at*."""
        copy = SnapshotFilePlatform(self._path, name=self._name, rules=self._rules)
        copy._at = at
        return copy

    def observe(self) -> Snapshot:
        """Return the snapshot in the file.

        Raises:
            InvalidFileError: The file is invalid, or has no snapshot of that time.
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
        return with_rules(snapshot, self._rules)

    def start(self, action: Action) -> TaskId:
        """Raise UnsupportedError: a file cannot execute actions."""
        self._raise_unsupported(action)

    def find(self, action: Action) -> TaskId:
        """Raise UnsupportedError: a file cannot execute actions."""
        self._raise_unsupported(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return the state LOST: a file has no tasks."""
        return TaskStatus(
            TaskState.LOST, f"{self._name}: a snapshot file has no tasks: {task}"
        )

    def abort(self, task: TaskId) -> None:
        """Raise UnsupportedError: a file has no tasks."""
        self._raise_unsupported(task)

    def _raise_unsupported(self, request: object) -> NoReturn:
        raise UnsupportedError(
            f"{self._name}: a snapshot file cannot be changed: {request}"
        )


def _create(
    name: str, settings: SnapshotFileSettings, rules: Iterable[Rule]
) -> SnapshotFilePlatform:
    return SnapshotFilePlatform(settings.path, name=name, rules=rules)


KIND = PlatformKind(settings_type=SnapshotFileSettings, create=_create, read_only=True)
