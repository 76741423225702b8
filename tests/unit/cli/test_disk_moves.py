"""Moves of disks to other storages in the output of commands."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from opendrs.cli.backtest_report import BacktestReport
from opendrs.cli.job_answers import answer_question
from opendrs.cli.platforms import PLATFORMS
from opendrs.cli.report_text import Activity, ActivityReport, summary
from opendrs.config import write_snapshot
from opendrs.config.platform_kinds import PlatformKind
from opendrs.controller import SystemClock
from opendrs.controller.serialization import cycle_record
from opendrs.model import GIB, Disk, Limits, Storage, StorageGroup
from opendrs.policies import Balance
from opendrs.policies.optimize import Repair
from opendrs.simulation import SimulatedPlatform
from opendrs.simulation.backtest import BacktestSettings, LoadRecord, run_backtest
from opendrs.store import SqliteStore
from support.recorded_load import recorded_snapshots, with_full_storage
from support.terminal import RunOpendrs

GROUP = '[[limits.storage_groups]]\nname = "fast"\nstorages = ["one", "two"]\n'


EVEN = recorded_snapshots({"v": ("a", [0.3]), "w": ("b", [0.3])})
(FULL,) = with_full_storage(EVEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoSettings:
    """The settings of a platform that needs none."""


def _platform(name: str, _settings: object, _rules: object) -> SimulatedPlatform:
    """Return a cluster with a full storage, over links that take no time."""
    return SimulatedPlatform(
        FULL, SystemClock(), name=name, bandwidth=1e12, load_variation=0.0
    )


@pytest.fixture
def plan(tmp_path: Path) -> tuple[str, ...]:
    """Write a cluster with a full storage; return the words that plan for it."""
    write_snapshot(FULL, tmp_path / "cluster.json")
    (tmp_path / "opendrs.toml").write_text(GROUP)
    return ("plan", "cluster.json", "--policy", "balance")


def write_local_disks(directory: Path, *, free: int | None) -> None:
    """Write a cluster whose guests have a local disk of 20 GiB, and its limits."""
    (snapshot,) = recorded_snapshots({"v": ("a", [0.4]), "w": ("a", [0.4])})
    disk = Disk(storage="zfs", size=20 * GIB)
    storage = Storage(id="zfs", shared=False, free=free)
    nodes = {
        name: replace(node, storages=(storage,))
        for name, node in snapshot.nodes.items()
    }
    guests = {
        name: replace(guest, disks=(disk,)) for name, guest in snapshot.guests.items()
    }
    local = replace(snapshot, nodes=nodes, guests=guests)
    write_snapshot(local, directory / "cluster.json")
    (directory / "opendrs.toml").write_text("[limits]\nmigrate_local_disks = true\n")


def test_unknown_free_space_is_the_reason_against_a_copy(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    write_local_disks(tmp_path, free=None)

    result = opendrs("plan", "cluster.json", "--policy", "balance")

    assert "b: free space of zfs is unknown" in result.out


def test_headline_and_cost_of_optimize_count_the_bytes_of_copied_disks(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    write_local_disks(tmp_path, free=100 * GIB)

    result = opendrs("plan", "cluster.json", "--policy", "optimize")

    headline, cost, *_ = result.out.splitlines()
    size = cost.removeprefix("plan: 1 migration, ").removesuffix(" to transfer")
    assert float(size.removesuffix(" GiB")) > 20
    assert headline.endswith(f"1 migration, {size}")


def test_plan_names_disk_storages_node_and_size(
    opendrs: RunOpendrs, plan: tuple[str, ...]
) -> None:
    lines = opendrs(*plan).out.splitlines()

    (row,) = [line.split("\t") for line in lines if line.startswith("s1\t")]
    assert row[:6] == ["s1", "v (scsi0)", "one", "two", "a", "20.0 GiB"]
    headings = [line.split("\t") for line in lines if line.startswith("step\t")]
    assert headings[0][1:6] == ["guest (disk)", "from", "to", "node", "size"]


def test_duration_of_a_move_depends_on_no_dirty_rate(
    opendrs: RunOpendrs, plan: tuple[str, ...]
) -> None:
    out = opendrs(*plan).out
    schedule = json.loads(opendrs(*plan, "--format", "json").out)["schedule"]

    assert "dirty rate" not in out
    assert "copies of 1 disk as fast as a link (a slower storage takes longer)" in out
    # 20 GiB at the assumed 1 Gbit/s.
    assert schedule["seconds"] == pytest.approx((20 << 30) * 8 / 1e9)
    assert schedule["at_least"] is True


def test_plan_shows_the_use_of_storages_before_and_after(
    opendrs: RunOpendrs, plan: tuple[str, ...]
) -> None:
    changed, everything = opendrs(*plan).out, opendrs(*plan, "--all").out
    document = json.loads(opendrs(*plan, "--format", "json").out)

    # 90 and 40 of 100 GiB are in use on each node; v has 20 GiB on node a.
    assert "one of a\t90%\t70%\t80%\n" in changed
    assert "two of a\t40%\t60%\t80%\n" in changed
    assert "one of b\t90%\t90%\t80%\n" in changed  # it stays full
    assert "two of b" not in changed
    assert "two of b\t40%\t40%\t80%\n" in everything
    assert document["summary"]["storages"][0] == {
        "storage": "one",
        "node": "a",
        "threshold": 0.8,
        "before": pytest.approx(0.9),
        "after": pytest.approx(0.7),
    }


def test_apply_shows_the_measured_use_of_storages_at_its_end(
    opendrs: RunOpendrs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = PlatformKind(settings_type=_NoSettings, create=_platform)
    monkeypatch.setitem(PLATFORMS.kinds, "full", lambda: kind)
    (tmp_path / "opendrs.toml").write_text(
        '[policy]\nname = "balance"\n[platform.lab]\nkind = "full"\n'
        f'[store]\npath = "lab.sqlite"\n{GROUP}'
    )

    applied = opendrs("apply", "lab", "--yes")
    moves = opendrs("history", "lab", "--moves").out

    assert applied.status == 0
    assert applied.out.count("one of a\t90%\t70%\t80%\n") == 2  # plan and result
    (row,) = [line for line in moves.splitlines() if "v (scsi0)" in line]
    # The load of a node does not depend on it.
    assert row.split("\t")[1:5] == ["v (scsi0)", "one", "two", "done"]
    assert row.split("\t")[7:] == ["", ""]


def test_replay_with_another_policy_moves_disks(tmp_path: Path) -> None:
    config, repair = tmp_path / "opendrs.toml", Repair()
    config.write_text(
        '[platform.lab]\nkind = "file"\npath = "absent.json"\n'
        f'[store]\npath = "lab.sqlite"\n{GROUP}'
    )
    with SqliteStore(tmp_path / "lab.sqlite") as store:
        store.save("platform", {"name": "lab"})
        decided = repair.decide(FULL, None)
        store.record_cycle(
            cycle_record(
                "run",
                FULL.taken_at,
                FULL,
                policy=repair,
                memory=None,
                decision=decided,
            )
        )
    question: dict[str, object] = {"run": None, "policy": "balance", "settings": {}}

    answer = answer_question("lab", config, "replay", question, print)

    assert answer["recorded"]["steps"] == []
    assert answer["replayed"]["reason"] == "relieves-storage"
    (step,) = answer["replayed"]["steps"]
    assert (step["kind"], step["disk"]["target"]) == ("disk-move", "two")


def test_summary_of_a_report_counts_moved_disks() -> None:
    even = recorded_snapshots({"v": ("a", [0.3] * 3), "w": ("b", [0.3] * 3)})
    record = LoadRecord(with_full_storage(even), "x")
    group = StorageGroup(name="fast", storages=("one", "two"))
    limits = Limits(storage_groups=(group,))
    settings = BacktestSettings(
        policies={"balance": Balance(limits=limits)}, limits=limits, with_best=False
    )
    rows = tuple(run_backtest(record, settings))
    nothing = Activity(reasons={}, plans={}, steps={}, duration_ratio=None)
    backtest = BacktestReport(source="x", record=record, every=0.0, seed=1, rows=rows)

    found = summary(ActivityReport(backtest=backtest, activity=nothing))

    expected = "balance would have done 0 migrations (0.0 GiB) and moved 1 disk"
    assert found == f"{expected} (20.0 GiB)"
