"""opendrs compare: what each policy would do, side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from opendrs.cli.plot_labels import PlotLabel, place_labels
from opendrs.config import write_snapshot
from opendrs.model import GIB, AntiAffinity, Disk, NodeId, NodeState, Storage
from opendrs.policies import BUILT_IN_POLICIES
from support.builders import cluster, guest_ids
from support.terminal import RunOpendrs

# By hand: both loads of a are 0.8, those of b 0: a variation of 1. Of 40 GiB each,
# one of two guests moved leaves both nodes equal.
IMBALANCED = cluster(
    nodes={"a": 0.8, "b": 0.0}, guests={"one": ("a", 0.4), "two": ("a", 0.4)}
)

BALANCED = cluster(nodes={"a": 0.4, "b": 0.4}, guests={"one": ("a", 0.4)})


@pytest.fixture
def imbalanced(opendrs: RunOpendrs) -> str:
    del opendrs  # which enters the directory to write to
    write_snapshot(IMBALANCED, Path("lopsided.json"))
    return "lopsided.json"


def test_every_policy_decides_once_and_optimize_per_budget(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    found = json.loads(opendrs("compare", imbalanced, "--format", "json").out)

    names = [row["name"] for row in found["policies"]]
    assert names[: len(BUILT_IN_POLICIES)] == sorted(BUILT_IN_POLICIES)
    assert names[-1] == "optimize, unlimited"
    assert len(names) > len(BUILT_IN_POLICIES) + 1


def test_row_has_score_and_cost_of_the_plan(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    answer = opendrs("compare", imbalanced, "--policy", "balance", "--format", "json")

    found = json.loads(answer.out)
    [row] = found["policies"]
    assert found["before"]["cpu"] == pytest.approx(1)
    assert (row["name"], row["reason"]) == ("balance", "improves-balance")
    assert row["after"] == {
        "cpu": 0,
        "memory": 0,
        "mean": 0,
        "highest_load": pytest.approx(0.4),
        "violated_rules": 0,
        "migrations": 1,
        "disk_moves": 0,
        "gib": 40,
    }
    assert row["curve"] == [found["before"], row["after"]]
    assert row["seconds"] >= 0


def test_policy_named_twice_decides_once(opendrs: RunOpendrs, imbalanced: str) -> None:
    twice = ("--policy", "balance") * 2
    answer = opendrs("compare", imbalanced, *twice, "--format", "json")

    assert [row["name"] for row in json.loads(answer.out)["policies"]] == ["balance"]


def test_hold_and_interval_are_disabled(opendrs: RunOpendrs, imbalanced: str) -> None:
    answer = opendrs(
        "compare", imbalanced, "--policy", "auto-rebalance", "--format", "json"
    )

    [row] = json.loads(answer.out)["policies"]
    assert row["after"]["migrations"] == 1


def test_the_table_has_a_line_for_the_cluster_and_for_each_policy(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    answer = opendrs("compare", imbalanced, "--policy", "balance")

    heads, before, after = answer.out.splitlines()
    assert heads.split()[:3] == ["policy", "CPU", "CV"]
    assert before.split()[:3] == ["(current", "cluster)", "1.000"]
    assert after.split()[:2] == ["balance", "0.000"]


def test_moves_of_disks_are_counted_with_their_size(opendrs: RunOpendrs) -> None:
    # "full" is 95 % full: a disk of 30 GiB leaves it, and no guest migrates.
    storages = tuple(
        Storage(id=name, shared=True, capacity=100 * GIB, free=free * GIB)
        for name, free in (("full", 5), ("empty", 95))
    )
    disks = (Disk(storage="full", size=30 * GIB, name="scsi0"),)
    snapshot = replace(
        BALANCED,
        nodes={n: replace(x, storages=storages) for n, x in BALANCED.nodes.items()},
        guests={n: replace(x, disks=disks) for n, x in BALANCED.guests.items()},
    )
    write_snapshot(snapshot, Path("full.json"))
    Path("lab.toml").write_text(
        '[[limits.storage_groups]]\nname = "all"\nstorages = ["full", "empty"]\n'
    )
    command = ("compare", "full.json", "--policy", "balance", "--config", "lab.toml")

    table = opendrs(*command).out
    found = json.loads(opendrs(*command, "--format", "json").out)

    after = found["policies"][0]["after"]
    assert (after["migrations"], after["disk_moves"], after["gib"]) == (0, 1, 30)
    assert "\t0\t1\t30.0 GiB\t" in table


def test_policy_without_migrations_states_its_reason(opendrs: RunOpendrs) -> None:
    write_snapshot(BALANCED, Path("level.json"))

    answer = opendrs("compare", "level.json", "--policy", "balance")

    last = answer.out.splitlines()[-1]
    assert last.startswith("balance: no migrations: balanced: imbalance (CV) 0.000")


def test_plot_axes_are_memory_and_load(opendrs: RunOpendrs, imbalanced: str) -> None:
    opendrs("compare", imbalanced, "--policy", "optimize", "--plot", "curve.svg")

    drawn = Path("curve.svg").read_text()
    assert "memory migrated (GiB)" in drawn
    assert "load of the most loaded node, cpu or memory (%)" in drawn
    assert "optimize, by budget" in drawn
    assert "rules broken" not in drawn


def test_plot_label_counts_violations(
    opendrs: RunOpendrs,
) -> None:
    apart = AntiAffinity(guests=guest_ids("one", "two"))
    write_snapshot(replace(IMBALANCED, rules=(apart,)), Path("rules.json"))

    opendrs("compare", "rules.json", "--policy", "pressure", "--plot", "curve.svg")

    drawn = Path("curve.svg").read_text()
    assert "now; no migration: pressure" in drawn
    assert "1 rule violated" in drawn


def test_no_label_covers_another() -> None:
    near = [
        PlotLabel(x, y, f"policy {number}\n3 rules broken", "black")
        for number, (x, y) in enumerate(
            [(0, 9), (0.1, 9), (0.2, 8.9), (5, 5), (5.1, 5)]
        )
    ]
    figure = Figure(figsize=(8, 5))
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlim=(-1, 10), ylim=(0, 10))

    place_labels(axes, near, [(5.2, 5)], canvas.get_renderer())  # type: ignore[no-untyped-call]

    boxes = [Text.get_window_extent(text) for text in axes.texts]
    assert len(boxes) == len(near)
    for one, other in combinations(boxes, 2):
        assert Bbox.intersection(one, other) is None
    for box in boxes:
        assert axes.bbox.containsx(box.x0)
        assert axes.bbox.containsx(box.x1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--plot", "curve.txt"],
            "curve.txt: expected a file name ending in .svg, .png, .pdf",
        ),
        (["--plot", "nowhere/curve.svg"], "directory not found: nowhere"),
        (["--plot", "folder.svg"], "folder.svg: expected a file, got a directory"),
        (["--policy", "balanse"], "unknown policy"),
    ],
)
def test_invalid_plot_path_is_rejected_first(
    opendrs: RunOpendrs, imbalanced: str, arguments: list[str], message: str
) -> None:
    Path("folder.svg").mkdir()

    answer = opendrs("compare", imbalanced, *arguments)

    assert answer.status == 2
    assert message in answer.err
    assert answer.out == ""


def test_table_is_printed_when_the_plot_fails(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    Path("full.svg").symlink_to("/dev/full")

    answer = opendrs("compare", imbalanced, "--policy", "balance", "--plot", "full.svg")

    assert answer.status == 2
    assert answer.err == "opendrs: full.svg: cannot write: No space left on device\n"
    assert "balance" in answer.out


def test_plot_title_is_the_file_name(opendrs: RunOpendrs) -> None:
    write_snapshot(IMBALANCED, Path("a$_$.json"))

    drawings = []
    for name in ("one.svg", "two.svg"):
        opendrs("compare", "a$_$.json", "--policy", "balance", "--plot", name)
        drawings.append(Path(name).read_text())

    assert "a$_$.json" in drawings[0]
    assert drawings[0] == drawings[1]


def test_cluster_without_metrics_is_rejected(opendrs: RunOpendrs) -> None:
    write_snapshot(cluster(nodes={"a": None, "b": 0.1}, guests={}), Path("blind.json"))

    answer = opendrs("compare", "blind.json")

    assert answer.status == 2
    assert "blind.json: node a has no usage (nodes.a.usage: cpu, memory)" in answer.err


def test_cluster_without_online_nodes_is_rejected(opendrs: RunOpendrs) -> None:
    off = replace(IMBALANCED.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
    write_snapshot(
        replace(IMBALANCED, nodes={off.id: off}, guests={}), Path("off.json")
    )

    answer = opendrs("compare", "off.json")

    assert answer.status == 2
    assert "off.json: no online node has metrics; compare needs all" in answer.err


def test_remaining_violations_and_repair_command_are_shown(
    opendrs: RunOpendrs,
) -> None:
    apart = AntiAffinity(guests=guest_ids("one", "two"), name="apart")
    level = cluster(
        nodes={"a": 0.4, "b": 0.4},
        guests={"one": ("a", 0.1), "two": ("a", 0.1)},
        rules=[apart],
    )
    write_snapshot(level, Path("level.json"))
    policies = ("--policy", "balance", "--policy", "optimize", "--policy", "pressure")

    text = opendrs("compare", "level.json", *policies).out
    found = json.loads(
        opendrs("compare", "level.json", *policies, "--format", "json").out
    )

    lines = text.splitlines()
    command = "opendrs plan level.json --policy repair"
    assert lines[-4:] == [
        "violated strict rules: 0 of 1 remain after optimize",
        "violated strict rules: 1 of 1 remain after balance, pressure",
        "violated: apart: one, two on a",
        f"to repair: {command}",
    ]
    assert found["repair"] == command
    left = {row["name"]: row["violations"]["after"] for row in found["policies"]}
    assert left["optimize"] == []
    assert left["balance"] == found["policies"][0]["violations"]["before"]
    assert [each["rule"] for each in left["balance"]] == ["apart"]
