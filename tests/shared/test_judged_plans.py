"""Plans for recorded clusters, evaluated by an independent program."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from opendrs.config import snapshot_from
from opendrs.controller.serialization import plan_document
from opendrs.model import Snapshot
from opendrs.optimizer import SearchKind
from opendrs.policies import BUILT_IN_POLICIES, Balance, Decision
from opendrs.policies.load_metrics import SelectionMethod
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.budget import Budget

BESIDE = Path(__file__).parents[3] / "shared"
SHARED = Path(os.environ.get("OPENDRS_SHARED") or BESIDE)
JUDGE = SHARED / "tools" / "judge_plan.py"
LARGEST = 200_000  # nodes times guests; more take minutes to read and judge
BUDGETS = ("knee", "unlimited", "40 migrations", "500 GiB")
SEARCHES = (SearchKind.AUTO, SearchKind.PLAIN)

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not JUDGE.exists(), reason=f"there is no {JUDGE}"),
]


@lru_cache(maxsize=4)
def read(path: Path) -> tuple[object, Snapshot]:
    """Return the document of a cluster, and the snapshot that it describes."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    document = json.loads(text)
    return document, snapshot_from(document, path.name)


def size(path: Path) -> int:
    """Return nodes times guests of a cluster named like c100x2000.rules.json."""
    nodes, guests = path.name.split(".")[0].lstrip("c").split("x")
    return int(nodes) * int(guests)


def clusters(*, large: bool = False) -> list[Path]:
    """Return the recorded clusters up to `LARGEST`, or the larger ones."""
    every = sorted((SHARED / "data" / "clusters").glob("*.json*"))
    return [path for path in every if (size(path) > LARGEST) is large]


def check_with_judge(
    path: Path, name: str, decision: Decision[Any], folder: Path
) -> Any:  # noqa: ANN401 -- as JSON is
    """Return what the judge says of a plan that has nothing wrong."""
    snapshot_file, plan_file = folder / "snapshot.json", folder / "plan.json"
    document, snapshot = read(path)
    snapshot_file.write_text(json.dumps(document))
    plan_file.write_text(json.dumps(plan_document(name, decision, snapshot)))
    done = subprocess.run(  # noqa: S603 -- the words are the tests' own
        [sys.executable, str(JUDGE), str(snapshot_file), str(plan_file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", BUILT_IN_POLICIES)
@pytest.mark.parametrize("path", clusters(), ids=lambda path: path.name)
def test_the_plan_of_every_policy_is_safe_and_keeps_the_rules(
    path: Path, name: str, tmp_path: Path
) -> None:
    policy = BUILT_IN_POLICIES[name]()

    decision = policy.decide(read(path)[1], policy.initial_memory())

    result = check_with_judge(path, name, decision, tmp_path)
    assert result["migrations"] == len(decision.plan.steps)


@pytest.mark.parametrize("method", SelectionMethod)
@pytest.mark.parametrize("path", clusters(), ids=lambda path: path.name)
def test_the_plan_of_balance_evens_the_load(
    path: Path, method: SelectionMethod, tmp_path: Path
) -> None:
    decision = Balance(method=method).decide(read(path)[1], None)

    result = check_with_judge(path, "balance", decision, tmp_path)
    assert result["migrations"] > 0
    assert result["after"]["both"] < result["before"]["both"]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("path", clusters(), ids=lambda path: path.name)
def test_optimize_is_safe_and_keeps_to_its_budget(
    path: Path, budget: str, search: SearchKind, tmp_path: Path
) -> None:
    policy = Optimize(budget=budget, iterations_per_group=200, search=search)

    decision = policy.decide(read(path)[1], None)

    result = check_with_judge(path, "optimize", decision, tmp_path)
    most = Budget.parse(budget)
    assert 0 < result["migrations"] <= most.migrations
    assert result["gib_moved"] <= most.gib + 0.05  # rounded to one decimal
    assert result["rules_broken_after"] <= result["rules_broken_before"]


@pytest.mark.parametrize("path", clusters(), ids=lambda path: path.name)
def test_optimize_unlimited_repairs_every_rule_and_balances_both_resources(
    path: Path, tmp_path: Path
) -> None:
    decision = Optimize(budget="unlimited").decide(read(path)[1], None)

    result = check_with_judge(path, "optimize", decision, tmp_path)
    assert result["rules_broken_after"] == 0
    assert result["after"]["memory"] < 0.1 * result["before"]["memory"]
    assert result["after"]["cpu"] < 0.1 * result["before"]["cpu"]


@pytest.mark.slow
@pytest.mark.parametrize("path", clusters(large=True), ids=lambda path: path.name)
def test_a_large_cluster_is_planned_safely_without_compiled_code(
    path: Path, tmp_path: Path
) -> None:
    policy = Optimize(search=SearchKind.PLAIN)

    decision = policy.decide(read(path)[1], None)

    result = check_with_judge(path, "optimize", decision, tmp_path)
    assert result["migrations"] > 0
    assert result["rules_broken_after"] == 0
    assert result["after"]["both"] < result["before"]["both"]
