"""Commands import only what they use, so that programs start fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

from opendrs.config import write_snapshot
from opendrs.store import SqliteStore
from support.builders import cluster
from support.recorded_cycles import decided

LARGE_LIBRARIES = {
    *("alembic", "fastapi", "httpx2", "matplotlib", "numba", "numpy", "pyarrow"),
    *("tenacity", "uvicorn"),
}
PARTS_OF_A_CYCLE = {
    *("opendrs.controller.cycle", "opendrs.guard", "opendrs.optimizer.solve"),
    *("opendrs.planning.sequencer", "opendrs.policies.balance", "opendrs.simulation"),
}
LOPSIDED = cluster({"a": 0.9, "b": 0.1}, {"v": ("a", 0.4), "w": ("a", 0.4)})


def imported_modules(directory: Path, *words: str) -> set[str]:
    """Return the modules that a command has imported at its end."""
    program = (
        "import json, sys; from opendrs.cli.main import run; status = run(sys.argv[1:])"
        "; print(); print(json.dumps([status, *sys.modules]))"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, *words],
        cwd=directory,
        check=True,
        stdout=subprocess.PIPE,
    )
    status, *modules = json.loads(done.stdout.splitlines()[-1])
    assert status in (0, 1)  # 1: no controller runs
    return set(modules)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a configuration, a record of a cycle, and a snapshot."""
    path = tmp_path_factory.mktemp("lab")
    (path / "token").write_text("user@pve!name=0")
    document = {
        "platform": {
            "lab": {
                "kind": "proxmox",
                "hosts": ["pve1"],
                "token_file": "token",
                "ca": "ca.pem",
            }
        },
        "policy": {"name": "balance"},
        "limits": {"max_parallel_migrations": 2},
        "store": {"path": "lab.sqlite"},
    }
    (path / "opendrs.toml").write_text(tomli_w.dumps(document))
    with SqliteStore(path / "lab.sqlite") as store:
        store.save("platform", {"name": "lab"})
        store.record_cycle(decided(LOPSIDED))
    write_snapshot(LOPSIDED, path / "cluster.json")
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("history", "lab"),
        ("history", "lab", "--plans"),
        ("plans", "lab"),
        ("status", "lab"),
        ("mode", "lab"),
    ],
    ids=" ".join,
)
def test_command_that_reads_the_store_loads_nothing_that_decides(
    directory: Path, words: tuple[str, ...]
) -> None:
    modules = imported_modules(directory, *words)

    assert "sqlalchemy" in modules
    assert not modules & (LARGE_LIBRARIES | PARTS_OF_A_CYCLE)


def test_explain_loads_no_policy(directory: Path) -> None:
    modules = imported_modules(directory, "explain", "lab")

    assert not modules & (LARGE_LIBRARIES - {"numpy"} | PARTS_OF_A_CYCLE)


def test_plan_loads_only_its_policy(directory: Path) -> None:
    modules = imported_modules(directory, "plan", "cluster.json")

    assert "opendrs.policies.balance" in modules
    others = {
        "opendrs.policies.auto_rebalance",
        "opendrs.policies.consolidation",
        "opendrs.policies.pressure",
        "opendrs.policies.threshold_rebalance",
        "opendrs.simulation",
        "opendrs.store",
    }
    assert not modules & (LARGE_LIBRARIES - {"numpy"} | others)
