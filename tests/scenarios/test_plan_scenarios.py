"""Plans of whole clusters, as `opendrs plan` prints them.

Each directory in `plans` is a scenario: `README.md`, `cluster.toml`, `opendrs.toml`
with the policy, and `plan.expect` with the reason and what is moved, after which other
moves, and the violations that cannot be repaired. Further policies are in `NAME.toml`,
with `NAME.expect`. To accept a changed plan, set `OPENDRS_ACCEPT=NAME` (or `all`) in
the environment.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opendrs.cli.main import run
from opendrs.controller.step_serialization import document_path
from opendrs.policies import BUILT_IN_POLICIES

FOLDER = Path(__file__).parent / "plans"
SETTINGS = sorted(
    path for path in FOLDER.glob("*/*.toml") if path.name != "cluster.toml"
)
ACCEPTED = os.environ.get("OPENDRS_ACCEPT")

# Changes that switch off what a scenario shows: file, text, and what replaces it.
SWITCHED_OFF = (
    ("maintenance", "cluster.toml", '"maintenance"', '"online"'),
    ("vcpu-overcommit", "*.toml", "cpu_overcommit = 2\n", "cpu_overcommit = 9\n"),
    ("vcpu-overcommit", "*.toml", "reserved_cpu = 1\n", ""),
    ("vcpu-overcommit", "*.toml", "cpu_overcommit = 3", "cpu_overcommit = 2"),
    ("vcpu-overcommit", "*.toml", '"50 GiB"', "0"),
    ("overcommitted-node", "*.toml", "cpu_overcommit = 1\n", "cpu_overcommit = 2\n"),
    ("overcommitted-node", "*.toml", "cpu_overcommit = 2\n", "cpu_overcommit = 1\n"),
    ("overcommitted-node", "*.toml", "reserved_cpu = 4", "reserved_cpu = 0"),
    ("overcommitted-node", "*.toml", '"20 GiB"', "0"),
    ("gates-closed", "*.toml", "cpu_load = 0.7", "cpu_load = 0.5"),
    ("gates-closed", "*.toml", "memory_load = 0.6", "memory_load = 0.4"),
    ("gate-open", "*.toml", "memory_load = 0.6", "memory_load = 0.7"),
    ("gates-closed-repair", "opendrs.toml", "cpu_load = 0.7", "cpu_load = 0.4"),
    ("move-group", "cluster.toml", '"affinity"', '"affinity"\nstrict = false'),
    ("move-group-waits", "cluster.toml", '"affinity"', '"affinity"\nstrict = false'),
    ("io-pressure", "opendrs.toml", "weight = 1.0\n", ""),
    ("io-pressure", "*.toml", "threshold = 0.5\n", ""),
    ("preferred-node", "cluster.toml", "weight = 5\n", "weight = 0.01\n"),
)


def planned(
    settings: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> list[str]:
    """Return the reason, the migrations and the violations left by a plan.

    Args:
        settings: Settings, next to the cluster.
        capsys: Output of the command.
        options: Further options of `opendrs plan`.
    """
    source = settings.with_name("cluster.toml")
    files = (str(source), "--config", str(settings), "--format", "json")
    status = run(("plan", *files, *options))
    assert status == 0
    plan = json.loads(capsys.readouterr().out)
    return [plan["reason"], *_steps(plan), *_remaining(plan)]


def _steps(plan: dict[str, Any]) -> Iterator[str]:
    paths = {step["id"]: document_path(step) for step in plan["steps"]}
    for step in plan["steps"]:
        moved, source, target = paths[step["id"]]
        earlier = ", ".join(paths[name][0] for name in step["depends_on"])
        after = f", after {earlier}" if earlier else ""
        yield f"{moved}: {source} -> {target}{after}"


def _remaining(plan: dict[str, Any]) -> Iterator[str]:
    for violation in plan["violations"]["after"]:
        if violation.get("repairable") is False:
            yield f"cannot be repaired: {violation['detail']}"


def expected_plan(settings: Path) -> Path:
    """Return the file with the plan that is expected with *settings*."""
    return settings.with_name(f"{settings.stem}.expect".replace("opendrs", "plan"))


@pytest.mark.parametrize(
    "settings", SETTINGS, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_scenario_has_the_expected_plan(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = expected_plan(settings)

    found = planned(settings, capsys)

    if ACCEPTED in {"all", settings.parent.name}:
        expected.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
        pytest.skip("plan accepted; review it with git diff")
    assert found == expected.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("policy", sorted(BUILT_IN_POLICIES))
def test_every_policy_drains_the_same_guests(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = FOLDER / "maintenance" / "opendrs.toml"

    found = planned(settings, capsys, "--policy", policy)

    assert found == expected_plan(settings).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("switch", SWITCHED_OFF, ids=lambda switch: f"{switch[0]}")
def test_scenario_has_another_plan_if_its_feature_is_switched_off(
    switch: tuple[str, str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, pattern, text, instead = switch
    folder = tmp_path / name
    shutil.copytree(FOLDER / name, folder)
    changed = [path for path in folder.glob(pattern) if text in path.read_text()]
    for path in changed:
        path.write_text(path.read_text().replace(text, instead))
    concerned = folder.glob("*.toml") if pattern == "cluster.toml" else changed

    assert changed
    for settings in concerned:
        if settings.name != "cluster.toml":
            found = planned(settings, capsys)
            assert found != expected_plan(settings).read_text().splitlines(), settings
