"""How long a plan takes, as it is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builders import cluster
from opendrs.cli.screen import console
from opendrs.cli.timing import print_schedule, schedule_document
from opendrs.model import (
    GIB,
    GuestId,
    Limits,
    Migration,
    NodeId,
    Plan,
    PowerOn,
    Snapshot,
    Step,
    StepId,
)
from opendrs.platforms.file import write_snapshot
from opendrs.scoring import schedule
from terminal import Opendrs

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
CHAIN = Plan(
    (
        Step(StepId("1"), Migration(GuestId("x"), A, B)),
        Step(StepId("2"), Migration(GuestId("y"), B, C), after=(StepId("1"),)),
    )
)
FAST = Limits(bandwidth=GIB, patience=600)


def pair(dirty_rate: float | None) -> Snapshot:
    """Return two guests of 20 GiB on a and b."""
    snapshot = cluster(
        {"a": 0.2, "b": 0.2, "c": 0.0}, {"x": ("a", 0.2), "y": ("b", 0.2)}
    )
    guests = {
        name: replace(each, dirty_rate=dirty_rate)
        for name, each in snapshot.guests.items()
    }
    return replace(snapshot, guests=guests)


def told(
    capsys: pytest.CaptureFixture[str], plan: Plan, snapshot: Snapshot, limits: Limits
) -> str:
    print_schedule(console(), schedule(plan, snapshot, limits), limits)
    return " ".join(capsys.readouterr().out.split())


def test_tells_the_longest_chain(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, CHAIN, pair(0.0), FAST) == (
        "critical path: step 1, then 2; 40 s"
    )


def test_tells_what_it_has_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    wake = Step(StepId("0"), PowerOn(C))

    said = told(capsys, Plan((wake, *CHAIN.steps)), pair(None), Limits())

    assert said.endswith(
        "assumed: links of 1 Gbit/s, because [limits] names no bandwidth; guests do "
        "not write to their memory during 2 steps, because the dirty rate is not "
        "known; no time for 1 step, because the duration is not known"
    )


def test_tells_which_moves_would_never_end(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, CHAIN, pair(2.0 * GIB), FAST)

    assert said.endswith(
        "never ends, and is aborted after 10 min 0 s: 1, 2: the guest writes faster "
        "than its memory can be sent"
    )


def test_tells_which_moves_would_not_end_in_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = told(capsys, CHAIN, pair(0.0), replace(FAST, patience=15))

    assert said.endswith("takes too long, and is aborted after 15 s: 1, 2")


def test_tells_which_moves_stall_while_others_share_their_links(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = Plan(
        (
            Step(StepId("1"), Migration(GuestId("x"), A, C)),
            Step(StepId("2"), Migration(GuestId("y"), B, C)),
        )
    )
    snapshot = pair(0.6 * GIB)
    calm = replace(snapshot.guests[GuestId("y")], dirty_rate=0.0)
    snapshot = replace(snapshot, guests={**snapshot.guests, calm.id: calm})

    said = told(capsys, both, snapshot, FAST)

    assert said.endswith(
        "makes no headway for a time: 1: the guest writes faster than its memory can "
        "be sent while other moves share its links"
    )
    assert "no headway" not in told(capsys, CHAIN, snapshot, FAST)


def test_says_nothing_about_no_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, Plan(), pair(0.0), FAST) == ""


def test_the_document_has_every_step() -> None:
    document = schedule_document(schedule(CHAIN, pair(0.0), FAST))

    assert document == {
        "seconds": 40.0,
        "at_least": False,
        "most_at_once": 1,
        "chain": ["1", "2"],
        "chain_seconds": 40.0,
        "bandwidth": GIB,
        "bandwidth_assumed": False,
        "steps": {
            "1": {
                "begin": 0.0,
                "end": 20.0,
                "seconds": 20.0,
                "downtime": 0.0,
                "certainty": "estimated",
                "stalls": False,
            },
            "2": {
                "begin": 20.0,
                "end": 40.0,
                "seconds": 20.0,
                "downtime": 0.0,
                "certainty": "estimated",
                "stalls": False,
            },
        },
    }


def test_plan_reckons_with_the_bandwidth_of_the_configuration(
    opendrs: Opendrs,
) -> None:
    lopsided = cluster({"a": 0.8, "b": 0.0}, {"x": ("a", 0.4), "y": ("a", 0.4)})
    write_snapshot(lopsided, Path("lopsided.json"))
    Path("fast.toml").write_text("[limits]\nbandwidth = 1_073_741_824\n")

    command = ("plan", "lopsided.json", "--config", "fast.toml")
    found = json.loads(opendrs(*command, "--format", "json").out)["schedule"]

    assert (found["seconds"], found["bandwidth_assumed"]) == (40.0, False)
    assert "plan: 1 move of 40.0 GiB, at least 40 s\n" in opendrs(*command).out
