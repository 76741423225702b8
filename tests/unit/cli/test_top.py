"""opendrs top: the overview in a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from opendrs.cli.top import OverviewReader
from opendrs.cli.top_screen import Overview, overview_text
from opendrs.config.controller_settings import Mode
from opendrs.config.settings import NO_SETTINGS
from opendrs.model import Snapshot
from opendrs.store import Access, SqliteStore
from support.advised_controller import LOPSIDED, AdvisedController
from support.builders import NOON, cluster
from support.pseudo_terminal import run_in_terminal
from support.terminal import OPENDRS, RunOpendrs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the configuration of a platform."""
    (tmp_path / "opendrs.toml").write_text(
        '[platform.lab]\nkind = "command"\nsnapshot_command = ["true"]\n'
        f'[store]\npath = "{tmp_path / "lab.sqlite"}"\n'
    )
    return tmp_path


@pytest.fixture
def controller(folder: Path) -> Iterator[AdvisedController]:
    """A controller that has proposed a plan."""
    with SqliteStore(folder / "lab.sqlite", Access.CONTROL) as store:
        store.save("platform", {"name": "lab"})
        controller = AdvisedController(store, mode=Mode.ADVISE)
        controller.cycle()
        yield controller


@pytest.mark.usefixtures("controller")
def test_top_once_shows_nodes_and_plan(opendrs: RunOpendrs) -> None:
    result = opendrs("top", "lab", "--once")

    assert (result.status, result.err) == (0, "opendrs: using ./opendrs.toml\n")
    assert "controller-not-running" in result.out
    assert "2 nodes, 3 guests" in result.out
    assert any(line.startswith("> a ") for line in result.out.splitlines())
    assert "proposed, " in result.out


def test_top_without_a_record_shows_that_nothing_runs(
    folder: Path, opendrs: RunOpendrs
) -> None:
    result = opendrs("top", "lab", "--once", "--config", str(folder / "opendrs.toml"))

    assert result.status == 0
    assert "last cycle: none" in result.out


def test_top_of_an_unknown_platform_is_an_error(opendrs: RunOpendrs) -> None:
    assert opendrs("top", "zz").status == 2


def test_top_is_live_in_a_terminal_of_80_columns_until_interrupted(
    controller: AdvisedController, folder: Path
) -> None:
    name = controller.last().id
    command = [OPENDRS, "top", "lab", "--config", str(folder / "opendrs.toml")]

    finished = run_in_terminal(
        command,
        environment={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        interrupt_at=f"plan {name}",
    )

    assert finished.status == 0
    text = "\n".join(finished.lines)
    assert "controller-not-running" in text
    assert max(map(len, finished.lines)) <= 80


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (200, 60)])
@pytest.mark.parametrize("nodes", [2, 200])
def test_overview_fits_into_the_terminal(
    folder: Path, size: tuple[int, int], nodes: int
) -> None:
    many = cluster(
        {f"node-with-a-long-name-{n}": 0.9 - n / 1000 for n in range(nodes)},
        {f"guest-{n}": (f"node-with-a-long-name-{n % nodes}", 0.05) for n in range(20)},
    )

    text = overview_text(overview(folder, many), *size)

    lines = text.plain.split("\n")
    assert len(lines) <= size[1]
    assert max(map(len, lines)) < size[0]
    assert f"{nodes} nodes, 20 guests" in text.plain


def test_overview_without_a_limit_has_all_nodes(folder: Path) -> None:
    text = overview_text(overview(folder, LOPSIDED), 80, None)

    assert " a " in text.plain
    assert " b " in text.plain


def overview(folder: Path, snapshot: Snapshot) -> Overview:
    """Return the overview after one cycle."""
    with SqliteStore(folder / "lab.sqlite", Access.CONTROL) as store:
        controller = AdvisedController(store, snapshot, mode=Mode.ADVISE)
        controller.cycle()
        clock = controller.simulation.clock
        found = OverviewReader("lab", NO_SETTINGS, clock, store).read()
    return replace(found, now=NOON)
