"""Plans of `balance` for recorded clusters, judged by a program that is not ours."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opendrs.controller.documents import plan_document
from opendrs.platforms.file import snapshot_from
from opendrs.policies import Balance
from opendrs.policies.measures import Method

BESIDE = Path(__file__).parents[3] / "shared"
SHARED = Path(os.environ.get("OPENDRS_SHARED") or BESIDE)
JUDGE = SHARED / "tools" / "judge_plan.py"
LARGEST = 200_000  # nodes times guests; more take minutes to read and judge

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not JUDGE.exists(), reason=f"there is no {JUDGE}"),
]


def read(path: Path) -> object:
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)


def size(path: Path) -> int:
    """Return nodes times guests of a cluster named like c100x2000.rules.json."""
    nodes, guests = path.name.split(".")[0].lstrip("c").split("x")
    return int(nodes) * int(guests)


def clusters() -> list[Path]:
    every = sorted((SHARED / "data" / "clusters").glob("*.json*"))
    return [path for path in every if size(path) <= LARGEST]


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("path", clusters(), ids=lambda path: path.name)
def test_the_plan_is_safe_keeps_the_rules_and_evens_the_load(
    path: Path, method: Method, tmp_path: Path
) -> None:
    document = read(path)
    snapshot = snapshot_from(document, path.name)
    asked, answer = tmp_path / "snapshot.json", tmp_path / "plan.json"

    decision = Balance(method=method).decide(snapshot, None)

    asked.write_text(json.dumps(document))
    answer.write_text(json.dumps(plan_document("balance", decision)))
    judged = subprocess.run(  # noqa: S603
        [sys.executable, str(JUDGE), str(asked), str(answer)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr
    verdict = json.loads(judged.stdout)
    assert verdict["migrations"] > 0
    assert verdict["after"]["both"] < verdict["before"]["both"]
