"""opendrs apply and demo: they show the plan, do it, and say what came of it."""

import io
import json
from pathlib import Path

import pytest

from opendrs.cli import apply
from opendrs.config import write_snapshot
from opendrs.model import LiveMigration
from opendrs.policies import Balance
from opendrs.simulation import demo_cluster
from support.builders import cluster
from support.terminal import RunOpendrs, run_opendrs_in_terminal

[FIRST] = Balance(max_migrations=1).decide(demo_cluster(1), None).plan.steps
MOVE = FIRST.action
assert isinstance(MOVE, LiveMigration)
WORDS = f"1: {MOVE.guest} {MOVE.source} → {MOVE.target}"
PAIR = cluster(nodes={"a": 0.8, "b": 0.0}, guests={"vm": ("a", 0.4)})


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("command", [("apply", "demo", "--yes"), ("demo",)])
def test_apply_shows_plan_progress_and_result(
    opendrs: RunOpendrs, command: tuple[str, ...]
) -> None:
    answer = opendrs(*command, "--set", "max_migrations=1")

    output = lines(answer.out)
    assert (answer.status, answer.err) == (0, "")
    assert f"started {WORDS}" in output
    assert any(line.startswith(f"done {WORDS}, in ") for line in output)
    assert output[-1] == "Result: 1 done."
    assert any(line.startswith("balance: improves the balance") for line in output)
    assert any(line.startswith("imbalance (CV) 0.9") for line in output)


def test_demo_shows_the_cluster_first(opendrs: RunOpendrs) -> None:
    output = lines(opendrs("demo", "--set", "max_migrations=1").out)

    assert output[0].startswith("demo: 8 nodes, 60 guests")


def test_demo_shows_the_most_valuable_steps_and_ends_with_a_summary(
    opendrs: RunOpendrs,
) -> None:
    output = lines(opendrs("demo").out)

    shortened = (
        "10 of 19 steps: those that repair violated rules, then those that relieve "
        "their source node most"
    )
    assert f"{shortened}; --all shows all" in output
    assert "metric before on node after on node" in output[-8:]
    assert output[-1] == "Result: 19 done."


def test_demo_all_shows_all_steps_and_the_metrics_of_the_policy(
    opendrs: RunOpendrs,
) -> None:
    brief, output = lines(opendrs("demo").out), lines(opendrs("demo", "--all").out)

    assert not any("10 of 19 steps" in line for line in output)
    assert output.count("metric before after") == 2
    assert "metric before after" not in brief


def test_demo_summary_shows_no_steps_and_no_nodes_but_what_changed(
    opendrs: RunOpendrs,
) -> None:
    output = lines(opendrs("demo", "--summary").out)

    assert output[0].startswith("balance: improves the balance")
    assert output.count("metric before on node after on node") == 2
    assert not any(line.startswith(("step ", "node ", "left alone")) for line in output)
    assert output[-1] == "Result: 19 done."


def test_demo_draws_another_cluster_for_another_seed(opendrs: RunOpendrs) -> None:
    one = opendrs("demo", "--format", "json").out
    same = opendrs("demo", "--format", "json", "--seed", "1").out
    other = opendrs("demo", "--format", "json", "--seed", "2").out

    assert json.loads(one)["plan"] == json.loads(same)["plan"]
    assert json.loads(one)["plan"] != json.loads(other)["plan"]


def test_demo_brings_the_imbalance_down(opendrs: RunOpendrs) -> None:
    found = json.loads(opendrs("demo", "--format", "json").out)

    assert found["plan"]["before"]["imbalance"] > 0.5
    assert found["metrics"]["imbalance"] < 0.15
    assert {record["outcome"] for record in found["records"]} == {"done"}


def test_json_holds_the_records(opendrs: RunOpendrs) -> None:
    answer = opendrs(
        "apply", "demo", "--yes", "--format", "json", "--set", "max_migrations=1"
    )

    found = json.loads(answer.out)
    [record] = found["records"]
    assert list(found) == ["recovered", "plan", "records", "metrics"]
    assert record["run"].startswith("apply 2026-11-21T12:00:00")
    assert record["task"].startswith("live-migration ")
    assert record["intended_at"] == "2026-11-21T12:00:00Z"
    assert record["ended_at"] > record["intended_at"]
    assert (record["step"], record["kind"]) == ("1", "live-migration")
    place = (record["guest"], record["source"], record["target"])
    assert f"1: {place[0]} {place[1]} → {place[2]}" == WORDS
    assert (record["outcome"], record["detail"]) == ("done", "")


