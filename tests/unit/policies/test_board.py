"""The cluster as columns says what the plain forms say, also after moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from builders import cluster, guest, node
from opendrs.model import (
    GIB,
    GuestId,
    GuestKind,
    Limits,
    Migration,
    Mobility,
    NodeId,
    NodeState,
    Relocation,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies.board import Board
from opendrs.policies.outlook import not_ready
from opendrs.policies.units import Selection, moves_of
from opendrs.rules import Targets
from opendrs.scoring import Best, ImbalanceForm, UsageMode, best_by_imbalance
from strategies import snapshots

A, B = NodeId("a"), NodeId("b")
EXACT = Limits(memory_headroom=0.0)  # whole bytes, so that both forms agree on them


def board_of(
    snapshot: Snapshot, mode: UsageMode = UsageMode.DYNAMIC, limits: Limits = EXACT
) -> Board:
    return Board(snapshot, limits, Selection(mode=mode, relocate=True))


def open_to(board: Board, index: int) -> set[NodeId]:
    """Return the nodes which the columns leave open to a unit."""
    return {board.nodes[i] for i in np.flatnonzero(board.open_to(index))}


def closed(board: Board, index: int) -> dict[NodeId, str]:
    """Return why each node but its own that is closed to a unit is so."""
    verdicts = {
        name: board.why_closed(index, place)
        for place, name in enumerate(board.nodes)
        if place != board.columns.node_of[index]
    }
    return {name: why for name, why in verdicts.items() if why is not None}


def size(board: Board) -> int:
    return len(board.columns.demand)


@given(
    snapshots() | snapshots(settled=True) | snapshots(settled=True, measured=True),
    st.sampled_from(UsageMode),
)
def test_the_columns_leave_open_what_targets_leaves_open(
    snapshot: Snapshot, mode: UsageMode
) -> None:
    if not_ready(snapshot, mode):
        return
    board = board_of(snapshot, mode)
    done: set[int] = set()

    while True:
        event(f"after {len(done)} moves")
        judge = Targets(board.snapshot, board.rules, EXACT)
        for index in range(size(board)):
            unit = [board.snapshot.guests[guest.id] for guest in board.members(index)]
            expected = set() if index in done else set(judge.open(unit))
            assert open_to(board, index) == expected
            if index not in done:
                assert closed(board, index) == {
                    name: why
                    for name, why in judge.excluded(unit).items()
                    if name in board.nodes
                }
        best = best_by_imbalance(board.columns, ImbalanceForm.RAW)
        if best is None:
            break
        board.make(best)
        done.add(best.unit)


@settings(max_examples=50)
@given(snapshots(measured=True, settled=True))
def test_the_columns_take_what_the_nodes_take(snapshot: Snapshot) -> None:
    board = board_of(snapshot)

    while True:
        taken = [
            (load.taken.cpu, load.taken.memory)
            for load in board.current_loads().values()
        ]
        assert board.columns.taken == pytest.approx(np.array(taken))
        best = best_by_imbalance(board.columns, ImbalanceForm.RAW)
        if best is None:
            break
        board.make(best)


def lone(moves: Mobility | None, kind: GuestKind) -> list[type]:
    unit = (guest("x", "a", 0.1, moves=moves, kind=kind),)
    return [type(move) for move in moves_of(unit, B)]


def test_guests_move_live_where_they_can() -> None:
    assert lone(Mobility.LIVE, GuestKind.CONTAINER) == [Migration]
    assert lone(None, GuestKind.VM) == [Migration]
    assert lone(None, GuestKind.CONTAINER) == [Relocation]
    assert lone(Mobility.STOPPED, GuestKind.CONTAINER) == [Relocation]


def test_room_that_is_not_known_stays_so_when_guests_leave() -> None:
    # Nothing is known of the memory of `dark`, so nobody may join it.
    plain = cluster(
        {"a": 0.5, "b": 0.4}, {"x": ("a", 0.3), "y": ("b", 0.1), "dark": ("a", None)}
    )
    board = board_of(plain)

    board.make(Best(unit=0, target=1, imbalance=0.0))

    assert board.unit(Best(1, 0, 0.0))[0].id == GuestId("y")
    assert open_to(board, 1) == set()


def test_a_guest_frees_no_more_than_was_measured_on_its_node() -> None:
    # 5 GiB are measured on a, of which x is said to use 20; y needs all of a.
    plain = cluster({"a": 0.05, "b": 0.0}, {"x": ("a", 0.2), "y": ("b", 0.0)})
    big = replace(
        plain.guests[GuestId("y")],
        usage=Usage(0.0, 101 * GIB),
        limit=Resources(1, 1 * GIB),
    )
    board = board_of(replace(plain, guests={**plain.guests, big.id: big}))

    board.make(Best(unit=0, target=1, imbalance=0.0))

    assert open_to(board, 1) == set()


def test_guests_that_need_a_processor_differ_from_those_that_do_not() -> None:
    plain = cluster({"a": 0.5, "b": 0.1}, {"x": ("a", 0.1), "y": ("a", 0.1)})
    picky = replace(plain.guests[GuestId("x")], cpu_model="EPYC")

    board = board_of(replace(plain, guests={**plain.guests, picky.id: picky}))

    assert open_to(board, 0) == set()
    assert open_to(board, 1) == {B}


def test_nodes_that_are_not_online_are_not_on_the_board() -> None:
    plain = cluster({"a": 0.5, "b": 0.4}, {"x": ("a", 0.3), "y": ("b", 0.1)})
    down = {**plain.nodes, B: node("b", 0.4, state=NodeState.OFFLINE)}

    board = board_of(replace(plain, nodes=down))

    assert list(board.loads) == [A]
    assert size(board) == 1
