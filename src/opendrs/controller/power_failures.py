"""What the record tells of nodes that were switched, and did not follow.

A node that did not wake would be chosen again and again, and one that did not go to
sleep may still do so, with whoever was moved there meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from opendrs.model import Node, NodeId, NodeState, PowerOff, PowerOn, Snapshot
from opendrs.ports import MAX_POWER_OFF_DELAY, Outcome, StepRecord, Store

INITIAL_RETRY_DELAY = timedelta(minutes=15)  # for a node that did not wake
MAX_RETRY_DELAY = timedelta(hours=4)  # however often it did not
LOOKBACK = timedelta(days=1)
_NEVER_STARTED = frozenset({Outcome.REJECTED, Outcome.SKIPPED})


@dataclass(frozen=True, slots=True)
class PowerFailure:
    """A switch that a node did not follow, as far as is known.

    Attributes:
        action: What was wanted last.
        attempts: How often in a row.
        ended_at: When it was given up.
    """

    action: PowerOn | PowerOff
    attempts: int
    ended_at: datetime

    def effective_state(self, node: Node, now: datetime) -> NodeState:
        """Return as what *node* counts because of it."""
        elapsed = now - min(self.ended_at, now)
        if isinstance(self.action, PowerOn):
            # Beyond 2 ** 10 the longest rest has long been reached.
            delay = min(
                MAX_RETRY_DELAY, INITIAL_RETRY_DELAY * 2 ** min(self.attempts - 1, 10)
            )
            if node.state is NodeState.OFFLINE and elapsed < delay:
                return NodeState.UNKNOWN
        elif node.online and elapsed < timedelta(seconds=MAX_POWER_OFF_DELAY):
            return NodeState.MAINTENANCE
        return node.state


def exclude_failed_power_nodes(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* with nodes left alone that lately were switched in vain.

    One that sleeps and did not wake is unknown, so that another is woken: for 15
    minutes, and twice as long each time. One that is online and was not seen to go
    to sleep is in maintenance for half an hour: it receives nobody.

    Raises:
        StoreError: The record cannot be read.
    """
    return exclude_nodes(snapshot, find_power_failures(store, snapshot.taken_at))


def find_power_failures(store: Store, now: datetime) -> tuple[PowerFailure, ...]:
    """Return for each node its last switch, if it was not seen to be followed so far.

    Raises:
        StoreError: The record cannot be read.
    """
    return tuple(_latest_failures(store.recent(now - LOOKBACK)))


def exclude_nodes(snapshot: Snapshot, failures: Iterable[PowerFailure]) -> Snapshot:
    """Return *snapshot* as `exclude_failed_power_nodes` does, because of *failures*."""
    nodes = dict(snapshot.nodes)
    for failure in failures:
        node = nodes.get(failure.action.node)
        if node is not None:
            state = failure.effective_state(node, snapshot.taken_at)
            nodes[node.id] = replace(node, state=state)
    return replace(snapshot, nodes=nodes)


def _latest_failures(records: tuple[StepRecord, ...]) -> Iterator[PowerFailure]:
    """Yield for each node its last switch, if that was not seen to be followed."""
    failures: dict[NodeId, PowerFailure] = {}
    for record in records:
        action = record.action
        if (
            not isinstance(action, PowerOn | PowerOff)
            or record.outcome in _NEVER_STARTED
        ):
            continue
        previous = failures.pop(action.node, None)
        if record.outcome is Outcome.DONE:
            continue
        attempts = (
            previous.attempts
            if previous is not None and previous.action == action
            else 0
        )
        ended_at = record.ended_at or record.intended_at
        failures[action.node] = PowerFailure(action, attempts + 1, ended_at)
    yield from failures.values()
