"""opendrs plan: what would move where, and why."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from opendrs.config import write_snapshot
from opendrs.controller.serialization import plan_document
from opendrs.controller.step_serialization import step_document
from opendrs.model import (
    GIB,
    AntiAffinity,
    ColdMigration,
    NodeId,
    NodeState,
    Pin,
    PowerOff,
    PowerOn,
    Step,
    StepId,
)
from opendrs.policies import BUILT_IN_POLICIES, Balance
from support.builders import cluster, guest_ids, node
from support.terminal import RunOpendrs, piped_output, run_opendrs_in_terminal

IMBALANCED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"big": ("a", 0.4), "kept": ("a", 0.4)},
    rules=[Pin(guests=guest_ids("kept"), name="stays")],
)


@pytest.fixture
def imbalanced(opendrs: RunOpendrs) -> str:
    del opendrs  # which enters the directory to write to
    write_snapshot(IMBALANCED, Path("lopsided.json"))
    return "lopsided.json"


def test_plan_json_is_the_documented_object(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    answer = opendrs("plan", imbalanced, "--format", "json")

    found = json.loads(answer.out)
    assert answer.status == 0
    assert list(found) == [
        *("policy", "reason", "detail", "notes", "skipped"),
        *("before", "after", "violations", "repair_first", "violated_rules"),
        *("summary", "steps", "schedule"),
    ]
    assert (found["policy"], found["reason"]) == ("balance", "improves-balance")
    assert found["before"]["imbalance"] > 0.9
    assert found["after"]["imbalance"] < 0.1
    [step] = found["steps"]
    keys = ["id", "kind", "guest", "source", "target", "depends_on", "detail"]
    assert list(step) == keys
    assert step["detail"].startswith("moves 4.00 cores")
    assert {**step, "detail": ""} == {
        "id": "1",
        "kind": "live-migration",
        "guest": "big",
        "source": "a",
        "target": "b",
        "depends_on": [],
        "detail": "",
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
                ColdMigration(next(iter(guest_ids("vm"))), NodeId("a"), NodeId("b")),
            ),
            ["3", "cold-migration", "vm", "a", "b", [], ""],
        ),
    ],
)
def test_each_action_has_its_kind(step: Step, expected: list[object]) -> None:
    assert list(step_document(step).values()) == expected


def test_a_plan_without_steps_is_the_same_object() -> None:
    level = cluster(nodes={"a": 0.5, "b": 0.5}, guests={})

    document = plan_document("balance", Balance().decide(level, None), level)

    assert document["reason"] == "balanced"
    assert document["steps"] == []


def test_plan_shows_reason_steps_and_loads(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    text = opendrs("plan", imbalanced).out

    rows = [" ".join(row.split()) for row in text.splitlines()]
    assert rows[0].startswith(
        "balance: improves the balance: imbalance (CV) 1.000 → 0.000"
    )
    assert any(
        row.startswith("1 big a b 4.00 40.0 GiB moves 4.00 cores") for row in rows
    )
    assert "a 80% 40% 80% 40%" in rows
    assert "b 0% 40% 0% 40%" in rows
    assert 'guest skipped: kept: pinned by the rule "stays"' in rows
    assert rows[-1] == "This plan is for a snapshot file and cannot be applied."


def test_powered_off_node_is_shown_and_powered_on(opendrs: RunOpendrs) -> None:
    full = cluster({"a": 1.0}, {"big": ("a", 0.5), "other": ("a", 0.5)})
    powered_off = node("b", None, state=NodeState.OFFLINE)
    write_snapshot(
        replace(full, nodes={**full.nodes, NodeId("b"): powered_off}), Path("c.json")
    )

    consolidate = ("--policy", "consolidate", "--set", "manage_power=true")
    detector = ("--set", "detector=threshold", "--set", "detector_parameter=0.8")
    output = opendrs("plan", "c.json", *consolidate, *detector).out

    assert "power-on" in output
    assert "b\toffline\t50%\toffline\t50%" in output.splitlines()


def test_waiting_policy_names_the_option_to_decide_now(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    usual = opendrs("plan", imbalanced, "--policy", "pressure").out
    now = ("--set", "interval=0", "--set", "settle_time=0")
    at_once = opendrs("plan", imbalanced, "--policy", "pressure", *now).out

    assert usual.startswith(
        "pressure: the interval has not elapsed: the next check is in 60 s"
    )
    assert "To decide at once: --set interval=0 --set settle_time=0" in usual
    assert at_once.startswith("pressure: no guest")


def test_nan_time_limit_is_rejected(opendrs: RunOpendrs, imbalanced: str) -> None:
    answer = opendrs("plan", imbalanced, "--policy", "optimize", "--time-limit", "nan")

    assert answer.status == 2
    assert "expected a number of seconds, got nan" in answer.err


def test_suggested_command_repeats_the_options(opendrs: RunOpendrs) -> None:
    options = [
        "--policy",
        "balance",
        "--set",
        "threshold=0.2",
        "--set",
        "max_migrations=1",
    ]

    text = opendrs("plan", "demo", *options).out

    command = f"opendrs apply demo {' '.join(options)}"
    assert f"To plan again and execute: {command}\n" in text


def test_settings_change_the_decision(opendrs: RunOpendrs, imbalanced: str) -> None:
    answer = opendrs("plan", imbalanced, "--set", "threshold=5", "--format", "json")

    assert json.loads(answer.out)["reason"] == "balanced"


def test_the_configuration_chooses_the_policy(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    Path("opendrs.toml").write_text('[policy]\nname = "auto-rebalance"\n')

    answer = opendrs("plan", imbalanced)

    assert answer.out.startswith("auto-rebalance: the imbalance has not lasted")
    assert "to decide at once: --set hold=1" in answer.out


def test_another_configuration_can_be_named(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    Path("other.toml").write_text("[policy.balance]\nthreshold = 5\n")

    answer = opendrs("plan", imbalanced, "--config", "other.toml", "--format", "json")

    assert json.loads(answer.out)["reason"] == "balanced"


def test_says_when_there_is_nothing_to_do(opendrs: RunOpendrs) -> None:
    level = cluster(nodes={"a": 0.5, "b": 0.5}, guests={"vm": ("a", 0.1)})
    write_snapshot(level, Path("level.json"))

    answer = opendrs("plan", "level.json")

    assert answer.status == 0
    assert answer.out.startswith("balance: balanced: ")
    assert answer.out.endswith("The plan has no steps.\n")


def test_remaining_strict_violations_are_named(opendrs: RunOpendrs) -> None:
    apart = AntiAffinity(guests=guest_ids("one", "two"))
    soft = AntiAffinity(guests=guest_ids("one", "two"), strict=False, name="soft")
    level = cluster(
        nodes={"a": 0.5, "b": 0.5},
        guests={"one": ("a", 0.1), "two": ("a", 0.1)},
        rules=[apart, soft],
    )
    write_snapshot(level, Path("level.json"))

    answer = opendrs("plan", "level.json", "--set", "repair_first=false")

    assert "remains violated: anti-affinity of one, two: one, two on a" in answer.out
    assert answer.out.count("remains violated") == 1


def test_many_violations_are_counted(opendrs: RunOpendrs) -> None:
    crowded_cluster = [f"g{number}" for number in range(4)]
    level = cluster(
        nodes={"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5},
        guests=dict.fromkeys(crowded_cluster, ("a", 0.1)),
        rules=[
            AntiAffinity(guests=guest_ids(*crowded_cluster), name="apart"),
            Pin(guests=guest_ids(*crowded_cluster), name="stay"),
        ],
    )
    write_snapshot(level, Path("level.json"))

    text = opendrs("plan", "level.json").out
    everything = opendrs("plan", "level.json", "--all").out

    assert "violated strict rules: 1 of 1 remain (6 violations)\n" in text
    assert text.count("cannot be repaired: ") == 3
    assert "\nand 3 more; --all shows all\n" in text
    assert everything.count("cannot be repaired: ") == 6


@pytest.fixture
def violating_snapshot(opendrs: RunOpendrs) -> str:
    """Return a level cluster in which one rule can be repaired, and one cannot."""
    del opendrs  # which enters the directory to write to
    level = cluster(
        nodes={"a": 0.5, "b": 0.5},
        guests={"one": ("a", 0.1), "two": ("a", 0.1), "x": ("b", 0.1), "y": ("b", 0.1)},
        rules=[
            AntiAffinity(guests=guest_ids("one", "two"), name="apart"),
            AntiAffinity(guests=guest_ids("x", "y"), name="pinned"),
            Pin(guests=guest_ids("x", "y"), name="stay"),
        ],
    )
    write_snapshot(level, Path("broken cluster.json"))
    return "broken cluster.json"


NO_REPAIR = ("--set", "repair_first=false")
PINNED = 'cannot be repaired: pinned: x, y: not migrated: pinned by the rule "stay"'


def repair_command_in(text: str) -> list[str]:
    """Return the arguments of the command that *text* names for the repair."""
    found = re.search(r"^to repair.*?: opendrs (.*)$", text, re.MULTILINE)
    assert found is not None, text
    return shlex.split(found[1])


@pytest.mark.parametrize(
    "policy", sorted({*BUILT_IN_POLICIES} - {"optimize", "repair"})
)
def test_every_policy_names_the_repair_command(
    opendrs: RunOpendrs, violating_snapshot: str, policy: str
) -> None:
    Path("c.toml").write_text("[limits]\nbandwidth = 1e9\n")
    same = ("--config", "c.toml")

    original = ("--policy", policy, "--set", "repair_first=false")
    text = opendrs("plan", violating_snapshot, *original, *same).out
    repaired = opendrs(*repair_command_in(text), "--format", "json").out

    assert f"violated strict rules: 2 of 2 remain; {policy} does not" in text
    assert PINNED in text
    assert "remains violated: apart: one, two on a" in text
    assert "to repair 1 of them: opendrs plan 'broken cluster.json' " in text
    assert repair_command_in(text)[-2:] == [*same]
    after = json.loads(repaired)["violations"]["after"]
    assert [found["rule"] for found in after] == ["pinned"]


def test_plan_json_has_violations_and_repair_command(
    opendrs: RunOpendrs, violating_snapshot: str
) -> None:
    document = json.loads(
        opendrs("plan", violating_snapshot, *NO_REPAIR, "--format", "json").out
    )
    found = document["violations"]

    apart = {"rule": "apart", "strict": True, "guests": ["one", "two"], "nodes": ["a"]}
    pinned = {"rule": "pinned", "strict": True, "guests": ["x", "y"], "nodes": ["b"]}
    assert found["before"] == [apart, pinned]
    assert found["after"][0] == {**apart, "repairable": True, "detail": ""}
    assert (found["after"][1]["repairable"], found["after"][1]["rule"]) == (
        False,
        "pinned",
    )
    assert shlex.split(found["repair"])[:3] == ["opendrs", "plan", violating_snapshot]
    both = {"rules": 2, "violations": 2}
    assert document["violated_rules"] == {"before": both, "after": both}
    assert document["repair_first"] is False


def test_plan_json_has_the_repair_that_comes_first(
    opendrs: RunOpendrs, violating_snapshot: str
) -> None:
    answer = opendrs("plan", violating_snapshot, "--format", "json")

    found = json.loads(answer.out)
    assert (found["policy"], found["reason"]) == ("balance", "repairs-rules")
    assert found["repair_first"] is True
    assert found["violated_rules"]["before"] == {"rules": 2, "violations": 2}
    assert found["violated_rules"]["after"] == {"rules": 1, "violations": 1}
    assert [each["repairable"] for each in found["violations"]["after"]] == [False]
    assert [step["guest"] for step in found["steps"]] == ["one"]


def test_infeasible_repair_is_printed_once(
    opendrs: RunOpendrs, violating_snapshot: str
) -> None:
    text = opendrs("plan", violating_snapshot, "--policy", "optimize").out

    assert text.count(PINNED) == 1


def test_repair_command_only_repairs(
    opendrs: RunOpendrs, violating_snapshot: str
) -> None:
    command = repair_command_in(opendrs("plan", violating_snapshot, *NO_REPAIR).out)

    text = opendrs(*command).out
    found = json.loads(opendrs(*command, "--format", "json").out)["violations"]

    assert "violated strict rules: 1 of 2 remain\n" in text
    assert "to repair" not in text
    assert found["repair"] is None


def test_the_summary_comes_first_and_can_be_had_alone(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    text = opendrs("plan", imbalanced).out
    summary = opendrs("plan", imbalanced, "--summary").out

    assert text.startswith(summary)
    assert summary.splitlines()[1:] == [
        "plan: 1 migration, 40.0 GiB to transfer",
        "duration: at least 5 min 44 s at 1 Gbit/s per link (assumed)",
        "",
        "metric\tbefore\ton node\tafter\ton node",
        "highest CPU load\t80%\ta\t40%\ta",
        "highest memory load\t80%\ta\t40%\ta",
        "imbalance (CV)\t1.000\t\t0.000\t",
        "violated strict rules\t0\t\t0\t",
    ]


def test_plan_json_has_the_summary(opendrs: RunOpendrs, imbalanced: str) -> None:
    whole = json.loads(opendrs("plan", imbalanced, "--format", "json").out)
    brief = json.loads(opendrs("plan", imbalanced, "--summary", "--format", "json").out)

    high, low = {"node": "a", "load": 0.8}, {"node": "a", "load": 0.4}
    summary = brief["summary"]
    assert summary["before"]["cpu"] == summary["before"]["memory"] == high
    assert summary["after"]["cpu"] == summary["after"]["memory"] == low
    assert (summary["migrations"], summary["gib"]) == (1, 40)
    assert summary["seconds"] == pytest.approx(40 * GIB / 125e6)
    assert whole["summary"] == summary
    assert "steps" not in brief


@pytest.fixture
def large_cluster(opendrs: RunOpendrs) -> str:
    """Return 30 nodes; those with high numbers are full of guests of several sizes."""
    del opendrs  # which enters the directory to write to
    nodes = {f"n{number:02}": 0.1 + 0.3 * (number > 20) for number in range(30)}
    guests = {
        f"g{number:02}-{part}": (f"n{number:02}", 0.02 * part + 0.001 * number)
        for number in range(21, 30)
        for part in (1, 2, 3)
    }
    apart = AntiAffinity(guests=guest_ids("g21-1", "g21-2"), name="apart")
    write_snapshot(cluster(nodes, guests, [apart]), Path("large.json"))
    return "large.json"


def test_of_many_steps_the_most_valuable_are_shown(
    opendrs: RunOpendrs, large_cluster: str
) -> None:
    settings = ("--policy", "optimize", "--set", "threshold=0")
    found = json.loads(
        opendrs("plan", large_cluster, *settings, "--format", "json").out
    )
    steps = found["steps"]
    brief = opendrs("plan", large_cluster, *settings).out
    everything = opendrs("plan", large_cluster, *settings, "--all").out

    def listed_steps(text: str) -> set[str]:
        rows = (line.split("\t") for line in text.splitlines())
        return {row[1] for row in rows if row[0].isdigit()}

    def by_value(step: dict[str, str]) -> tuple[bool, float]:
        part, number = int(step["guest"][-1]), int(step["guest"][1:3])
        return step["guest"] in repairing, 0.02 * part + 0.001 * number

    repairing = {"g21-1", "g21-2"}
    best = sorted(steps, key=by_value, reverse=True)[:10]
    assert f"10 of {len(steps)} steps: those that repair" in brief
    assert len(steps) > 10
    assert repairing & {step["guest"] for step in best}
    assert listed_steps(brief) == {step["guest"] for step in best}
    assert listed_steps(everything) == {step["guest"] for step in steps}


@pytest.mark.parametrize("width", [20, 40, 60])
def test_nodes_are_named_in_a_narrow_window(opendrs: RunOpendrs, width: int) -> None:
    del opendrs  # which enters a directory of its own

    finished = run_opendrs_in_terminal(
        "plan", "demo", "--set", "max_migrations=1", size=(width, 24)
    )

    assert any(line.startswith("node1  █") for line in finished.lines)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_draws_bars_and_keeps_to_the_columns_of_the_terminal(
    opendrs: RunOpendrs, large_cluster: str, size: tuple[int, int]
) -> None:
    del opendrs  # which enters a directory of its own

    lines = run_opendrs_in_terminal("plan", large_cluster, *NO_REPAIR, size=size).lines

    bars = re.compile(r"n2[0-9]   ███░░░░░  40%  → ██░░░░░░  \d\d%")
    assert len([line for line in lines if bars.match(line)]) == 5
    assert max(map(len, lines)) <= size[0]


def test_reasons_are_below_the_steps_of_a_small_plan(
    opendrs: RunOpendrs, imbalanced: str
) -> None:
    del opendrs  # which enters a directory of its own

    lines = run_opendrs_in_terminal("plan", imbalanced).lines

    place = lines.index("1     big    a     b         4.00     40.0 GiB")
    assert lines[place + 1].startswith("      moves 4.00 cores and 40.00 GiB from a")


def test_commands_are_never_divided_among_lines(
    opendrs: RunOpendrs, violating_snapshot: str
) -> None:
    finished = run_opendrs_in_terminal("plan", violating_snapshot, *NO_REPAIR)

    unbroken = piped_output("plan", violating_snapshot, *NO_REPAIR)
    assert opendrs("show", violating_snapshot).status == 0
    [command] = [line for line in unbroken.splitlines() if "to repair" in line]
    assert command in finished.lines


def test_of_many_nodes_the_most_loaded_are_shown(opendrs: RunOpendrs) -> None:
    nodes = {f"n{number:03}": number / 1000 for number in range(100)}
    crowded_cluster = cluster(
        nodes={**nodes, "n050": 0.9}, guests={"vm": ("n050", 0.5)}
    )
    write_snapshot(crowded_cluster, Path("crowd.json"))

    text = opendrs("plan", "crowd.json", "--set", "threshold=0").out
    rows = [line.split("\t")[0] for line in text.splitlines()]

    assert "the 5 most loaded of 100 nodes; --all shows all" in rows
    assert [row for row in rows if row.startswith("n0")] == [
        *("n050", "n000", "n099", "n098", "n097")
    ]


def test_of_many_notes_the_first_are_shown(opendrs: RunOpendrs) -> None:
    pins = [
        Pin(guests=guest_ids(f"g{number}"), name=f"p{number}") for number in range(8)
    ]
    guests = {f"g{number}": ("a", 0.05) for number in range(8)}
    write_snapshot(cluster({"a": 0.8, "b": 0.0}, guests, pins), Path("pins.json"))

    text = opendrs("plan", "pins.json").out

    assert text.count("skipped: ") == 5
    assert "\nand 3 more notes; --all shows all\n" in text
    assert opendrs("plan", "pins.json", "--all").out.count("skipped: ") == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "balanec"], "did you mean balance?"),
        (["--set", "tresh=1"], "unknown setting; did you mean threshold?"),
        (["--set", "threshold"], "--set: expected KEY=VALUE"),
        (["--set", "threshold=low"], 'expected a number, got "low"'),
        (["--config", "none.toml"], "No such file"),
    ],
)
def test_invalid_options_are_invalid_input(
    opendrs: RunOpendrs, imbalanced: str, options: list[str], message: str
) -> None:
    answer = opendrs("plan", imbalanced, *options)

    assert answer.status == 2
    assert message in answer.err


def test_unknown_source_lists_the_platforms(
    opendrs: RunOpendrs,
) -> None:
    Path("opendrs.toml").write_text('[platform.lab]\nkind = "file"\npath = "x"\n')

    answer = opendrs("plan", "labor")

    assert answer.status == 2
    assert answer.err == (
        "opendrs: using ./opendrs.toml\n"
        'opendrs: "labor": neither a file nor a configured platform (configured: lab)\n'
    )


def test_metrics_of_the_policy_are_shown_with_all(opendrs: RunOpendrs) -> None:
    heads = "metric\tbefore\tafter"

    assert heads not in opendrs("plan", "demo").out
    assert heads in opendrs("plan", "demo", "--all").out


def test_drain_that_cannot_end_is_no_violated_rule(opendrs: RunOpendrs) -> None:
    level = cluster(
        nodes={"a": 0.5, "b": 0.5},
        guests={"one": ("a", 0.1), "two": ("a", 0.1)},
        rules=[Pin(guests=guest_ids("one", "two"), name="stay")],
    )
    closed = replace(level.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
    drained = replace(level, nodes={**level.nodes, closed.id: closed})
    write_snapshot(drained, Path("level.json"))

    text = opendrs("plan", "level.json").out
    compared = opendrs("compare", "level.json").out

    line = "maintenance of a: 2 guests cannot leave: one, two: not migrated: pinned"
    assert text.count(line) == 1
    assert "guests to drain: 2 of 2 remain after " in compared
    assert compared.count(line) == 1
    for output in (text, compared):
        assert "cannot be repaired" not in output
        assert "violated strict rules:" not in output


@pytest.mark.parametrize("policy", ["repair", "optimize"])
def test_headline_counts_guests_to_drain_as_the_table_does(
    opendrs: RunOpendrs, policy: str
) -> None:
    guests = {"x": ("a", 0.2), "y": ("a", 0.2), "z": ("a", 0.2)}
    level = cluster({"a": 0.6, "b": 0.0}, guests, [Pin(guests=guest_ids("z"))])
    closed = replace(level.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
    write_snapshot(
        replace(level, nodes={**level.nodes, closed.id: closed}), Path("c.json")
    )

    headline, *lines = opendrs("plan", "c.json", "--policy", policy).out.splitlines()

    assert ": guests to drain 3 → 1" in headline
    assert "violated strict rules" not in headline
    assert "violated strict rules\t0\t\t0\t" in lines
    assert "guests to drain\t3\t\t1\t" in lines
