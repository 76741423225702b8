"""A picture shows each guest, or each node when there are many guests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opendrs.errors import InvalidFileError
from opendrs.sim.drill import hold_drill
from opendrs.sim.drill.history import history_of
from opendrs.sim.drill.naming import Names
from opendrs.sim.drill.picture import MOST_ROWS, Play, draw
from unit.sim.drill.drills import scenario


def play(services: int) -> Play:
    nodes = {f"vm:{100 + n}": f"node{1 + n % 3}" for n in range(services)}
    drill = hold_drill(scenario(nodes, ["power node3 off"]))
    return Play("$a lost host$", drill, history_of(drill), Names())


def drawn(shown: Play, path: Path) -> set[str]:
    """Return the words in a picture, which are in its comments."""
    draw(shown, path)
    return set(re.findall(r"<!-- (.*?) -->", path.read_text()))


def test_a_row_for_each_guest_and_a_line_for_each_deed(tmp_path: Path) -> None:
    words = drawn(play(6), tmp_path / "x.svg")

    assert {f"vm:{100 + n}" for n in range(6)} <= words
    assert {"power node3 off", "node3 fenced", "down", "moved", "node1"} <= words
    assert "$a lost host$" in words


def test_a_row_for_each_node_when_there_are_many_guests(tmp_path: Path) -> None:
    words = drawn(play(MOST_ROWS + 1), tmp_path / "x.svg")

    assert {"node1", "node2", "node3", "guests running", "node3 fenced"} <= words
    assert "vm:100" not in words


def test_an_empty_drill_can_be_drawn(tmp_path: Path) -> None:
    assert "seconds" in drawn(play(0), tmp_path / "x.svg")


def test_equal_drills_give_equal_pictures(tmp_path: Path) -> None:
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"

    draw(play(4), one)
    draw(play(4), other)

    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("name", ["x.jpg", "x", "no/x.svg"])
def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidFileError):
        draw(play(1), tmp_path / name)
