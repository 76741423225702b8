"""opendrs what-if: summary, details and JSON, and errors in the options."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opendrs.config import write_snapshot
from opendrs.model import AntiAffinity, Snapshot
from support.builders import cluster, guest_ids
from support.recorded_load import recorded_snapshots, with_full_storage
from support.terminal import CommandResult, RunOpendrs, run_opendrs_in_terminal

SMALL = cluster(
    {"a": 0.5, "b": 0.2, "c": 0.1},
    {"vm1": ("a", 0.3), "vm2": ("a", 0.2), "vm3": ("b", 0.2), "vm4": ("c", 0.1)},
)
TIGHT = cluster(
    {"a": 0.6, "b": 0.6, "c": 0.6},
    {"vm1": ("a", 0.6), "vm2": ("b", 0.6), "vm3": ("c", 0.6)},
    [AntiAffinity(guests=guest_ids("vm1", "vm2"))],
)
LIMITS = '[limits]\nmemory_headroom = 0.0\ntolerated_domain = "rack"\n'


def in_racks(snapshot: Snapshot, racks: dict[str, str]) -> Snapshot:
    """Return *snapshot* with the rack of each node as a label."""
    nodes = {
        name: replace(node, labels=frozenset({f"rack={racks[name]}"}))
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


# Rack r1 has guests of 0.5 and 0.6, and r2 has 0.8 of a node free: one of them fits. Of
# r2, the guest of 0.2 fits on both nodes of r1. Any one node fits on the two others.
RACKS = in_racks(
    cluster(
        {"a": 0.5, "b": 0.6, "c": 0.2},
        {"vm1": ("a", 0.5), "vm2": ("b", 0.6), "vm3": ("c", 0.2)},
    ),
    {"a": "r1", "b": "r1", "c": "r2"},
)


def what_if(
    opendrs: RunOpendrs, *options: str, snapshot: Snapshot = SMALL
) -> CommandResult:
    write_snapshot(snapshot, Path("small.json"))
    return opendrs("what-if", "small.json", *options)


def test_without_changes_the_capacity_of_the_cluster_is_shown(
    opendrs: RunOpendrs,
) -> None:
    answer = what_if(opendrs, "--guest-cpu", "1", "--guest-memory", "10 GiB")

    assert (answer.status, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].startswith("node failures tolerated: any 2 at once")
    # 95 % of the memory less 50, 20 and 10 % are 4, 7 and 8 guests of 10 %.
    assert lines[1].startswith("additional guests that fit: 19 (1 core, 10.0 GiB")
    assert lines[2].startswith("nodes that could be drained: 2 of 3")


def test_json_is_complete(opendrs: RunOpendrs) -> None:
    answer = what_if(
        opendrs,
        *("--fail", "c", "--add", "2xb", "--add", "a", "--grow", "10%"),
        *("--policy", "balance", "--set", "threshold=0", "--format", "json"),
    )

    document = json.loads(answer.out)
    assert answer.status == 0
    assert document["scenario"] == {
        "add": [{"count": 2, "like": "b"}, {"count": 1, "like": "a"}],
        "growth": pytest.approx(0.1),
        "fail": ["c"],
        "remove": [],
    }
    assert document["fits"] is True
    assert [each["guest"] for each in document["placed"]] == ["vm4"]
    assert document["unplaced"] == document["short_of_memory"] == []
    assert document["load"]["before"]["cpu"]["node"] == "a"
    assert (
        document["load"]["after_policy"]["imbalance"]
        < (document["load"]["after"]["imbalance"])
    )
    assert document["policy"]["migrations"] > 0
    assert document["nodes"] == 5
    assert document["failures"]["tolerated"] >= 1
    assert document["additional_guests"]["count"] > 0
    assert document["dispensable_nodes"]["nodes"]


def test_plan_of_a_policy_has_its_cost_once(opendrs: RunOpendrs) -> None:
    answer = what_if(opendrs, "--policy", "optimize")

    [line] = [each for each in answer.out.splitlines() if each.startswith("then ")]
    assert line.startswith("then optimize: ")
    assert line.endswith(" GiB to transfer")
    assert (line.count("migration"), line.count("GiB")) == (1, 1)


def test_policy_without_a_plan_has_its_detail(opendrs: RunOpendrs) -> None:
    answer = what_if(opendrs, "--policy", "balance", "--set", "threshold=9")

    [line] = [each for each in answer.out.splitlines() if each.startswith("then ")]
    assert "threshold 9" in line


def test_policy_moves_disks_away_from_a_full_storage(opendrs: RunOpendrs) -> None:
    even = recorded_snapshots({"v": ("a", [0.3]), "w": ("b", [0.3])})
    (snapshot,) = with_full_storage(even)
    Path("opendrs.toml").write_text(
        '[[limits.storage_groups]]\nname = "fast"\nstorages = ["one", "two"]\n'
    )
    options = ("--policy", "balance")

    text = what_if(opendrs, *options, snapshot=snapshot).out
    answer = what_if(opendrs, *options, "--format", "json", snapshot=snapshot)

    [line] = [each for each in text.splitlines() if each.startswith("then ")]
    # 90 of 100 GiB are in use on each node, and 80 may be.
    assert "1 disk to another storage" in line
    assert "one of a, one of b: 20.0 GiB, then 10.0 GiB" in line
    assert line.endswith("; 20.0 GiB to transfer")
    policy = json.loads(answer.out)["policy"]
    assert policy["reason"] == "relieves-storage"
    assert (policy["migrations"], policy["disk_moves"]) == (0, 1)
    assert policy["gib"] == 20.0


def test_guests_that_do_not_fit_have_status_1_and_a_reason(opendrs: RunOpendrs) -> None:
    answer = what_if(opendrs, "--fail", "a", snapshot=TIGHT)

    assert answer.status == 1
    assert "not all guests fit: 1 guest without a node" in answer.out
    assert "vm1\ta\tno-feasible-node\t" in answer.out
    assert "insufficient-memory" in answer.out
    assert "node failures tolerated: 0" in answer.out


def test_intolerated_failures_name_node_and_guests(opendrs: RunOpendrs) -> None:
    answer = what_if(opendrs, snapshot=TIGHT)

    assert answer.status == 0  # nothing was changed
    assert "3 of 3 do not fit elsewhere: a, b, c" in answer.out
    assert "a\t1\t1\tvm1\t" in answer.out


def test_removed_node_and_placements_with_all(opendrs: RunOpendrs) -> None:
    answer = what_if(opendrs, "--remove", "a", "--all")

    assert answer.status == 0
    assert "all guests fit: 2 guests on other nodes" in answer.out
    assert "guest\tfrom\tto" in answer.out


def test_summary_fits_a_small_terminal(opendrs: RunOpendrs) -> None:
    del opendrs
    write_snapshot(SMALL, Path("small.json"))

    finished = run_opendrs_in_terminal("what-if", "small.json", "--fail", "a")

    assert finished.status == 0
    assert len(finished.lines) <= 24
    assert finished.lines[1] == "all guests fit: 2 guests on other nodes"


def test_failed_domain_is_all_of_its_nodes(opendrs: RunOpendrs) -> None:
    Path("lab.toml").write_text(LIMITS)
    config = ("--config", "lab.toml", "--format", "json")

    answer = what_if(opendrs, "--fail", "rack=r1", *config, snapshot=RACKS)

    document = json.loads(answer.out)
    assert answer.status == 1
    assert document["scenario"]["fail"] == ["a", "b"]
    assert [each["guest"] for each in document["unplaced"]] == ["vm1"]


def test_added_nodes_fail_with_the_domain_of_their_template(
    opendrs: RunOpendrs,
) -> None:
    answer = what_if(
        opendrs,
        *("--add", "2xa", "--fail", "rack=r1", "--format", "json"),
        snapshot=RACKS,
    )

    document = json.loads(answer.out)
    assert document["scenario"]["fail"] == ["a", "a+1", "a+2", "b"]
    assert {each["target"] for each in document["placed"]} == {"c"}


def test_intolerated_domain_is_named_with_its_guests(opendrs: RunOpendrs) -> None:
    Path("lab.toml").write_text(LIMITS)

    answer = what_if(opendrs, "--config", "lab.toml", snapshot=RACKS)
    document = json.loads(
        what_if(opendrs, "--config", "lab.toml", "--format", "json", snapshot=RACKS).out
    )

    lines = answer.out.splitlines()
    assert lines[0].startswith("node failures tolerated: any 1")
    assert (
        lines[1] == "rack failures tolerated: 0; 1 of 2 do not fit elsewhere: rack r1"
    )
    assert "rack r1\t2\t1\tvm1\t" in answer.out
    failures = document["failures"]
    assert (failures["domain"], failures["evaluated_domains"]) == ("rack", 2)
    (failure,) = failures["domains"]
    assert (failure["name"], failure["nodes"]) == ("rack r1", ["a", "b"])
    assert (failure["unplaced"], failure["is_proven"]) == (["vm1"], True)
    assert document["required_tolerance"] == {
        "tolerated_failures": 0,
        "tolerated_domain": "rack",
        "evaluated": 2,
        "is_complete": True,
        "intolerated": [{"name": "rack r1", "nodes": ["a", "b"], "unplaced": ["vm1"]}],
    }
    assert "failures that [limits] wants tolerated: 1 of 2 sets" in answer.out


def test_worst_failure_that_the_limits_want_tolerated_is_first(
    opendrs: RunOpendrs,
) -> None:
    # a, b and c have 0.5, 0.4 and 0.8 left: less than the guests of each other pair.
    limits = "[limits]\nmemory_headroom = 0.0\ntolerated_failures = 2\n"
    Path("lab.toml").write_text(limits)

    answer = what_if(
        opendrs, "--config", "lab.toml", "--format", "json", snapshot=RACKS
    )

    required = json.loads(answer.out)["required_tolerance"]
    missing = [len(each["unplaced"]) for each in required["intolerated"]]
    assert (required["tolerated_failures"], required["evaluated"]) == (2, 3)
    assert missing == sorted(missing, reverse=True)
    assert required["intolerated"]


def test_without_a_domain_in_the_limits_none_is_evaluated(opendrs: RunOpendrs) -> None:
    answer = what_if(opendrs, "--format", "json", snapshot=RACKS)

    document = json.loads(answer.out)
    failures = document["failures"]
    assert (failures["domain"], failures["evaluated_domains"]) == (None, None)
    assert failures["domains"] == []
    assert document["required_tolerance"] is None


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        ("rack=r9", 'unknown domain "rack=r9": no node has this label; did you mean'),
        ("rak=r1", "did you mean rack=r1?"),
        ("zone=x", '--fail: unknown domain "zone=x": no node has this label\n'),
        ("rack=", '--fail: unknown domain "rack="'),
    ],
)
def test_unknown_domain_has_status_2(
    domain: str, text: str, opendrs: RunOpendrs
) -> None:
    answer = what_if(opendrs, "--fail", domain, snapshot=RACKS)

    assert (answer.status, answer.out) == (2, "")
    assert text in answer.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--fail", "d"), "--fail: unknown node"),
        (("--remove", "aa"), "did you mean a"),
        (("--add", "3xd"), "--add: unknown node"),
        (("--add", "0xa"), "--add: expected 1 to"),
        (("--add", "99999xa"), "--add: expected 1 to"),
        (("--grow", "20"), "expected a percentage"),
        (("--grow", "much%"), "expected a percentage"),
        (("--grow", "-101%"), "expected a percentage"),
        (("--grow", "nan%"), "expected a percentage"),
        (("--fail", "a", "--remove", "a"), "--remove"),
        (("--policy", "none"), "none"),
        (("--set", "threshold=0"), "--policy"),
        (("--guest-cpu", "0"), "--guest-cpu"),
        (("--guest-memory", "1 apple"), "--guest-memory"),
        (("--like", "vm9"), "--like: unknown guest"),
    ],
)
def test_invalid_option_has_status_2(
    options: tuple[str, ...], text: str, opendrs: RunOpendrs
) -> None:
    answer = what_if(opendrs, *options)

    assert (answer.status, answer.out) == (2, "")
    assert text in answer.err


def test_cluster_of_guests_of_unknown_size_has_no_default_size(
    opendrs: RunOpendrs,
) -> None:
    snapshot = cluster({"a": 0.1}, {"vm1": ("a", None)})

    answer = what_if(opendrs, snapshot=snapshot)

    assert answer.status == 0
    assert "additional guests: unknown" in answer.out
    assert what_if(opendrs, "--guest-cpu", "1", snapshot=snapshot).status == 2
