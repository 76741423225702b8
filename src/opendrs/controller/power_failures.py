"""Exclusion of nodes that recently failed to power on or off.

Otherwise a node that does not power on would be selected repeatedly. A node that did
not power off in time may still do so, with the guests that were migrated to it since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from opendrs.model import Node, NodeId, NodeState, PowerOff, PowerOn, Snapshot
from opendrs.ports import MAX_POWER_OFF_DELAY, Outcome, StepRecord, Store

INITIAL_RETRY_DELAY = timedelta(minutes=15)  # after the first failed power-on
MAX_RETRY_DELAY = timedelta(hours=4)
LOOKBACK = timedelta(days=1)
_NEVER_STARTED = frozenset({Outcome.REJECTED, Outcome.SKIPPED})


@dataclass(frozen=True, slots=True)
class PowerFailure:
    """A power action of a node that did not succeed as far as known.

    Attributes:
        action: The last action.
        attempts: Number of consecutive failures of the same action.
        ended_at: Time of the last failure.
    """

    action: PowerOn | PowerOff
    attempts: int
    ended_at: datetime

    def effective_state(self, node: Node, now: datetime) -> NodeState:
        """Return the state that *node* is treated as having at *now*."""
        elapsed = now - min(self.ended_at, now)
        if isinstance(self.action, PowerOn):
            # The exponent is limited: MAX_RETRY_DELAY is reached long before.
            delay = min(
                MAX_RETRY_DELAY, INITIAL_RETRY_DELAY * 2 ** min(self.attempts - 1, 10)
            )
            if node.state is NodeState.OFFLINE and elapsed < delay:
                return NodeState.UNKNOWN
        elif node.online and elapsed < timedelta(seconds=MAX_POWER_OFF_DELAY):
            return NodeState.EXCLUDED
        return node.state


def exclude_failed_power_nodes(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* without nodes that recently failed to power on or off.

    An offline node that failed to power on is unknown for 15 minutes, and twice as
    long with each further failure, so that another node is selected. An online node
    that failed to power off is excluded for half an hour: it receives no guest.

    Raises:
        StoreError: The store cannot be read.
    """
    return exclude_nodes(snapshot, find_power_failures(store, snapshot.taken_at))


def find_power_failures(store: Store, now: datetime) -> tuple[PowerFailure, ...]:
    """Return the last power action of each node for which it did not succeed.

    Raises:
        StoreError: The store cannot be read.
    """
    return tuple(_latest_failures(store.recent(now - LOOKBACK)))


def exclude_nodes(snapshot: Snapshot, failures: Iterable[PowerFailure]) -> Snapshot:
    """Return *snapshot* with the states of `exclude_failed_power_nodes`."""
    nodes = dict(snapshot.nodes)
    for failure in failures:
        node = nodes.get(failure.action.node)
        if node is not None:
            state = failure.effective_state(node, snapshot.taken_at)
            nodes[node.id] = replace(node, state=state)
    return replace(snapshot, nodes=nodes)


def _latest_failures(records: tuple[StepRecord, ...]) -> Iterator[PowerFailure]:
    """Yield the last power action of each node if it did not succeed."""
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
