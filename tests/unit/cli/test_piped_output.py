"""Through a pipe each fact is one line, whatever the width of the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opendrs.config import write_snapshot
from opendrs.model import AntiAffinity
from support.builders import cluster, guest_ids
from support.terminal import RunOpendrs, piped_output, run_opendrs_in_terminal

DRAWN_CHARACTERS = re.compile("[\x1b█░▏━─│┃┌└●]")
NAME = "a-guest-with-a-name-that-is-longer-than-many"
COMMANDS = [
    ("show", "cluster.json", "--guests"),
    ("plan", "cluster.json"),
    ("plan", "cluster.json", "--all"),
    ("plan", "cluster.json", "--summary"),
    ("plan", "cluster.json", "--policy", "optimize"),
    ("apply", "demo", "--yes"),
    ("compare", "cluster.json", "--policy", "balance", "--policy", "pressure"),
    ("place", "cluster.json", "--like", f"{NAME}-1", "--count", "3"),
    ("what-if", "cluster.json", "--fail", "n01", "--policy", "balance"),
    ("check", "cluster.json"),
    ("drill", "cluster.json", "--each-node", "--assume-ha"),
    ("drill", "cluster.json", "--fail", "n01", "--assume-ha"),
    ("simulate", "synthetic", "--guests", "20", "--hosts", "8", "--policy", "none"),
]


@pytest.fixture(autouse=True)
def _files(opendrs: RunOpendrs) -> None:
    """Write the files to read to the directory of *opendrs*."""
    del opendrs
    nodes = {f"n{number:02}": 0.6 - 0.05 * number for number in range(12)}
    guests = {f"{NAME}-{number}": (f"n{number % 3:02}", 0.08) for number in range(18)}
    apart = [
        AntiAffinity(guests=guest_ids(f"{NAME}-{one}", f"{NAME}-{one + 3}"))
        for one in range(6)
    ]
    write_snapshot(cluster(nodes, guests, apart), Path("cluster.json"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_piped_output_has_no_width_and_no_colors(
    command: tuple[str, ...], opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    found = []
    for width in ("40", "300"):
        monkeypatch.setenv("COLUMNS", width)
        found.append(opendrs(*command).out)

    lines = found[0].splitlines()
    assert len(lines) > 2
    assert without_times(found[0]) == without_times(found[1])
    assert not [line for line in lines if DRAWN_CHARACTERS.search(line)]
    assert not [line for line in lines if line.endswith(" ") or "  " in line]


def without_times(text: str) -> str:
    """Return *text* without the processor times that `compare` measures."""
    return re.sub(r"\t\d+\.\d\d( s)?$", "", text, flags=re.MULTILINE)


def columns(text: str, head: str) -> dict[str, list[str]]:
    """Return the rows of the table of which the first heading is *head*, by name."""
    rows = [line.split("\t") for line in text.splitlines()]
    first = next(place for place, row in enumerate(rows) if row[0] == head)
    table = []
    for row in rows[first:]:
        if len(row) != len(rows[first]):
            break
        table.append(row)
    return {row[0]: row[1:] for row in table[1:]}


def test_piped_node_table_has_complete_rows(opendrs: RunOpendrs) -> None:
    rows = columns(opendrs("show", "cluster.json").out, "node")

    assert len(rows) == 12
    assert rows["n00"] == ["online", "60%", "10", "60%", "100.0 GiB", "6"]


def test_piped_step_row_ends_with_its_detail(opendrs: RunOpendrs) -> None:
    rows = columns(opendrs("plan", "cluster.json", "--all").out, "step")

    assert len(rows) > 5
    for row in rows.values():
        assert row[0].startswith(NAME)
        assert row[1] < "n03"
        assert "cores and" in row[-1]


def test_piped_loads_are_separate_columns(opendrs: RunOpendrs) -> None:
    rows = columns(opendrs("plan", "cluster.json").out, "node")

    assert [len(row) for row in rows.values()] == [4] * 12
    assert rows["n00"][0] == "60%"
    assert all(cell.endswith("%") for row in rows.values() for cell in row)


def test_real_pipe_gets_the_same_output(opendrs: RunOpendrs) -> None:
    assert piped_output("plan", "cluster.json") == opendrs("plan", "cluster.json").out


def test_long_names_are_whole_through_a_pipe_and_folded_in_a_terminal() -> None:
    drawn = run_opendrs_in_terminal("show", "cluster.json", "--guests").lines
    piped = piped_output("show", "cluster.json", "--guests")

    assert max(map(len, drawn)) <= 80
    assert len([line for line in piped.splitlines() if line.startswith(NAME)]) == 18
