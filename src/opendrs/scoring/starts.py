"""Where a guest should start, over columns.

What `start_scores` does for each node in turn, with the same last digits, done
for all nodes at once: each start changes one load, and the loads before it add
up to what they did before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from opendrs.model import Resources
from opendrs.scoring.load import WEIGHTS, NodeLoad
from opendrs.scoring.sums import sum_of_rows
from opendrs.scoring.topsis import topsis_columns

CELLS = 1 << 20  # loads added up at once: 8 MiB

Floats = npt.NDArray[np.float64]


def start_scores_columns(loads: Sequence[NodeLoad], limit: Resources) -> list[float]:
    """Return what `start_scores` returns, to the last digit, for many nodes.

    Args:
        loads: The nodes; shape (n,).
        limit: What the guest may use; cpu 0 when it has no limit.

    Returns:
        TOPSIS closeness in [0, 1], larger is better; shape (n,).
    """
    if not loads:
        return []
    started = [load.with_started(limit) for load in loads]
    cpu = _criteria([load.cpu for load in loads], [load.cpu for load in started])
    memory = _criteria(
        [load.memory for load in loads], [load.memory for load in started]
    )
    scores = topsis_columns(np.column_stack([*cpu, *memory]), WEIGHTS)
    return [float(score) for score in scores]


def _criteria(
    loads: Sequence[float], started: Sequence[float]
) -> tuple[Floats, Floats]:
    """Return average and highest load after a start on each node.

    A start never lowers a load, so the highest one is either the highest before
    or the one it raises.
    """
    before, after = np.array(loads), np.array(started)
    squares = np.concatenate(list(_sums_of_squares(before, after)))
    highest = np.maximum(max(0.0, float(before.max())), after)
    return 1.0 + np.sqrt(squares / len(before)), 1.0 + highest


def _sums_of_squares(before: Floats, after: Floats) -> Iterator[Floats]:
    """Yield the sum of squares after a start on each node, some nodes at a time."""
    n = len(before)
    width = max(1, CELLS // n)
    old, new = before * before, after * after
    for first in range(0, n, width):
        nodes = np.arange(first, min(n, first + width))
        rows = np.repeat(old[:, None], len(nodes), axis=1)
        rows[nodes, nodes - first] = new[nodes]
        yield sum_of_rows(rows)
