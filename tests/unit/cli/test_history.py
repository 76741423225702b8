"""opendrs history, explain and store backup on the record of a platform."""

from __future__ import annotations

import json
import shlex
import sqlite3
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from opendrs.config.policy_loading import build_policy
from opendrs.controller.serialization import cycle_record
from opendrs.model import DEFAULT_LIMITS, Affinity, Migration, Pin, Snapshot
from opendrs.ports import Outcome, StepRecord, TaskId
from opendrs.store import Access, DatabasePlanStore, SqliteStore
from support.builders import NOON, cluster, guest_ids
from support.howto_pages import HowToPage
from support.open_plans import open_plan
from support.persistent_cluster import configure_persistent_platform
from support.simulated_cluster import migration, step
from support.terminal import RunOpendrs

Words = Callable[..., list[str]]
GUESTS = {"vm1": ("a", 0.3), "vm2": ("a", 0.2), "vm3": ("b", 0.1), "vm4": ("a", 0.3)}
BEFORE = replace(
    cluster(
        {"a": 0.9, "b": 0.1},
        GUESTS,
        [Pin(guests=guest_ids("vm4")), Affinity(guests=guest_ids("vm1", "vm2"))],
    ),
    taken_at=NOON,
)
AFTER = cluster({"a": 0.5, "b": 0.5}, {"vm1": ("b", 0.3), "vm2": ("b", 0.2)})

THREE_NODES = cluster(
    {"a": 0.5, "b": 0.5, "c": 0.5}, {"vm1": ("a", 0.3), "vm2": ("b", 0.3)}
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.sqlite"


@pytest.fixture
def words(path: Path, monkeypatch: pytest.MonkeyPatch) -> Words:
    config = path.with_name("opendrs.toml")
    return configure_persistent_platform(monkeypatch, config, path)


def record(store: SqliteStore, run: str, minute: int, snapshot: Snapshot) -> list[str]:
    """Record a cycle of `balance`, with the outcomes of its steps."""
    policy = build_policy("balance", {}, replace(DEFAULT_LIMITS, bandwidth=10**9))
    decision = policy.decide(snapshot, None)
    decided_at = NOON + timedelta(minutes=minute)
    store.record_cycle(
        cycle_record(
            run, decided_at, snapshot, policy=policy, memory=None, decision=decision
        )
    )
    for planned in decision.plan.steps:
        started = StepRecord(
            run=run,
            step=planned.id,
            action=planned.action,
            intended_at=decided_at,
            task=TaskId("task"),
            ended_at=decided_at + timedelta(seconds=30),
            outcome=Outcome.DONE,
        )
        assert isinstance(planned.action, Migration)
        store.write(started)
    return [each.id for each in decision.plan.steps]


@pytest.fixture
def steps(path: Path) -> list[str]:
    """Record one cycle with a plan, and one without; return the ids of the steps."""
    with SqliteStore(path) as store:
        store.save("platform", {"name": "lab"})
        found = record(store, "run one", 0, BEFORE)
        assert record(store, "run two", 1, AFTER) == []
    assert found
    return found


@pytest.fixture
def ask(opendrs: RunOpendrs, words: Words, steps: list[str]) -> Callable[..., Any]:
    assert steps

    def answer(command: str, *options: str) -> Any:  # noqa: ANN401
        table = opendrs(*words(command, *options))
        assert (table.status, table.err) == (0, "")
        assert table.out
        result = opendrs(*words(command, *options, "--format", "json"))
        return json.loads(result.out)

    return answer


Ask = Callable[..., Any]


def test_cycles_have_reasons_newest_first(ask: Ask) -> None:
    two, one = ask("history")

    assert (two["run"], two["reason"], two["steps"]) == ("run two", "balanced", 0)
    assert (one["run"], one["reason"]) == ("run one", "improves-balance")


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (["--limit", "1"], ["run two"]),
        (["--since", "2026-01-01T12:00:30"], ["run two"]),
        (["--until", "2026-01-01T12:00:30"], ["run one"]),
        (["--guest", "vm1"], ["run one"]),
        (["--guest", "vm4"], []),
        (["--guest", "vm1", "--node", "b"], ["run one"]),
        (["--node", "c"], []),
        (["--plans"], ["run one"]),
    ],
)
def test_cycles_are_selected(ask: Ask, options: list[str], runs: list[str]) -> None:
    day = f"{NOON:%Y-%m-%d}"
    dated = [each.replace("2026-01-01", day) for each in options]

    assert [each["run"] for each in ask("history", *dated)] == runs


def test_plan_has_outcomes(ask: Ask, steps: list[str]) -> None:
    (plan,) = ask("history", "--plans")

    assert [step["id"] for step in plan["steps"]] == steps
    assert {step["outcome"] for step in plan["steps"]} == {"done"}
    assert plan["metrics"]["before"]


