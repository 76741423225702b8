"""Watchdogs: a process that stops feeding its own takes its host down."""

from __future__ import annotations

from copy import copy
from itertools import takewhile
from typing import Self

from opendrs.model import NodeId

WATCHDOG_TIMEOUT = 60  # seconds


class WatchdogBittenError(Exception):
    """A process fed a watchdog that had bitten already."""

    def __init__(self, node: NodeId) -> None:
        super().__init__(f"watchdog of node '{node}' has expired")


class Watchdogs:
    """All watchdogs of a cluster, each known by its node and process.

    They are kept in the order in which they were fed, so that the one that
    bites first is the first.
    """

    def __init__(self) -> None:
        self._fed: dict[tuple[NodeId, str], int] = {}

    def copy(self) -> Self:
        """Return the same watchdogs for another cluster."""
        made = copy(self)
        vars(made).update(_fed=dict(self._fed))
        return made

    def feed(self, node: NodeId, process: str, now: int) -> None:
        """Keep the watchdog of *process* on *node* from biting.

        Raises:
            WatchdogBittenError: It would have bitten by *now*.
        """
        self._require_alive(node, process, now)
        self._fed.pop((node, process), None)
        self._fed[node, process] = now

    def close(self, node: NodeId, process: str, now: int) -> None:
        """Let the watchdog of *process* on *node* be, if there is one.

        Raises:
            WatchdogBittenError: It would have bitten by *now*.
        """
        self._require_alive(node, process, now)
        self._fed.pop((node, process), None)

    def drop(self, node: NodeId) -> None:
        """Forget the watchdogs of *node*, which lost its power."""
        for key in [key for key in self._fed if key[0] == node]:
            del self._fed[key]

    def bitten(self, now: int) -> list[NodeId]:
        """Return the nodes whose watchdogs bite, in order, and forget those."""
        nodes = set()
        hungry = takewhile(
            lambda fed: now - fed[1] > WATCHDOG_TIMEOUT, self._fed.items()
        )
        for key, _ in list(hungry):
            nodes.add(key[0])
            del self._fed[key]
        return sorted(nodes)

    def _require_alive(self, node: NodeId, process: str, now: int) -> None:
        fed = self._fed.get((node, process))
        if fed is not None and now - fed > WATCHDOG_TIMEOUT:
            raise WatchdogBittenError(node)
