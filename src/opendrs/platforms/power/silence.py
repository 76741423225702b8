"""For how long nodes have not answered their platform."""

from __future__ import annotations

from collections.abc import Callable

from opendrs.model import NodeId, NodeState, Snapshot

_SILENT = frozenset({NodeState.UNKNOWN, NodeState.OFFLINE})


class Silence:
    """For how long nodes have not answered, from look to look.

    Args:
        now: Returns seconds that only ever grow.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[NodeId, float] = {}

    def note(self, seen: Snapshot) -> Snapshot:
        """Take note of who answers in *seen*, and return it."""
        for name, node in seen.nodes.items():
            if node.state in _SILENT:
                self._since.setdefault(name, self._now())
            else:
                self._since.pop(name, None)
        return seen

    def of(self, node: NodeId) -> float | None:
        """Return the seconds since *node* first did not answer; None if it does."""
        since = self._since.get(node)
        return None if since is None else self._now() - since
