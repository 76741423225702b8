"""The record of a backtest: a history, or the recorded cycles of a platform."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from opendrs.cli.configuration import has_store
from opendrs.cli.console import warn
from opendrs.cli.platform_store import open_to_read
from opendrs.cli.sources import open_source
from opendrs.config import (
    display_path,
    is_history,
    raise_diagnostics,
    read_history,
    read_history_snapshot,
)
from opendrs.config.plausibility import find_impossible
from opendrs.config.settings import Settings
from opendrs.config.snapshot_reading import recorded_snapshot_from, snapshot_from
from opendrs.controller.reservations import without_reserved_guests
from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    InvalidFileError,
    StoreError,
)
from opendrs.model import NodeState, Snapshot
from opendrs.platforms.snapshot_file import SnapshotFileSettings
from opendrs.ports import OperatorAction
from opendrs.rules import with_rules
from opendrs.rules.undo import ORIGIN as UNDO_ORIGIN
from opendrs.simulation.backtest import LoadRecord
from opendrs.store import History, OperatorStore

_DRAINS = ("drain", "undrain")  # commands that are recorded with their node


def load_record(name: str, settings: Settings, since: float | None) -> LoadRecord:
    """Return the recorded load of *name*.

    A platform that reads a file has recorded cycles only if it is a simulated cluster,
    whose file does not exist.

    Args:
        name: A platform of the configuration, or a history.
        settings: The configuration; its rules are added to those of a history.
        since: Seconds before the newest snapshot from which on it is used; None for
            all of it.

    Raises:
        ConfigurationError: There is no such record, it is no record over time, or a
            snapshot is invalid.
        StoreError: A recorded cycle cannot be read.
    """
    if name in settings.platforms:
        path = _file_of(name, settings)
        if path is None or (not path.exists() and has_store(name, settings)):
            return LoadRecord(_snapshots_of_cycles(name, settings, since), name)
    else:
        path = Path(name)
    if is_history(path):
        return LoadRecord(_snapshots_of_file(path, settings, since), name)
    open_source(name, settings).platform.observe()  # reports a file that is invalid
    raise ConfigurationError(
        f"{name}: expected a platform with recorded cycles, or a history of opendrs "
        "record --every",
        code=DiagnosticCode.INCONSISTENT,
    )


def _file_of(name: str, settings: Settings) -> Path | None:
    """Return the file that the platform *name* reads; None if it reads none."""
    file = settings.connection(name).settings
    return file.path if isinstance(file, SnapshotFileSettings) else None


def _snapshots_of_file(
    path: Path, settings: Settings, since: float | None
) -> Iterator[Snapshot]:
    """Yield the snapshots of the history *path*."""
    newest = read_history_snapshot(path)
    if newest.damage:
        warn(f"{display_path(path)}: {newest.damage}")
    last = snapshot_from(newest.document, newest.source)
    for entry in read_history(path, _earliest(last.taken_at, since)):
        snapshot = snapshot_from(entry.document, entry.source)
        raise_diagnostics(entry.source, find_impossible(snapshot), InvalidFileError)
        yield with_rules(snapshot, settings.rules)


def _snapshots_of_cycles(
    name: str, settings: Settings, since: float | None
) -> Iterator[Snapshot]:
    """Yield the snapshots of the recorded cycles of the platform *name*.

    They are without what the controller and operators have added: the rules that
    protect the cluster from undoing what was done, reservations, and drains.
    """
    with open_to_read(name, settings) as store:
        newest = History(store).newest()
        earliest = None if newest is None else _earliest(newest.decided_at, since)
        drains = _Drains(OperatorStore(store).actions())
        for cycle in store.cycles(since=earliest):
            try:
                snapshot = recorded_snapshot_from(cycle.document["snapshot"], cycle.run)
            except (ConfigurationError, LookupError) as error:
                raise StoreError(
                    f"store: cycle {cycle.run}: snapshot cannot be read: {error}"
                ) from error
            rules = (rule for rule in snapshot.rules if rule.origin != UNDO_ORIGIN)
            observed = without_reserved_guests(replace(snapshot, rules=tuple(rules)))
            yield drains.without_drains(observed, cycle.decided_at)


class _Drains:
    """Drains of operators over time.

    Args:
        actions: The actions of the operators, oldest first.
    """

    def __init__(self, actions: Iterable[OperatorAction]) -> None:
        self._actions = deque(each for each in actions if each.command in _DRAINS)
        self._drained: set[object] = set()

    def without_drains(self, snapshot: Snapshot, at: datetime) -> Snapshot:
        """Return *snapshot*, recorded at *at*, with the drained nodes online.

        Each call is about a later time than the one before.
        """
        while self._actions and self._actions[0].at <= at:
            action = self._actions.popleft()
            node = action.arguments.get("node")
            if action.command == "drain":
                self._drained.add(node)
            else:
                self._drained.discard(node)
        nodes = {
            name: replace(node, state=NodeState.ONLINE)
            for name, node in snapshot.nodes.items()
            if name in self._drained and node.state is NodeState.MAINTENANCE
        }
        return replace(snapshot, nodes={**snapshot.nodes, **nodes})


def _earliest(newest: datetime, since: float | None) -> datetime | None:
    return None if since is None else newest - timedelta(seconds=since)
