"""Times in the future: recorded by a clock that was ahead, and has been set back.

They are treated as now. Else a move that was recorded an hour ahead would hide for an
hour that its guest was moved, or a node would have to stay on until then.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime

from opendrs.controller.nodes import keep_known_nodes, known_nodes
from opendrs.controller.telling import tell
from opendrs.model import Snapshot
from opendrs.ports import Store


def correct_times(store: Store, now: datetime) -> None:
    """Set all times in the record that are after *now* to *now*, with one warning.

    Raises:
        StoreError: The record cannot be read or kept.
    """
    found = store.correct_times(now)
    nodes = known_nodes(store)
    ahead = {name for name, node in nodes.items() if node.seen_at > now}
    if ahead:
        corrected = {name: replace(nodes[name], seen_at=now) for name in ahead}
        keep_known_nodes({**nodes, **corrected}, store)
    _warn("record", found + len(ahead))


def warn_of_times(store: Store, now: datetime) -> None:
    """Warn of times in the record that are after *now*, where it is only read.

    Raises:
        StoreError: The record cannot be read.
    """
    nodes = known_nodes(store).values()
    _warn("record", len(store.recent(now)) + sum(one.seen_at > now for one in nodes))


def warn_of_snapshot(snapshot: Snapshot) -> None:
    """Warn of times in *snapshot* that are after it was taken."""
    guests = (guest.moved_at for guest in snapshot.guests.values())
    nodes = (node.woken_at for node in snapshot.nodes.values())
    found = [at for at in (*guests, *nodes) if at is not None]
    _warn("snapshot", sum(at > snapshot.taken_at for at in found))


def _warn(what: str, times: int) -> None:
    if times:
        tell(
            "times-in-future",
            f"{what}: times in the future are treated as now: {times}; check the clock "
            "of this machine",
            level=logging.WARNING,
            times=times,
        )