def test_move_has_predicted_and_real_benefit(ask: Ask) -> None:
    (move,) = ask("history", "--moves", "--guest", "vm1")

    assert (move["source"], move["target"], move["outcome"]) == ("a", "b", "done")
    assert move["seconds"] == 30.0
    memory = BEFORE.guests[move["guest"]].usage.memory
    assert memory is not None
    assert move["predicted_seconds"] == pytest.approx(memory / 1e9, rel=0.1)
    load = move["load"]
    assert (load["before"]["source"]["cpu"], load["before"]["target"]["cpu"]) == (
        pytest.approx(0.9),
        pytest.approx(0.1),
    )
    assert (load["after"]["source"]["cpu"], load["after"]["target"]["cpu"]) == (
        pytest.approx(0.5),
        pytest.approx(0.5),
    )


def test_loads_are_unknown_without_inputs(ask: Ask, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE cycles SET inputs = 'dropped'")
        connection.execute("DELETE FROM cycle_parts WHERE part != 'decision'")

    move = ask("history", "--moves")[0]

    assert move["predicted_seconds"] is None
    assert move["load"] == {
        when: {"source": None, "target": None} for when in ("before", "after")
    }


def test_platform_without_record_has_no_history(
    opendrs: RunOpendrs, words: Words
) -> None:
    assert opendrs(*words("history")).out == "lab: no cycles\n"
    assert opendrs(*words("explain")).status == 2
    assert opendrs(*words("store", "backup")).status == 2


def test_invalid_age_is_an_error(opendrs: RunOpendrs, words: Words) -> None:
    assert opendrs(*words("history", "--since", "2 parsecs")).status == 2
    assert opendrs(*words("history", "--since", "9999999 d")).status == 2


AT_PLAN = f"{NOON:%Y-%m-%dT%H:%M:30}"


@pytest.mark.parametrize(
    ("subject", "code", "words_of_answer"),
    [
        ([], "improves-balance", "planned"),
        (["run one"], "improves-balance", "planned"),
        (["vm1"], "planned", "from a to b"),
        (["vm4"], "pinned", "vm4 is skipped"),
        (["a"], "node", "3 guests, 2 leave, 1 arrive"),
    ],
)
def test_recorded_decision_is_explained(
    ask: Ask, subject: list[str], code: str, words_of_answer: str
) -> None:
    found = ask("explain", *subject, "--at", AT_PLAN)

    assert found["code"] == code
    assert words_of_answer in found["answer"]


def test_plan_is_explained_by_its_id(ask: Ask, path: Path) -> None:
    with SqliteStore(path) as store:
        DatabasePlanStore(store).add(open_plan())

    found = ask("explain", "k7w2x")

    assert (found["run"], found["code"]) == ("run one", "improves-balance")
    assert found["open_plans"] == []


@pytest.mark.parametrize(
    ("subject", "chosen"),
    [([], ["1", "2"]), (["vm1"], ["1"]), (["b"], ["1", "2"]), (["c"], ["2"])],
)
def test_open_plan_of_an_earlier_cycle_is_named(
    ask: Ask, path: Path, subject: list[str], chosen: list[str]
) -> None:
    plan = open_plan(
        step("1", migration("vm1", "a", "b")), step("2", migration("vm2", "b", "c"))
    )
    with SqliteStore(path) as store:
        DatabasePlanStore(store).add(plan)
        record(store, "run three", 2, THREE_NODES)

    found = ask("explain", *subject)

    assert found["run"] == "run three"
    assert found["open_plans"] == [
        {"id": "k7w2x", "state": "proposed", "policy": "balance", "steps": chosen}
    ]
    assert ask("explain", "vm1", "--at", AT_PLAN)["open_plans"] == []


def test_guest_of_an_open_plan_is_in_it_after_later_cycles(
    ask: Ask, path: Path
) -> None:
    plan = open_plan(step("1", migration("vm1", "a", "b")), run="run three")
    with SqliteStore(path) as store:
        DatabasePlanStore(store).add(plan)
        record(store, "run three", 2, THREE_NODES)

    found = ask("explain", "vm1")

    assert found["code"] == "in-plan"
    assert "k7w2x" in found["answer"]
    assert ask("explain", "vm1", "--at", AT_PLAN)["code"] == "planned"
    assert ask("explain", "vm2")["code"] != "in-plan"


def test_plan_of_the_history_has_its_id(
    opendrs: RunOpendrs, words: Words, ask: Ask, path: Path
) -> None:
    with SqliteStore(path) as store:
        DatabasePlanStore(store).add(open_plan())

    (plan,) = ask("history", "--plans")

    assert [each["id"] for each in plan["plans"]] == ["k7w2x"]
    assert "plan k7w2x: proposed\n" in opendrs(*words("history", "--plans")).out


def test_step_is_explained(ask: Ask, steps: list[str]) -> None:
    found = ask("explain", steps[0], "--at", AT_PLAN)

    assert (found["subject"], found["code"]) == (steps[0], "improves-balance")


def test_steps_of_a_decision_are_listed(ask: Ask, steps: list[str]) -> None:
    details = ask("explain", "--at", AT_PLAN)["details"]

    listed = [line for line in details if line.startswith("step ")]
    assert len(listed) == len(steps)
    assert f"step {steps[0]}: live-migration of vm1 from a to b" in listed


def test_rules_of_guest_are_listed(ask: Ask) -> None:
    details = ask("explain", "vm1", "--at", AT_PLAN)["details"]

    assert "rule: affinity of vm1, vm2" in details


def test_newest_cycle_is_explained_by_default(ask: Ask) -> None:
    found = ask("explain")

    assert (found["run"], found["code"]) == ("run two", "balanced")
    assert found["answer"].startswith("nothing is planned: balanced: ")


def test_guest_that_could_move_is_not_chosen(ask: Ask) -> None:
    found = ask("explain", "vm1")

    assert found["code"] == "not-chosen"
    assert "could move to 1 node, but nothing is planned: balanced" in found["answer"]


def test_full_node_elsewhere_leaves_no_feasible_node(ask: Ask, path: Path) -> None:
    full = cluster({"a": 0.9, "b": 0.99}, {"vm1": ("a", 0.3), "vm2": ("b", 0.5)})
    with SqliteStore(path) as store:
        record(store, "run three", 2, full)

    found = ask("explain", "vm1")

    assert found["code"] == "no-feasible-node"
    assert "feasible nodes: 0 of 1 others" in found["details"]


def test_unknown_subject_is_an_error(
    opendrs: RunOpendrs, words: Words, steps: list[str]
) -> None:
    assert steps
    assert opendrs(*words("explain", "vm99")).status == 2


def test_guest_of_reduced_cycle_is_an_error(
    opendrs: RunOpendrs, words: Words, path: Path, steps: list[str]
) -> None:
    assert steps
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE cycles SET inputs = 'dropped'")

    assert opendrs(*words("explain", "vm1")).status == 2
    assert opendrs(*words("explain")).status == 0


def backup(words: Words, *options: str) -> list[str]:
    """Return the words of `store backup`, whose platform is not the first word."""
    command, platform, *rest = words("store", *options)
    return [command, "backup", platform, *rest]


def test_backup_beside_writer_has_what_was_committed(
    opendrs: RunOpendrs, words: Words, path: Path, steps: list[str]
) -> None:
    assert steps
    target = path.with_name("copy.sqlite")
    with SqliteStore(path) as store:
        record(store, "run three", 2, AFTER)

        result = opendrs(*backup(words, str(target)))

        record(store, "run four", 3, AFTER)
    assert (result.status, result.err) == (0, "")
    assert target.stat().st_mode & 0o777 == 0o600
    assert {each.name for each in path.parent.glob("*copy*")} == {"copy.sqlite"}
    with SqliteStore(target, Access.READ) as store:
        assert [each.run for each in store.cycles()] == [
            "run one", "run two", "run three",
        ]  # fmt: skip
        assert len(store.records_of("run one")) == len(steps)


def test_backup_overwrites_nothing(
    opendrs: RunOpendrs, words: Words, path: Path, steps: list[str]
) -> None:
    assert steps
    target = path.with_name("copy.sqlite")
    target.write_text("mine")

    assert opendrs(*backup(words, str(target))).status == 2
    assert target.read_text() == "mine"
    assert opendrs(*backup(words, str(path.parent / "none" / "x"))).status == 3


def test_backup_of_postgresql_names_pg_dump(
    opendrs: RunOpendrs, words: Words, path: Path
) -> None:
    arguments = backup(words, str(path.with_name("copy")))
    config = path.with_name("opendrs.toml")
    text = config.read_text().replace(f'path = "{path}"', 'url = "postgresql:///db"')
    config.write_text(text)

    result = opendrs(*arguments)

    assert result.status == 2
    assert "pg_dump" in result.err


def test_commands_of_the_howto_succeed(
    opendrs: RunOpendrs, words: Words, path: Path
) -> None:
    words("history")
    nodes, guests = {"pve1": 0.9, "pve2": 0.1}, {"vm7": ("pve1", 0.3)}
    with SqliteStore(path) as store:
        store.save("platform", {"name": "lab"})
        record(store, "run one", 0, cluster(nodes, guests))
    config = str(path.with_name("opendrs.toml"))

    def run(text: str) -> None:
        inside = text.replace("/backup", str(path.parent))
        result = opendrs(*shlex.split(inside)[1:], "--config", config)
        assert (result.status, result.err) == (0, ""), text

    page = HowToPage("history.md")
    page.run({"opendrs": run})
    (settings,) = page.blocks("toml")
    assert tomllib.loads(settings)["store"]["input_cycles"] == 1440
