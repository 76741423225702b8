"""Further loads: their settings, and the used part of a node."""

from __future__ import annotations

import pytest

from opendrs.config.binding import TableBinder
from opendrs.errors import ModelError
from opendrs.model import FurtherLoad, Limits
from support.builders import node

NETWORK = FurtherLoad(name="network", weight=1.0)


def test_used_part_is_unknown_without_capacity_or_measurement() -> None:
    amount, capacity = {"network": 250.0}, {"network": 1000.0}

    assert NETWORK.used_fraction(node("a", 0.1, loads=amount)) is None
    assert NETWORK.used_fraction(node("a", 0.1, load_capacities=capacity)) is None
    full = node("a", 0.1, loads=amount, load_capacities=capacity)
    assert NETWORK.used_fraction(full) == pytest.approx(0.25)


def test_loads_are_read_from_settings() -> None:
    table = {"loads": [{"name": "network", "weight": 1, "threshold": 0.7}]}

    bound = TableBinder(Limits, table)

    assert bound.diagnostics == ()
    assert bound.value is not None
    assert bound.value.loads == (
        FurtherLoad(name="network", weight=1.0, threshold=0.7),
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "network"}, "neither balanced nor limited"),
        ({"name": "memory", "weight": 1}, "a name other than cpu and memory"),
        ({"name": "network", "weight": -1}, "weight: expected a number from 0 to 100"),
        ({"name": "network", "threshold": 70}, "threshold: expected a fraction"),
        ({"name": "network", "threshold": 0}, "threshold: expected a fraction"),
        ({"name": "network", "weight": 1, "limit": 1}, "limit"),
    ],
)
def test_invalid_load_is_one_error(entry: dict[str, object], message: str) -> None:
    bound = TableBinder(Limits, {"loads": [entry]})

    (diagnostic,) = bound.diagnostics
    assert message in str(diagnostic)
    assert str(diagnostic).startswith("loads")


def test_loads_of_one_name_are_rejected() -> None:
    with pytest.raises(ModelError, match="loads: duplicate name: network"):
        Limits(loads=(NETWORK, NETWORK))
