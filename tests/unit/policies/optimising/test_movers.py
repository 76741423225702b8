"""What guests take and what moving them costs, added up for those who go together."""

from __future__ import annotations

import pytest

from builders import guest
from opendrs.model import GIB, Limits, Mobility, NodeId, Usage
from opendrs.policies.optimising.movers import Movers
from opendrs.policies.optimising.parties import Party
from opendrs.scoring import ASSUMED_BANDWIDTH, UsageMode

A = NodeId("a")


def movers(*parties: Party) -> Movers:
    return Movers(parties, UsageMode.DYNAMIC, Limits())


def test_those_who_go_together_are_added_up() -> None:
    pair = Party((guest("x", "a", 0.1), guest("y", "a", 0.3)), A)
    single = Party((guest("z", "a", 0.5),), A)

    found = movers(pair, single)

    assert found.demand[:, 0].tolist() == [4.0, 5.0]
    assert found.demand[:, 1:].tolist() == [[40.0 * GIB] * 2, [50.0 * GIB] * 2]
    assert found.transfer.tolist() == [40.0, 50.0]
    assert found.count.tolist() == [2.0, 1.0]
    assert found.effort.tolist() == [40.5, 50.25]


def test_who_is_not_at_home_is_gathered_and_costs_nothing_more_elsewhere() -> None:
    torn = Party((guest("x", "a", 0.1), guest("y", "b", 0.3)), A)

    found = movers(torn)

    assert found.strays == 1
    assert found.gathering.tolist() == [30.0]
    assert found.transfer.tolist() == [10.0]
    assert found.count.tolist() == [1.0]
    assert found.effort.tolist() == [10.25]


def test_what_is_written_meanwhile_and_what_must_stop_is_dearer() -> None:
    # By hand: half of it is written again, so 20 GiB for 10; four times 10.25.
    busy = guest("x", "a", 0.1, dirty_rate=ASSUMED_BANDWIDTH / 2)
    stopped = guest("y", "a", 0.1, moves=Mobility.STOPPED)

    found = movers(Party((busy,), A), Party((stopped,), A))

    assert found.effort.tolist() == pytest.approx([20.25, 41.0])


def test_a_unit_of_which_some_memory_is_not_known_is_not_known() -> None:
    dark = guest("x", "a", 0.1, usage=Usage(cpu=1.0), limit=None)
    party = Party((dark, guest("y", "a", 0.1)), A)

    found = movers(party, Party((guest("z", "a", 0.1),), A))

    assert found.known.tolist() == [False, True]
    assert found.demand[0].tolist() == [1.0, 10.0 * GIB, 10.0 * GIB]


def test_nobody_takes_nothing() -> None:
    found = movers()

    assert found.demand.shape == (0, 3)
    assert found.known.shape == found.effort.shape == (0,)
