"""opendrs backtest: policies over a history, or over recorded cycles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opendrs.cli.backtest_record import load_record
from opendrs.cli.configuration import load_settings
from opendrs.config import json_line
from opendrs.model import NodeId, NodeState
from opendrs.store import SqliteStore
from support.persistent_cluster import configure_persistent_platform
from support.recorded_load import (
    recorded_snapshots,
    with_dirty_rate,
    with_full_storage,
)
from support.terminal import RunOpendrs

HISTORY = "history.jsonl"
STORAGE_GROUP = """
[[limits.storage_groups]]
name = "fast"
storages = ["one", "two"]
"""


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A record of 50 minutes with a gap, and two guests on one of two nodes."""
    snapshots = recorded_snapshots(
        {"v": ("a", [0.3] * 5), "w": ("a", [0.3] * 5)}, minutes=[0, 10, 20, 30, 90]
    )
    path = tmp_path / HISTORY
    lines = [f"{json_line(each)}\n" for each in with_dirty_rate(snapshots, 0.0)]
    path.write_text("".join(lines))
    return path


def test_all_policies_are_run_side_by_side(opendrs: RunOpendrs, history: Path) -> None:
    result = opendrs("backtest", history.name)

    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith(f"{HISTORY}: 5 snapshots from ")
    assert lines[1] == "1 gap in the record: 50 min 0 s that no figure includes"
    table = [line.split("\t") for line in lines if "\t" in line]
    assert [row[0] for row in table] == [
        "policy",
        "(as recorded)",
        "(nothing moved)",
        "(best plan)",
        "auto-rebalance",
        "balance",
        "consolidate",
        "optimize",
        "pressure",
        "repair",
        "threshold-rebalance",
    ]
    # Loads 0.7 and 0.1: the CV is 0.3 / 0.4, and the best plan has 0.
    assert table[2] == [
        "(nothing moved)",
        *("0", "0.0", "70%", "0.750", "0", "0.0", "2.0", "0.750"),
    ]
    assert table[5][:3] == ["balance", "1", "30.0"]
    assert "pressure: no migrations: " in result.out


def test_json_has_all_figures_and_the_series(
    opendrs: RunOpendrs, history: Path
) -> None:
    result = opendrs(
        *("backtest", history.name, "--policy", "balance", "--format", "json")
    )

    document = json.loads(result.out)
    assert document["record"]["snapshots"] == 5
    assert document["record"]["interval"] == 600
    assert [gap["seconds"] for gap in document["record"]["gaps"]] == [3000]
    assert [row["kind"] for row in document["rows"]] == [
        "recorded",
        "static",
        "best",
        "policy",
    ]
    balance = document["rows"][-1]
    assert (balance["name"], balance["migrations"]) == ("balance", 1)
    assert balance["measured_hours"] == pytest.approx(50 / 60)
    assert balance["reasons"] == {"balanced": 4, "improves-balance": 1}
    assert len(balance["series"]) == 5


def test_json_has_the_reason_of_a_policy_without_migrations(
    opendrs: RunOpendrs, history: Path
) -> None:
    arguments = ("backtest", str(history), "--policy", "pressure", "--format", "json")

    *_, row = json.loads(opendrs(*arguments).out)["rows"]

    assert row["migrations"] == 0
    assert any(note.startswith("pressure: no migrations: ") for note in row["notes"])


def test_since_uses_the_newest_part(opendrs: RunOpendrs, history: Path) -> None:
    arguments = ("backtest", history.name, "--policy", "balance", "--format", "json")

    result = opendrs(*arguments, "--since", "70 min")

    assert json.loads(result.out)["record"]["snapshots"] == 3


def test_settings_are_those_of_one_policy(opendrs: RunOpendrs, history: Path) -> None:
    arguments = ("backtest", history.name, "--format", "json", "--policy", "balance")

    plain = opendrs(*arguments, "--set", "max_migrations=0")
    named = opendrs(
        *arguments, "--policy", "optimize", "--set", "balance.max_migrations=0"
    )

    for result in (plain, named):
        rows = {row["name"]: row for row in json.loads(result.out)["rows"]}
        assert rows["balance"]["migrations"] == 0
    assert rows["optimize"]["migrations"] == 1


