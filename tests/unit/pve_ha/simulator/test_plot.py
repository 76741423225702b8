"""Plots with a row per guest, or per node for many guests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opendrs.errors import InvalidFileError
from opendrs.pve_ha.simulator import run_drill
from opendrs.pve_ha.simulator.history import read_history
from opendrs.pve_ha.simulator.plot import MAX_ROWS, DrillPlotData, write_plot
from opendrs.pve_ha.simulator.pve_names import PveNames
from support.drills import scenario


def plot_data(services: int) -> DrillPlotData:
    nodes = {f"vm:{100 + n}": f"node{1 + n % 3}" for n in range(services)}
    drill = run_drill(scenario(nodes, ["power node3 off"]))
    return DrillPlotData("$a lost host$", drill, read_history(drill), PveNames())


def words_in_plot(data: DrillPlotData, path: Path) -> set[str]:
    """Return the texts of a plot, which are in the comments of the SVG file."""
    write_plot(data, path)
    return set(re.findall(r"<!-- (.*?) -->", path.read_text()))


def test_plot_has_row_per_guest_and_line_per_command(tmp_path: Path) -> None:
    words = words_in_plot(plot_data(6), tmp_path / "x.svg")

    assert {f"vm:{100 + n}" for n in range(6)} <= words
    assert {"power node3 off", "node3 fenced", "down", "moved", "node1"} <= words
    assert "$a lost host$" in words


def test_plot_of_many_guests_has_row_per_node(tmp_path: Path) -> None:
    words = words_in_plot(plot_data(MAX_ROWS + 1), tmp_path / "x.svg")

    assert {"node1", "node2", "node3", "guests running", "node3 fenced"} <= words
    assert "vm:100" not in words


def test_empty_drill_can_be_plotted(tmp_path: Path) -> None:
    assert "seconds" in words_in_plot(plot_data(0), tmp_path / "x.svg")


def test_equal_drills_give_equal_plots(tmp_path: Path) -> None:
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"

    write_plot(plot_data(4), one)
    write_plot(plot_data(4), other)

    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("name", ["x.jpg", "x", "no/x.svg"])
def test_plot_with_invalid_path_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidFileError):
        write_plot(plot_data(1), tmp_path / name)
