"""Plans of whole clusters, as `opendrs plan` prints them.

Each directory in `plans` is a scenario: `README.md`, `cluster.toml`, `opendrs.toml`
with the policy, and `plan.expect` with the reason and what is moved. To accept a
changed plan, set `OPENDRS_ACCEPT=NAME` (or `all`) in the environment.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from opendrs.cli.main import run
from opendrs.controller.step_serialization import document_path

FOLDER = Path(__file__).parent / "plans"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
ACCEPTED = os.environ.get("OPENDRS_ACCEPT")


def planned(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the reason of the plan of the scenario *name*, and its migrations."""
    files = FOLDER / name
    source, settings = files / "cluster.toml", files / "opendrs.toml"
    status = run(("plan", str(source), "--config", str(settings), "--format", "json"))
    assert status == 0
    plan = json.loads(capsys.readouterr().out)
    paths = map(document_path, plan["steps"])
    steps = [f"{moved}: {source} -> {target}" for moved, source, target in paths]
    return "".join(f"{line}\n" for line in (plan["reason"], *steps))


@pytest.mark.parametrize("name", NAMES)
def test_scenario_has_the_expected_plan(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = FOLDER / name / "plan.expect"

    found = planned(name, capsys)

    if ACCEPTED in {"all", name}:
        expected.write_text(found, encoding="utf-8")
        pytest.skip("plan accepted; review it with git diff")
    assert found == expected.read_text(encoding="utf-8")