def test_schedule_is_a_row_of_its_own(opendrs: RunOpendrs, history: Path) -> None:
    document = '[[schedule]]\npolicy = "balance"\nwindows = ["12:20-18:00"]\n'
    (history.parent / "opendrs.toml").write_text(document)
    arguments = ("backtest", history.name, "--schedule", "--format", "json")

    alone = json.loads(opendrs(*arguments, "--plot", "plot.svg").out)["rows"]
    beside = json.loads(opendrs(*arguments, "--policy", "repair").out)["rows"]

    assert [row["name"] for row in alone][3:] == ["schedule"]
    assert [row["name"] for row in beside][3:] == ["repair", "schedule"]
    assert alone[-1]["kind"] == "schedule"
    assert alone[-1]["migrations"] == 1
    assert sum(alone[-1]["reasons"].values()) == 3  # snapshots from 12:20 on
    assert "schedule" in (history.parent / "plot.svg").read_text()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ((), "schedule: expected tables [[schedule]]"),
        (("--set", "threshold=0.1"), "--set: requires --policy"),
    ],
)
def test_schedule_that_cannot_be_run_is_an_error(
    opendrs: RunOpendrs, history: Path, options: tuple[str, ...], error: str
) -> None:
    result = opendrs("backtest", history.name, "--schedule", *options)

    assert result.status == 2
    assert error in result.err


def test_plot_is_written_and_the_same_for_the_same_record(
    opendrs: RunOpendrs, history: Path
) -> None:
    arguments = ("backtest", history.name, "--policy", "balance", "--plot")

    opendrs(*arguments, "one.svg")
    opendrs(*arguments, "two.svg")

    one = (history.parent / "one.svg").read_text()
    assert "nothing moved" in one
    assert one == (history.parent / "two.svg").read_text()


def test_damaged_last_line_is_ignored_with_a_warning(
    opendrs: RunOpendrs, history: Path
) -> None:
    with history.open("a") as file:
        file.write('{"format": "opendrs-snap')

    result = opendrs(
        *("backtest", history.name, "--policy", "balance", "--format", "json")
    )

    assert json.loads(result.out)["record"]["snapshots"] == 5
    assert "last line damaged" in result.err


