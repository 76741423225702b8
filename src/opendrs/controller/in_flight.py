"""Migrations that may be running, whether they are seen or not.

A host that stops answering does not stop its migrations. So each counts on both of
its nodes, as it was last seen, until its outcome is known: also one that was lost or
that others have started, in the cycles after, and after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opendrs.controller.stores.encoding import action_as_text, action_from_text
from opendrs.errors import PlatformError, StoreError
from opendrs.model import (
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Migration,
    Move,
    Node,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.ports import Outcome, Platform, StepRecord, Store, TaskState

KEY = "in flight"
Key = tuple[GuestId, NodeId, NodeId]


@dataclass(frozen=True, slots=True)
class OpenMigration:
    """A migration that may be running.

    Attributes:
        move: The migration.
        guest: The guest as it was last seen on the source, migrating to the target.
    """

    move: Move
    guest: Guest

    @property
    def ends(self) -> tuple[NodeId, NodeId]:
        """Return the source and the target."""
        return self.move.source, self.move.target

    @property
    def key(self) -> Key:
        """Return the guest and both nodes, which identify it."""
        return _key(self.move)


class InFlight:
    """The migrations that may be running, as the store keeps them.

    Those that `begin` was called for run until `end`. The others were lost, or others
    have started them: how they ended is judged by what is seen.

    Args:
        store: Where they are kept.

    Raises:
        StoreError: They cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept = {found.key: found for found in in_flight(store)}
        self._running: set[Key] = set()

    def begin(self, moves: Sequence[Move], seen: Snapshot) -> None:
        """Record that *moves* are about to start; written before they are.

        Args:
            moves: The migrations.
            seen: The cluster, with their guests.

        Raises:
            StoreError: It cannot be kept.
        """
        for move in moves:
            migrating = replace(seen.guests[move.guest], migrating_to=move.target)
            self._kept[_key(move)] = OpenMigration(move, migrating)
            self._running.add(_key(move))
        if moves:
            self._save()

    def follow(self, moves: Iterable[Move]) -> None:
        """Record that an earlier process has started *moves*.

        Of a guest that it did not record, only the name is known.

        Raises:
            StoreError: It cannot be kept.
        """
        for move in moves:
            unseen = OpenMigration(move, _unknown(move))
            self._kept.setdefault(_key(move), unseen)
            self._running.add(_key(move))
        self._save()

    def end(self, record: StepRecord) -> None:
        """Record the outcome of a step: one that was lost may still be running.

        Raises:
            StoreError: It cannot be kept.
        """
        if isinstance(record.action, PowerOn | PowerOff):
            return
        self._running.discard(_key(record.action))
        if record.outcome is not Outcome.LOST:
            self._kept.pop(_key(record.action), None)
        self._save()

    def counted(self, seen: Snapshot) -> Snapshot:
        """Return *seen* with every migration that may be running on both its nodes."""
        self._update(seen)
        counting = [m for m in self._kept.values() if self._counts(m, seen)]
        return _with(counting, seen) if counting else seen

    def settle(self, seen: Snapshot, platform: Platform) -> None:
        """Keep the migrations that are seen, and forget those that are over.

        The platform is asked again about a guest that is seen on its source and not
        migrating, while the target does not answer.

        Raises:
            StoreError: It cannot be kept.
        """
        before = dict(self._kept)
        self._update(seen)
        self._kept = {
            key: found
            for key, found in self._kept.items()
            if self._counts(found, seen) and not _has_failed(found, seen, platform)
        }
        if self._kept != before:
            self._save()

    def _update(self, seen: Snapshot) -> None:
        """Remember the guests of migrations as they are seen, and new migrations."""
        for key, found in self._kept.items():
            if (guest := _on_source(found, seen)) is not None:
                self._kept[key] = OpenMigration(found.move, guest)
        for guest in seen.guests.values():
            if guest.migrating_to is not None:
                move = Migration(guest.id, guest.node, guest.migrating_to)
                self._kept.setdefault(_key(move), OpenMigration(move, guest))

    def _counts(self, found: OpenMigration, seen: Snapshot) -> bool:
        return found.key in self._running or not is_over(found, seen)

    def _save(self) -> None:
        value = {"migrations": [_plain(found) for found in self._kept.values()]}
        self._store.save(KEY, value)


def in_flight(store: Store) -> tuple[OpenMigration, ...]:
    """Return the migrations that may be running, as the store has them.

    Raises:
        StoreError: They cannot be read.
    """
    saved: Any = (store.load(KEY) or {}).get("migrations", [])
    try:
        return tuple(map(_read, saved))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"record of migrations in flight: not readable: {error!r}"
        ) from error


def with_in_flight(seen: Snapshot, store: Store) -> Snapshot:
    """Return *seen* with the migrations that the store knows and that are not over.

    Raises:
        StoreError: They cannot be read.
    """
    counting = [found for found in in_flight(store) if not is_over(found, seen)]
    return _with(counting, seen) if counting else seen


