"""How even a cluster is, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import islice

from opendrs.model import GIB, NodeId, first_few
from opendrs.policies.board import Board
from opendrs.policies.closed import closed_nodes
from opendrs.policies.units import Unit
from opendrs.scoring import (
    Best,
    ImbalanceForm,
    NodeLoad,
    best_by_imbalance,
    best_by_topsis,
    demand,
    imbalance,
)
from opendrs.scoring.usage import UsageMode

CLOSED_NAMED = 3  # closed nodes that are named

Loads = Mapping[NodeId, NodeLoad]


class Method(StrEnum):
    """How the best of all moves is chosen.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method.
    """

    BRUTEFORCE = "bruteforce"
    TOPSIS = "topsis"


def best_move(board: Board, method: Method, form: ImbalanceForm) -> Best | None:
    """Return the move that *method* finds best, or None if none is allowed."""
    if method is Method.TOPSIS:
        return best_by_topsis(board.columns, form)
    return best_by_imbalance(board.columns, form)


def load_imbalance(loads: Loads, form: ImbalanceForm) -> float:
    """Return the imbalance of the mean of cpu and memory load."""
    return imbalance([load.mean for load in loads.values()], form)


def measures(loads: Loads, form: ImbalanceForm) -> dict[str, float]:
    """Return the measures of a cluster by name.

    `imbalance` is of the mean of cpu and memory load, the next two of each by
    itself; the highest loads are fractions of the node's capacity.
    """
    cpu = [load.cpu for load in loads.values()]
    memory = [load.memory for load in loads.values()]
    return {
        "imbalance": load_imbalance(loads, form),
        "cpu_imbalance": imbalance(cpu, form),
        "memory_imbalance": imbalance(memory, form),
        "highest_cpu": max(cpu, default=0.0),
        "highest_memory": max(memory, default=0.0),
    }


def explanation(
    board: Board, best: Best, before: float, mode: UsageMode, form: ImbalanceForm
) -> str:
    """Return why *best* is the move to make next on *board*.

    Says what moves, what the nodes' loads are, how the imbalance changes, and
    which better nodes were closed to it.
    """
    unit, target = board.unit(best), board.target(best)
    source = unit[0].node
    loads = board.current_loads()
    change = f"imbalance {before:.3f} → {best.imbalance:.3f}"
    here, there = f"{loads[source].mean:.0%} loaded", f"{loads[target].mean:.0%}"
    amount = _amount(unit, mode)
    sentences = [
        f"takes {amount} from {source} ({here}) to {target} ({there}): {change}"
    ]
    if len(unit) > 1:
        names = first_few([guest.id for guest in unit], joint=" and ")
        sentences.append(f"{names} must stay together and move as one")
    sentences += closed_nodes(islice(board.nearer_choices(best, form), CLOSED_NAMED))
    return "; ".join(sentences)


def _amount(unit: Unit, mode: UsageMode) -> str:
    parts = [taken for guest in unit if (taken := demand(guest, mode)) is not None]
    cpu = sum(part.cpu for part in parts)
    memory = sum(part.memory for part in parts) / GIB
    return f"{cpu:.2f} cores and {memory:.2f} GiB"
