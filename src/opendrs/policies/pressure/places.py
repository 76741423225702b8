"""Where a guest in trouble is to go.

The patch series' own choice of a target is not known; this one is ours: nodes with
the memory, the cores and the processor time, of which the one is taken where the
guest would best start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from opendrs.model import Guest, Resources, first_few
from opendrs.model.resources import NOTHING
from opendrs.policies.board import Board, Row
from opendrs.policies.pressure.trouble import Bounds
from opendrs.policies.units import Unit
from opendrs.scoring import StartBoard

NEARER = 3  # better nodes that are named with what closes them

_MEMORY = "it would use more of its memory than it may when it receives"
_CORES = "it has fewer cores than the guest"
_BUSY = "its processors would be overcommitted"


class Places:
    """The nodes of a board, as places for guests in trouble."""

    def __init__(self, board: Board, bounds: Bounds) -> None:
        nodes = [board.snapshot.nodes[name] for name in board.nodes]
        self._board = board
        self._most = np.array([bounds.receiving(node) for node in nodes], float)
        self._taken = board.columns.taken
        self._cores = board.columns.capacity[:, 0]

    def target(self, index: int) -> int | None:
        """Return the node for the unit at *index*, or None if there is none."""
        candidates = np.flatnonzero(self._board.open_to(index) & self._fitting(index))
        if not candidates.size:
            return None
        scores = self._scores(index)[candidates]
        return int(candidates[scores.argmax()])

    def nearer(self, index: int, target: int) -> Iterator[tuple[str, str]]:
        """Yield the nodes where it would start better, and why it may not."""
        scores = self._scores(index)
        source = int(self._board.columns.node_of[index])
        better = np.flatnonzero(scores > scores[target])
        order = better[np.argsort(-scores[better], kind="stable")]
        for place in order[order != source][:NEARER].tolist():
            yield self._board.nodes[place], self._why_not(index, place)

    def dead_end(self, index: int) -> str:
        """Return why the unit at *index* may go nowhere, by reason."""
        source = int(self._board.columns.node_of[index])
        names: dict[str, list[str]] = {}
        for why, fits in self._demands(index):
            closed = np.flatnonzero(~fits & (np.arange(fits.size) != source))
            if closed.size:
                names[why] = [self._board.nodes[place] for place in closed]
        fitting = self._fitting(index)
        fitting[source] = False
        for place in np.flatnonzero(fitting)[:NEARER].tolist():
            why = self._why_not(index, place)
            names.setdefault(why, []).append(self._board.nodes[place])
        whys = [f"{first_few(those)}: {why}" for why, those in names.items()]
        return "; ".join(whys) or "no other node is online and measured"

    def _why_not(self, index: int, place: int) -> str:
        for why, fits in self._demands(index):
            if not fits[place]:
                return why
        return self._board.why_closed(index, place) or "it is not open to it"

    def _fitting(self, index: int) -> Row:
        """Return which nodes have the memory, the cores and the time."""
        row = np.ones(len(self._board.nodes), np.bool_)
        for _, fits in self._demands(index):
            row &= fits
        return row

    def _demands(self, index: int) -> Iterator[tuple[str, Row]]:
        """Yield what is asked of a node, and which nodes meet it."""
        cpu, memory = self._board.columns.demand[index]
        members = self._board.members(index)
        widest = max(g.limit.cpu if g.limit is not None else 0.0 for g in members)
        yield _MEMORY, self._taken[:, 1] + memory <= self._most
        yield _CORES, widest <= self._cores
        yield _BUSY, self._taken[:, 0] + cpu <= self._cores

    def _scores(self, index: int) -> npt.NDArray[np.float64]:
        """Return how good each node is for starting the unit there."""
        board = self._board
        loads = board.current_loads()
        members = board.members(index)
        source = members[0].node
        left = loads[source].without_running(_used(members))
        starts = StartBoard(list({**loads, source: left}.values()))
        return np.array(starts.scores(_limit(members)))


def _used(unit: Iterable[Guest]) -> Resources:
    total = NOTHING
    for guest in unit:
        total = total.plus(guest.usage.known or NOTHING)
    return total


def _limit(unit: Unit) -> Resources:
    """Return what *unit* may come to use: what it uses in its trouble says little.

    It is without cpu limit if one of it is; where no limit is known, it is what is
    used.
    """
    total = _used([guest for guest in unit if guest.limit is None])
    for guest in unit:
        total = total.plus(guest.limit or NOTHING)
    unlimited = any(guest.limit is not None and guest.limit.cpu == 0 for guest in unit)
    return Resources(0.0 if unlimited else total.cpu, total.memory)
