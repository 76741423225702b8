"""Whether the rules are kept, on the way and in the end."""

from __future__ import annotations

from opendrs.guard.case import Case
from opendrs.model import Migration, Move, Snapshot
from opendrs.rules import newly_broken


def breaks_rule(case: Case) -> str | None:
    """Return which strict rule would be broken that is not broken now.

    Looked at are the cluster while all moves are under way, once they are
    done, and once everything else that is under way has arrived as well.
    """
    fresh, settled = case.fresh, _settled(case.fresh)
    futures = (
        (fresh, _during(fresh, case.moves), "on the way"),
        (fresh, _after(fresh, case.moves), "in the end"),
        (settled, _after(settled, case.moves), "once all has arrived"),
    )
    for before, after, when in futures:
        if broken := newly_broken(before, after):
            return f"{broken[0]}, {when}"
    return None


def _during(snapshot: Snapshot, moves: tuple[Move, ...]) -> Snapshot:
    for move in moves:
        snapshot = snapshot.during(move)
    return snapshot


def _after(snapshot: Snapshot, moves: tuple[Move, ...]) -> Snapshot:
    for move in moves:
        snapshot = snapshot.after(move)
    return snapshot


def _settled(snapshot: Snapshot) -> Snapshot:
    """Return the cluster once all that is under way has arrived."""
    under_way = (
        Migration(guest.id, guest.node, guest.migrating_to)
        for guest in snapshot.guests.values()
        if guest.migrating_to is not None
    )
    return _after(snapshot, tuple(under_way))