def test_apply_without_steps_reports_that_there_are_none(opendrs: RunOpendrs) -> None:
    answer = opendrs("apply", "demo", "--yes", "--set", "threshold=9")

    assert answer.status == 0
    assert answer.out.endswith("The plan has no steps.\n")


def test_apply_without_terminal_is_rejected(opendrs: RunOpendrs) -> None:
    answer = opendrs("apply", "demo")

    assert answer.status == 2
    assert answer.err == (
        "opendrs: apply: standard input is not a terminal, so no confirmation is "
        "possible; add --yes\n"
    )


def test_apply_with_json_requires_yes(opendrs: RunOpendrs) -> None:
    answer = opendrs("apply", "demo", "--format", "json")

    assert (answer.status, answer.out) == (2, "")
    assert "add --yes" in answer.err


@pytest.mark.parametrize(
    ("word", "status", "ending"),
    [("y\n", 0, "Result: 1 done.\n"), ("n\n", 1, "Nothing was started.\n")],
)
def test_apply_asks_before_it_starts(
    opendrs: RunOpendrs,
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    status: int,
    ending: str,
) -> None:
    monkeypatch.setattr(apply, "_require_confirmation", lambda **_: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(word))

    answer = opendrs("apply", "demo", "--set", "max_migrations=1")

    assert "Execute this plan? [y/N]" in answer.out
    assert answer.out.endswith(ending)
    assert answer.status == status


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_the_summary_is_on_the_screen_with_the_question(
    opendrs: RunOpendrs, size: tuple[int, int]
) -> None:
    del opendrs  # which enters a directory of its own
    columns, rows = size

    finished = run_opendrs_in_terminal(
        *("apply", "demo", "--policy", "optimize"),
        size=size,
        reply=("Execute this plan? [y/N]", "n\n"),
    )

    lines = finished.lines
    question = next(n for n, line in enumerate(lines) if "Execute this plan?" in line)
    height, first = 0, question
    while height + -(-max(1, len(lines[first])) // columns) <= rows:
        height += -(-max(1, len(lines[first])) // columns)
        first -= 1
    visible = lines[first + 1 : question + 1]
    starts = (
        "optimize: improves the balance",
        "plan: ",
        "highest CPU load",
        "imbalance",
    )
    for start in starts:
        assert [line for line in visible if line.startswith(start)], visible
    assert finished.status == 1


def test_the_json_of_a_plan_is_that_of_plan(opendrs: RunOpendrs) -> None:
    planned = json.loads(opendrs("plan", "demo", "--format", "json").out)
    applied = json.loads(opendrs("apply", "demo", "--yes", "--format", "json").out)

    del planned["schedule"]
    assert applied["plan"] == planned


@pytest.mark.parametrize("consent", [["--yes"], []])
def test_apply_to_a_file_is_rejected(opendrs: RunOpendrs, consent: list[str]) -> None:
    write_snapshot(PAIR, Path("pair.json"))

    answer = opendrs("apply", "pair.json", *consent)

    assert answer.status == 2
    assert answer.err == (
        "opendrs: pair.json: a snapshot file cannot be changed; use opendrs plan\n"
    )


def test_unreachable_hosts_are_a_platform_failure(
    opendrs: RunOpendrs,
) -> None:
    pytest.importorskip("libvirt")
    Path("opendrs.toml").write_text(
        '[platform.lab]\nkind = "libvirt"\ntimeout = 2\n'
        'nodes = {a = "qemu+tcp://127.0.0.1:1/system"}\n'
    )

    answer = opendrs("apply", "lab", "--yes")

    assert answer.status == 3
    assert "127.0.0.1" in answer.err or "a:" in answer.err
    assert len(answer.err.splitlines()) <= 3
