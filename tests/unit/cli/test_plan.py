"""opendrs plan: what would move where, and why."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builders import cluster, guest_ids, node
from opendrs.controller.documents import plan_document, step_document
from opendrs.model import (
    AntiAffinity,
    NodeId,
    NodeState,
    Pin,
    PowerOff,
    PowerOn,
    Relocation,
    Step,
    StepId,
)
from opendrs.platforms.file import write_snapshot
from opendrs.policies import Balance
from terminal import Opendrs

LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"big": ("a", 0.4), "kept": ("a", 0.4)},
    rules=[Pin(guests=guest_ids("kept"), name="stays")],
)


@pytest.fixture
def lopsided(opendrs: Opendrs) -> str:
    del opendrs  # which enters the directory to write to
    write_snapshot(LOPSIDED, Path("lopsided.json"))
    return "lopsided.json"


def test_json_is_exactly_the_published_object(opendrs: Opendrs, lopsided: str) -> None:
    answer = opendrs("plan", lopsided, "--format", "json")

    found = json.loads(answer.out)
    assert answer.status == 0
    assert list(found) == [
        *("policy", "reason", "detail", "notes"),
        *("before", "after", "violations", "steps", "schedule"),
    ]
    assert (found["policy"], found["reason"]) == ("balance", "improves-balance")
    assert found["before"]["imbalance"] > 0.9
    assert found["after"]["imbalance"] < 0.1
    [step] = found["steps"]
    keys = ["id", "kind", "guest", "source", "target", "after", "why"]
    assert list(step) == keys
    assert step["why"].startswith("takes 4.00 cores")
    assert {**step, "why": ""} == {
        "id": "1",
        "kind": "migrate",
        "guest": "big",
        "source": "a",
        "target": "b",
        "after": [],
        "why": "",
    }


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            Step(StepId("1"), PowerOn(NodeId("a"))),
            ["1", "power-on", None, None, "a", [], ""],
        ),
        (
            Step(StepId("2"), PowerOff(NodeId("a")), (StepId("1"),), "idle"),
            ["2", "power-off", None, None, "a", ["1"], "idle"],
        ),
        (
            Step(
                StepId("3"),
                Relocation(next(iter(guest_ids("vm"))), NodeId("a"), NodeId("b")),
            ),
            ["3", "relocate", "vm", "a", "b", [], ""],
        ),
    ],
)
def test_each_kind_of_step_has_its_word(step: Step, expected: list[object]) -> None:
    assert list(step_document(step).values()) == expected


def test_a_plan_without_steps_is_the_same_object() -> None:
    level = cluster(nodes={"a": 0.5, "b": 0.5}, guests={})

    document = plan_document("balance", Balance().decide(level, None), level)

    assert document["reason"] == "balanced"
    assert document["steps"] == []


def test_shows_why_what_and_what_becomes_of_the_nodes(
    opendrs: Opendrs, lopsided: str
) -> None:
    text = opendrs("plan", lopsided).out

    rows = [" ".join(row.split()) for row in text.splitlines()]
    assert rows[0].startswith("balance: improves-balance - imbalance 1.000 → 0.000")
    assert "1 big a b 4 40.0 GiB" in rows
    assert "a ██████░░ 80% → ███░░░░░ 40% ██████░░ 80% → ███░░░░░ 40%" in rows
    assert "b ░░░░░░░░ 0% → ███░░░░░ 40% ░░░░░░░░ 0% → ███░░░░░ 40%" in rows
    assert "left alone: kept: rule: stays" in rows
    assert rows[-1] == "This is a snapshot in a file: it is planned for, not changed."


def test_a_sleeping_node_is_shown_and_woken(opendrs: Opendrs) -> None:
    full = cluster({"a": 1.0}, {"big": ("a", 0.5), "other": ("a", 0.5)})
    asleep = node("b", None, state=NodeState.OFFLINE)
    write_snapshot(
        replace(full, nodes={**full.nodes, NodeId("b"): asleep}), Path("c.json")
    )

    consolidate = ("--policy", "consolidate", "--set", "power=true")
    detector = ("--set", "detector=threshold", "--set", "parameter=0.8")
    told = opendrs("plan", "c.json", *consolidate, *detector).out

    assert "power-on" in told
    woken = next(line for line in told.splitlines() if line.startswith("b "))
    before, _, after = woken.partition("→" if "→" in woken else "->")
    assert before.split() == ["b", "offline"]
    assert "50%" in after


def test_a_policy_that_bides_its_time_says_how_to_decide_at_once(
    opendrs: Opendrs, lopsided: str
) -> None:
    usual = opendrs("plan", lopsided, "--policy", "pressure").out
    now = ("--set", "interval=0", "--set", "quiet=0")
    at_once = opendrs("plan", lopsided, "--policy", "pressure", *now).out

    assert usual.startswith("pressure: not-yet-due - the next check is in 60 s")
    assert "To decide at once: --set interval=0 --set quiet=0" in usual
    assert at_once.startswith("pressure: no-")


def test_a_time_that_is_no_number_is_refused(opendrs: Opendrs, lopsided: str) -> None:
    answer = opendrs("plan", lopsided, "--policy", "optimize", "--time", "nan")

    assert answer.status == 2
    assert "nan is not a number of seconds" in answer.err


def test_the_advice_repeats_the_options(opendrs: Opendrs) -> None:
    options = ["--policy", "balance", "--set", "threshold=0.2", "--set", "moves=1"]

    text = opendrs("plan", "demo", *options).out

    command = f"opendrs apply demo {' '.join(options)}"
    assert f"To do this: {command}" in " ".join(text.split())


def test_settings_change_the_decision(opendrs: Opendrs, lopsided: str) -> None:
    answer = opendrs("plan", lopsided, "--set", "threshold=5", "--format", "json")

    assert json.loads(answer.out)["reason"] == "balanced"


def test_the_configuration_chooses_the_policy(opendrs: Opendrs, lopsided: str) -> None:
    Path("opendrs.toml").write_text('[policy]\nname = "auto-rebalance"\n')

    answer = opendrs("plan", lopsided)

    assert answer.out.startswith("auto-rebalance: not-yet-sustained")
    assert "to decide at once: --set hold=1" in answer.out


def test_another_configuration_can_be_named(opendrs: Opendrs, lopsided: str) -> None:
    Path("other.toml").write_text("[policy.balance]\nthreshold = 5\n")

    answer = opendrs("plan", lopsided, "--config", "other.toml", "--format", "json")

    assert json.loads(answer.out)["reason"] == "balanced"


def test_says_when_there_is_nothing_to_do(opendrs: Opendrs) -> None:
    level = cluster(nodes={"a": 0.5, "b": 0.5}, guests={"vm": ("a", 0.1)})
    write_snapshot(level, Path("level.json"))

    answer = opendrs("plan", "level.json")

    assert answer.status == 0
    assert answer.out.startswith("balance: balanced - ")
    assert answer.out.endswith("There is nothing to do.\n")


def test_tells_which_strict_rules_stay_broken(opendrs: Opendrs) -> None:
    apart = AntiAffinity(guests=guest_ids("one", "two"))
    soft = AntiAffinity(guests=guest_ids("one", "two"), strict=False, name="soft")
    level = cluster(
        nodes={"a": 0.5, "b": 0.5},
        guests={"one": ("a", 0.1), "two": ("a", 0.1)},
        rules=[apart, soft],
    )
    write_snapshot(level, Path("level.json"))

    answer = opendrs("plan", "level.json")

    assert "stays broken: keep one, two apart: broken by one, two on a" in answer.out
    assert answer.out.count("stays broken") == 1


def test_many_broken_rules_are_counted(opendrs: Opendrs) -> None:
    crowd = [f"g{number}" for number in range(4)]
    level = cluster(
        nodes={"a": 0.5, "b": 0.5},
        guests=dict.fromkeys(crowd, ("a", 0.1)),
        rules=[AntiAffinity(guests=guest_ids(*crowd), name="apart")],
    )
    write_snapshot(level, Path("level.json"))

    answer = opendrs("plan", "level.json")

    assert answer.out.count("stays broken: apart") == 5
    assert "stays broken: 1 more; see opendrs show" in answer.out


@pytest.mark.parametrize("width", ["20", "40", "60"])
def test_nodes_are_named_in_a_narrow_window(
    opendrs: Opendrs, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)

    answer = opendrs("plan", "demo", "--set", "moves=1")

    assert "\nnode1 █" in answer.out


def test_keeps_to_eighty_columns(opendrs: Opendrs) -> None:
    answer = opendrs("plan", "demo")

    assert max(map(len, answer.out.splitlines())) <= 80


def test_many_nodes_are_cut_to_those_that_change(opendrs: Opendrs) -> None:
    nodes = {f"n{number:03}": 0.1 for number in range(100)}
    crowd = cluster(nodes={**nodes, "n050": 0.9}, guests={"vm": ("n050", 0.5)})
    write_snapshot(crowd, Path("crowd.json"))

    text = opendrs("plan", "crowd.json", "--set", "threshold=0").out

    assert "n050 " in text
    assert "and 60 more" in text


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--policy", "balanec"], "did you mean balance?"),
        (["--set", "tresh=1"], "no such setting; did you mean threshold?"),
        (["--set", "threshold"], "--set: expected KEY=VALUE"),
        (["--set", "threshold=low"], 'expected a number, found "low"'),
        (["--config", "none.toml"], "No such file"),
    ],
)
def test_bad_options_are_bad_input(
    opendrs: Opendrs, lopsided: str, options: list[str], complaint: str
) -> None:
    answer = opendrs("plan", lopsided, *options)

    assert answer.status == 2
    assert complaint in answer.err


def test_an_unknown_source_is_told_with_the_platforms_there_are(
    opendrs: Opendrs,
) -> None:
    Path("opendrs.toml").write_text('[platform.lab]\nkind = "file"\npath = "x"\n')

    answer = opendrs("plan", "labor")

    assert answer.status == 2
    assert answer.err == (
        'opendrs: "labor" is neither a file nor a configured platform (there is: lab)\n'
    )