def is_over(lost: OpenMigration, seen: Snapshot) -> bool:
    """Return whether *seen* shows that a migration of unknown outcome has ended.

    It has when its guest is seen on a node that answers, and is not migrating, or is
    not seen at all. Unless the guest runs elsewhere than on the source, the state of
    both nodes must be known: without one of them, a platform may not show that the
    guest migrates, or not the guest. A node that is off, or that the platform does
    not have any more, runs none.
    """
    ends = [seen.nodes[name] for name in lost.ends if name in seen.nodes]
    known = all(end.state is not NodeState.UNKNOWN for end in ends)
    guest = seen.guests.get(lost.move.guest)
    if guest is None:
        return known
    if guest.migrating_to is not None or not seen.nodes[guest.node].reachable:
        return False
    runs_elsewhere = (
        guest.node != lost.move.source and guest.state is GuestState.RUNNING
    )
    return known or runs_elsewhere


def _has_failed(lost: OpenMigration, seen: Snapshot, platform: Platform) -> bool:
    """Return whether the platform reports that a lost migration has failed.

    It is asked where the source answers and shows the guest, and not that it migrates:
    then the answer is about this guest, and comes at once.
    """
    shown = seen.guests.get(lost.move.guest)
    if _on_source(lost, seen) is None or shown is None or shown.migrating_to:
        return False
    try:
        status = platform.status(platform.find(lost.move))
    except PlatformError:
        return False
    return status.state is TaskState.FAILED


def _on_source(found: OpenMigration, seen: Snapshot) -> Guest | None:
    """Return the guest as it is seen on the source, migrating; None if it is not."""
    guest = seen.guests.get(found.move.guest)
    if guest is None or guest.node != found.move.source or not guest.present:
        return None
    if not seen.nodes[guest.node].reachable:
        return None
    if guest.usage.memory is None:
        guest = replace(guest, usage=found.guest.usage)
    return replace(guest, migrating_to=guest.migrating_to or found.move.target)


def _with(migrations: Iterable[OpenMigration], seen: Snapshot) -> Snapshot:
    """Return *seen* with *migrations*, each on both its nodes."""
    nodes, guests = dict(seen.nodes), dict(seen.guests)
    for found in migrations:
        for name in found.ends:
            nodes.setdefault(name, Node(id=name))
        guest = _on_source(found, seen)
        if guest is None:
            guest = found.guest
            _burden(found, seen, nodes)
            shown = seen.guests.get(guest.id)
            if shown is not None and shown.node not in found.ends:
                guest = replace(guest, id=GuestId(f"{guest.id}@{guest.node}"))
        guests[guest.id] = guest
    return replace(seen, nodes=nodes, guests=guests)


def _burden(found: OpenMigration, seen: Snapshot, nodes: dict[NodeId, Node]) -> None:
    """Let a guest that is not seen on its source burden both nodes.

    The target must be able to run it; the source, if it answers, to run it on. The
    memory on the target is counted for every guest that migrates there.
    """
    source, target = found.ends
    cpu, memory = found.guest.usage.cpu, found.guest.usage.memory
    shown = seen.guests.get(found.move.guest)
    nodes[target] = _with_more(nodes[target], Usage(cpu, 0))
    if shown is None or shown.node != source:
        nodes[source] = _with_more(nodes[source], Usage(cpu, memory))


def _with_more(node: Node, part: Usage) -> Node:
    used = node.usage
    cpu = None if used.cpu is None or part.cpu is None else used.cpu + part.cpu
    memory = (
        None
        if used.memory is None or part.memory is None
        else used.memory + part.memory
    )
    return replace(node, usage=Usage(cpu, memory))


def _key(move: Move) -> Key:
    return move.guest, move.source, move.target


def _unknown(move: Move) -> Guest:
    """Return a guest of which only the name is known."""
    return Guest(
        id=move.guest,
        node=move.source,
        kind=GuestKind.VM,
        state=GuestState.RUNNING,
        migrating_to=move.target,
    )


def _plain(found: OpenMigration) -> dict[str, object]:
    limit, usage = found.guest.limit, found.guest.usage
    return {
        "action": json.loads(action_as_text(found.move)),
        "kind": found.guest.kind.value,
        "limit": None if limit is None else [limit.cpu, limit.memory],
        "usage": [usage.cpu, usage.memory],
        "tags": sorted(found.guest.tags),
    }


def _read(plain: Mapping[str, Any]) -> OpenMigration:
    move = action_from_text(json.dumps(plain["action"]))
    if isinstance(move, PowerOn | PowerOff):
        raise TypeError(move)
    limit = plain["limit"]
    guest = replace(
        _unknown(move),
        kind=GuestKind(plain["kind"]),
        limit=None if limit is None else Resources(*limit),
        usage=Usage(*plain["usage"]),
        tags=frozenset(plain["tags"]),
    )
    return OpenMigration(move, guest)
