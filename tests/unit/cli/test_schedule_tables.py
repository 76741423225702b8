"""Tests of the printed schedule of a plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opendrs.cli.console import console
from opendrs.cli.schedule_tables import print_schedule, schedule_document
from opendrs.config import write_snapshot
from opendrs.model import (
    GIB,
    GuestId,
    Limits,
    LiveMigration,
    NodeId,
    Plan,
    PowerOn,
    Snapshot,
    Step,
    StepId,
)
from opendrs.planning import estimate_schedule
from support.builders import cluster
from support.terminal import RunOpendrs

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
CHAIN = Plan(
    (
        Step(StepId("1"), LiveMigration(GuestId("x"), A, B)),
        Step(StepId("2"), LiveMigration(GuestId("y"), B, C), depends_on=(StepId("1"),)),
    )
)
FAST = Limits(bandwidth=GIB, migration_timeout=600)


def two_node_cluster(dirty_rate: float | None) -> Snapshot:
    """Return two guests of 20 GiB on a and b."""
    snapshot = cluster(
        {"a": 0.2, "b": 0.2, "c": 0.0}, {"x": ("a", 0.2), "y": ("b", 0.2)}
    )
    guests = {
        name: replace(each, dirty_rate=dirty_rate)
        for name, each in snapshot.guests.items()
    }
    return replace(snapshot, guests=guests)


def printed_schedule(
    capsys: pytest.CaptureFixture[str], plan: Plan, snapshot: Snapshot, limits: Limits
) -> str:
    print_schedule(console(), estimate_schedule(plan, snapshot, limits), limits)
    return " ".join(capsys.readouterr().out.split())


def test_critical_path_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_schedule(capsys, CHAIN, two_node_cluster(0.0), FAST) == (
        "critical path: step 1, then 2: 40 s"
    )


def test_assumptions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    power_on = Step(StepId("0"), PowerOn(C))

    said = printed_schedule(
        capsys, Plan((power_on, *CHAIN.steps)), two_node_cluster(None), Limits()
    )

    assert said.endswith(
        "duration estimated with: bandwidth 1 Gbit/s per link (assumed; [limits] "
        "bandwidth is not set); "
        "dirty rate 0 for 2 steps (not measured; if higher, the plan takes longer); "
        "0 s for 1 step (duration unknown)"
    )


def test_never_completing_migrations_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = printed_schedule(capsys, CHAIN, two_node_cluster(2.0 * GIB), FAST)

    assert said.endswith(
        "does not converge: 1, 2: the guest writes faster than its memory can be sent; "
        "aborted after the timeout of 10 min 0 s"
    )


def test_migrations_over_the_timeout_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = printed_schedule(
        capsys, CHAIN, two_node_cluster(0.0), replace(FAST, migration_timeout=15)
    )

    assert said.endswith("too slow: 1, 2: aborted after the timeout of 15 s")


def test_temporarily_non_converging_migrations_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = Plan(
        (
            Step(StepId("1"), LiveMigration(GuestId("x"), A, C)),
            Step(StepId("2"), LiveMigration(GuestId("y"), B, C)),
        )
    )
    snapshot = two_node_cluster(0.6 * GIB)
    low_dirty_rate = replace(snapshot.guests[GuestId("y")], dirty_rate=0.0)
    snapshot = replace(
        snapshot, guests={**snapshot.guests, low_dirty_rate.id: low_dirty_rate}
    )

    said = printed_schedule(capsys, both, snapshot, FAST)

    assert said.endswith(
        "temporarily not converging: 1: the guest writes faster than its memory can "
        "be sent while other migrations share its links"
    )
    assert "not converging" not in printed_schedule(capsys, CHAIN, snapshot, FAST)


def test_empty_plan_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_schedule(capsys, Plan(), two_node_cluster(0.0), FAST) == ""


def test_the_document_has_every_step() -> None:
    document = schedule_document(estimate_schedule(CHAIN, two_node_cluster(0.0), FAST))

    assert document == {
        "seconds": 40.0,
        "at_least": False,
        "max_parallel": 1,
        "critical_path": ["1", "2"],
        "critical_path_seconds": 40.0,
        "bandwidth": GIB,
        "bandwidth_source": "configured",
        "steps": {
            "1": {
                "start": 0.0,
                "end": 20.0,
                "seconds": 20.0,
                "downtime": 0.0,
                "certainty": "estimated",
                "non_converging": False,
            },
            "2": {
                "start": 20.0,
                "end": 40.0,
                "seconds": 20.0,
                "downtime": 0.0,
                "certainty": "estimated",
                "non_converging": False,
            },
        },
    }


def test_plan_uses_the_configured_bandwidth(
    opendrs: RunOpendrs,
) -> None:
    imbalanced = cluster({"a": 0.8, "b": 0.0}, {"x": ("a", 0.4), "y": ("a", 0.4)})
    write_snapshot(imbalanced, Path("lopsided.json"))
    Path("fast.toml").write_text("[limits]\nbandwidth = 1_073_741_824\n")

    command = ("plan", "lopsided.json", "--config", "fast.toml")
    found = json.loads(opendrs(*command, "--format", "json").out)["schedule"]

    assert (found["seconds"], found["bandwidth_source"]) == (40.0, "configured")
    assert (
        "duration: at least 40 s at 8.59 Gbit/s per link (configured)\n"
        in opendrs(*command).out
    )
