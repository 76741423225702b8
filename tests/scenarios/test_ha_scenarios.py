"""Drills of the HA manager with their expected results and logs.

Each directory in `ha` is a scenario. To accept a changed log, set `OPENDRS_ACCEPT=NAME`
(or `all`) in the environment.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

from opendrs.pve_ha.simulator import Drill, read_scenario, run_drill
from opendrs.pve_ha.simulator.file_format import read_drill

FOLDER = Path(__file__).parent / "ha"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
ACCEPTED = os.environ.get("OPENDRS_ACCEPT")
END_OF_SENTENCE = re.compile(r"[.!?](?=\s|$)")

every_scenario = pytest.mark.parametrize("name", NAMES)


@cache
def run_scenario(name: str) -> tuple[Drill, tuple[str, ...]]:
    """Return the drill *name* and its failed expectations.

    Scenarios that a drill file cannot describe, such as groups, are directories in the
    layout of Proxmox VE. They have no expectations except the log.
    """
    file = FOLDER / name / "drill.toml"
    if not file.exists():
        return run_drill(read_scenario(file.parent)), ()
    drill_file = read_drill(file)
    drill = drill_file.run()
    return drill, drill_file.failed_expectations(drill)


def accept_log(log: str, expected: Path) -> None:
    expected.write_text(log, encoding="utf-8")
    pytest.skip("log accepted; review it with git diff")


def test_scenarios_exist() -> None:
    assert len(NAMES) >= 30


@every_scenario
def test_scenario_meets_its_expectations(name: str) -> None:
    drill, failed_expectations = run_scenario(name)

    assert drill.failure is None
    assert not failed_expectations, "\n".join(failed_expectations)


@every_scenario
def test_scenario_log_equals_expected_log(name: str) -> None:
    expected = FOLDER / name / "log.expect"

    log = run_scenario(name)[0].log()

    if ACCEPTED in (name, "all"):
        accept_log(log, expected)
    assert log.splitlines() == expected.read_text(encoding="utf-8").splitlines()


@every_scenario
def test_scenario_readme_has_three_sentences(name: str) -> None:
    text = (FOLDER / name / "README.md").read_text(encoding="utf-8")

    assert len(END_OF_SENTENCE.findall(text)) == 3


@every_scenario
def test_scenario_has_expectations(name: str) -> None:
    file = FOLDER / name / "drill.toml"

    stated = not file.exists() or read_drill(file).expectations

    assert stated