def test_cycles_that_run_recorded_are_a_record(
    opendrs: RunOpendrs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = configure_persistent_platform(
        monkeypatch, tmp_path / "lab.toml", tmp_path / "record.sqlite"
    )
    opendrs(*words("run", "--once"))
    opendrs(*words("run", "--once"))
    before = (tmp_path / "record.sqlite").read_bytes()

    result = opendrs(*words("backtest", "--policy", "balance", "--format", "json"))

    assert (result.status, result.err) == (0, "")
    document = json.loads(result.out)
    assert document["record"]["snapshots"] == 2
    assert [row["name"] for row in document["rows"]][-1] == "balance"
    assert (tmp_path / "record.sqlite").read_bytes() == before


def test_cycles_of_a_simulated_cluster_are_a_record(
    opendrs: RunOpendrs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`demo --serve` has a store, and a platform whose file does not exist."""
    config, store = tmp_path / "lab.toml", tmp_path / "record.sqlite"
    words = configure_persistent_platform(monkeypatch, config, store)
    for _ in range(2):
        opendrs(*words("run", "--once"))
    config.write_text(
        '[platform.lab]\nkind = "file"\npath = "absent.json"\n'
        '[store]\npath = "record.sqlite"\n'
    )

    found = load_record("lab", load_settings(config), None)
    store.unlink()
    without = opendrs("backtest", "lab", "--config", str(config), "--format", "json")

    assert len(found) == 2
    assert json.loads(without.err)["code"] == "unusable-file"


def test_reservations_and_drains_of_the_record_do_not_count(
    opendrs: RunOpendrs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = configure_persistent_platform(
        monkeypatch, tmp_path / "lab.toml", tmp_path / "record.sqlite"
    )
    size = ("--cpu", "1", "--memory", "1 GiB")
    assert opendrs(*words("place", *size, "--reserve", "web")).status == 0
    assert opendrs(*words("drain", "b", "--yes")).status == 0
    for _ in range(2):
        assert opendrs(*words("run", "--once")).status == 0
    with SqliteStore(tmp_path / "record.sqlite") as store:
        last: Any = list(store.cycles())[-1].document["snapshot"]
    assert "web" in last["guests"]
    assert last["nodes"]["b"]["state"] == "maintenance"

    record = load_record("lab", load_settings(tmp_path / "lab.toml"), None)

    assert set(record.guest_ids) == {"v", "w"}
    nodes = record.snapshot(len(record.times) - 1).nodes
    assert nodes[NodeId("b")].state is NodeState.ONLINE
    assert nodes[NodeId("a")].usage == nodes[NodeId("b")].usage


def test_platform_without_recorded_cycles_is_an_error(
    opendrs: RunOpendrs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = configure_persistent_platform(
        monkeypatch, tmp_path / "lab.toml", tmp_path / "record.sqlite"
    )

    result = opendrs(*words("backtest", "--format", "json"))

    assert result.status == 2
    assert json.loads(result.err)["code"] == "incomplete"
    assert not (tmp_path / "record.sqlite").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("demo",), "inconsistent"),
        (("absent",), "unknown-name"),
        (("absent.jsonl",), "unusable-file"),
        ((HISTORY, "--set", "threshold=0.1"), "invalid-value"),
        ((HISTORY, "--set", "demo.threshold=0.1"), "invalid-value"),
        ((HISTORY, "--set", "optimize.wrong=0.1"), "unknown-key"),
        ((HISTORY, "--policy", "best"), "unknown-name"),
        ((HISTORY, "--plot", "plot.txt"), "unusable-file"),
        ((HISTORY, "--plot", HISTORY), "unusable-file"),
        ((HISTORY, "--since", "1 min"), "incomplete"),
    ],
)
def test_invalid_input_is_an_error(
    opendrs: RunOpendrs, history: Path, arguments: tuple[str, ...], code: str
) -> None:
    content = history.read_bytes()

    result = opendrs("backtest", *arguments, "--format", "json")

    assert (result.status, result.out) == (2, "")
    assert json.loads(result.err.splitlines()[0])["code"] == code
    assert history.read_bytes() == content


def test_snapshot_with_impossible_values_is_an_error(
    opendrs: RunOpendrs, history: Path
) -> None:
    lines = history.read_text().splitlines()
    document = json.loads(lines[2])
    document["nodes"]["a"]["usage"]["cpu"] = 1000
    lines[2] = json.dumps(document)
    history.write_text("\n".join(lines) + "\n")

    result = opendrs("backtest", history.name)

    assert result.status == 2
    assert "history.jsonl, line 3" in result.err


@pytest.mark.parametrize("value", ["0", "nan", "-1", "x"])
def test_invalid_since_is_an_error(
    opendrs: RunOpendrs, history: Path, value: str
) -> None:
    result = opendrs("backtest", history.name, "--since", value)

    assert (result.status, result.out) == (2, "")


def test_moves_of_disks_have_columns_of_their_own(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    even = recorded_snapshots({"v": ("a", [0.3] * 3), "w": ("b", [0.3] * 3)})
    lines = [f"{json_line(each)}\n" for each in with_full_storage(even)]
    (tmp_path / HISTORY).write_text("".join(lines))
    (tmp_path / "opendrs.toml").write_text(STORAGE_GROUP)
    arguments = ("backtest", HISTORY, "--policy", "balance")

    table = opendrs(*arguments).out
    document = json.loads(opendrs(*arguments, "--format", "json").out)

    rows = {line.split("\t")[0]: line.split("\t") for line in table.splitlines()}
    headings = rows["policy"]
    assert headings[3:5] == ["disks moved", "GiB of disks"]
    assert rows["balance"][1:5] == ["0", "0.0", "1", "20.0"]
    assert rows["(nothing moved)"][1:5] == ["0", "0.0", "0", "0.0"]
    assert rows["(best plan)"][1:5] == ["", "", "", ""]
    found = {row["name"]: row for row in document["rows"]}
    assert (found["balance"]["disk_moves"], found["balance"]["disk_gib"]) == (1, 20.0)
    assert found["balance"]["reasons"] == {"balanced": 2, "relieves-storage": 1}
    assert found["static"]["disk_moves"] == 0
