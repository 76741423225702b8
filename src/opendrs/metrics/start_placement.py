"""Scores of nodes for the start of a guest.

`start_scores` evaluates one node after the other, `start_scores_array` all nodes at
once with identical digits. `StartScorer` rounds the criteria and needs time
proportional to the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from opendrs.metrics.imbalance import sum_of_rows
from opendrs.metrics.load import WEIGHTS, NodeLoad, criteria
from opendrs.metrics.topsis import topsis, topsis_array
from opendrs.model import Resources, resource_pair

CHUNK_ELEMENTS = 1 << 20  # loads per chunk: 8 MiB
DIGITS = 12  # decimals of a criterion; removes rounding differences
Floats = npt.NDArray[np.float64]


def start_scores_array(loads: Sequence[NodeLoad], limit: Resources) -> list[float]:
    """Return the result of `start_scores`, to the last digit, for many nodes.

    Args:
        loads: Loads of the nodes; shape (n,).
        limit: Limit of the guest; cpu 0 if unlimited.

    Returns:
        TOPSIS closeness in [0, 1], larger is better; shape (n,).
    """
    if not loads:
        return []
    started = [load.with_started_guest(limit) for load in loads]
    cpu = _criteria_after_start(
        [load.cpu for load in loads], [load.cpu for load in started]
    )
    memory = _criteria_after_start(
        [load.memory for load in loads], [load.memory for load in started]
    )
    scores = topsis_array(np.column_stack([*cpu, *memory]), WEIGHTS)
    return [float(score) for score in scores]


class StartScorer:
    """Loads of many nodes, kept as arrays between starts.

    Criteria are rounded to 12 decimals. Ties between equal nodes are then resolved by
    name, and not by rounding errors, which TOPSIS amplifies.

    Args:
        loads: Loads of the nodes; at least one.
    """

    def __init__(self, loads: Sequence[NodeLoad]) -> None:
        self._capacity = np.array([resource_pair(load.capacity) for load in loads])
        self._usage = np.array([resource_pair(load.usage) for load in loads])

    def update(self, index: int, load: NodeLoad) -> None:
        """Set the load of the node at *index* to *load*."""
        self._usage[index] = resource_pair(load.usage)

    def scores(self, limit: Resources) -> list[float]:
        """Return the score of each node for the start of a guest with *limit*.

        Args:
            limit: Limit of the guest; cpu 0 if unlimited.

        Returns:
            TOPSIS closeness in [0, 1], larger is better; shape (n,).
        """
        added = np.empty_like(self._usage)
        added[:, 0] = limit.cpu if limit.cpu != 0 else self._capacity[:, 0]
        added[:, 1] = limit.memory
        scores: list[float] = scores_after_start(
            self._capacity, self._usage, added
        ).tolist()
        return scores


def scores_after_start(capacity: Floats, usage: Floats, added: Floats) -> Floats:
    """Return the score of each node for a guest that adds to its usage.

    Args:
        capacity: Cores and bytes of memory of each node; shape (n, 2), n > 0.
        usage: Used resources of each node; shape (n, 2).
        added: What the guest would use on each node; shape (n, 2) or (2,).

    Returns:
        TOPSIS closeness in [0, 1], larger is better; shape (n,).
    """
    before = usage / capacity
    after = (usage + added) / capacity
    old, new = np.square(before), np.square(after)
    average = 1.0 + np.sqrt((old.sum(axis=0) - old + new) / len(before))
    highest = 1.0 + np.maximum(before.max(axis=0), after)
    criteria = np.stack((average, highest), axis=2).reshape(len(before), -1)
    scores: Floats = topsis_array(np.round(criteria, DIGITS), WEIGHTS)
    return scores


def _criteria_after_start(
    loads: Sequence[float], started: Sequence[float]
) -> tuple[Floats, Floats]:
    """Return average and highest load after a start on each node.

    A start never lowers a load. The highest load is therefore the previous highest one
    or that of the target.
    """
    before, after = np.array(loads), np.array(started)
    squares = np.concatenate(list(_sums_of_squares(before, after)))
    highest = np.maximum(max(0.0, float(before.max())), after)
    return 1.0 + np.sqrt(squares / len(before)), 1.0 + highest


def _sums_of_squares(before: Floats, after: Floats) -> Iterator[Floats]:
    """Yield the sum of squares after a start on each node, in chunks of nodes."""
    n = len(before)
    width = max(1, CHUNK_ELEMENTS // n)
    old, new = before * before, after * after
    for first in range(0, n, width):
        nodes = np.arange(first, min(n, first + width))
        rows = np.repeat(old[:, None], len(nodes), axis=1)
        rows[nodes, nodes - first] = new[nodes]
        yield sum_of_rows(rows)


def start_scores(loads: Sequence[NodeLoad], limit: Resources) -> list[float]:
    """Return the score of each node for the start of a guest with *limit*.

    Args:
        loads: Loads of the nodes; shape (n,).
        limit: Limit of the guest; cpu 0 if unlimited.

    Returns:
        TOPSIS closeness in [0, 1], larger is better; shape (n,).
    """
    futures = [
        criteria([*loads[:i], load.with_started_guest(limit), *loads[i + 1 :]])
        for i, load in enumerate(loads)
    ]
    return topsis(futures, WEIGHTS)
