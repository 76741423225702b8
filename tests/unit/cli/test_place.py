"""opendrs place: ranked and infeasible nodes, and errors in the options.

With its reservations, and the drained nodes that `what-if` excludes as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from opendrs.config import write_snapshot
from opendrs.controller.drained_nodes import DrainedNode
from opendrs.model import AntiAffinity, NodeId, Snapshot, TagExclusion
from opendrs.store import SqliteStore
from support.builders import NOON, cluster, guest_ids
from support.persistent_cluster import configure_persistent_platform
from support.terminal import CommandResult, RunOpendrs

WEB = AntiAffinity(guests=guest_ids("web1", "web2"))
FIXED = TagExclusion(tags=frozenset({"fixed"}), name="fixed guests stay")
SMALL = cluster(
    {"a": 0.4, "b": 0.2, "c": 0.1, "d": None},
    {"web1": ("a", 0.1), "web2": ("b", 0.1)},
    [WEB, FIXED],
)
SIZE = ("--cpu", "1", "--memory", "10 GiB")


def place(
    opendrs: RunOpendrs, *options: str, snapshot: Snapshot = SMALL
) -> CommandResult:
    write_snapshot(snapshot, Path("small.json"))
    return opendrs("place", "small.json", *options)


def test_table_ranks_nodes_and_gives_the_reason_of_others(opendrs: RunOpendrs) -> None:
    answer = place(opendrs, *SIZE)

    assert (answer.status, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "best node: c (1 core, 10.0 GiB)",
        "",
        "rank\tnode\tscore\tcpu\tmemory",
        "1\tc\t1.000\t10% → 20%\t10% → 20%",
        "2\tb\t0.940\t20% → 30%\t20% → 30%",
        "3\ta\t0.000\t40% → 50%\t40% → 50%",
        "",
        "infeasible node\treason\tdetail",
        "d\tmetrics-missing\tusage unknown",
    ]


def test_json_is_complete(opendrs: RunOpendrs) -> None:
    answer = place(
        opendrs, "--like", "web1", "--tag", "fixed", "--count", "2", "--format", "json"
    )

    document = json.loads(answer.out)
    assert answer.status == 1
    assert document["guest"] == {
        "cpu": 1.0,
        "memory": 10 * 2**30,
        "tags": ["fixed"],
        "like": "web1",
    }
    assert (document["placed"], document["nodes"]) == (1, ["c", None])
    assert [each["node"] for each in document["ranked"]] == ["c"]
    assert document["ranked"][0]["after"] == pytest.approx({"cpu": 0.2, "memory": 0.2})
    assert {each["node"]: each["reason"] for each in document["infeasible"]} == {
        "a": "rule-violated",
        "b": "rule-violated",
        "d": "metrics-missing",
    }
    assert len(document["infeasible_after"]) == 4
    assert len(document["notes"]) == 1


def test_count_shows_the_guests_of_each_node(opendrs: RunOpendrs) -> None:
    answer = place(opendrs, *SIZE, "--count", "5")

    assert answer.status == 0
    assert "5 of 5 guests fit, on 2 nodes" in answer.out
    assert "c\t3" in answer.out


def test_no_feasible_node_has_status_1(opendrs: RunOpendrs) -> None:
    answer = place(opendrs, "--cpu", "1", "--memory", "200 GiB")

    assert answer.status == 1
    assert "no feasible node" in answer.out


def test_many_infeasible_nodes_are_one_line_for_each_reason(
    opendrs: RunOpendrs,
) -> None:
    nodes: dict[str, float | None] = {f"n{number:02}": 0.9 for number in range(12)}
    snapshot = cluster({**nodes, "free": 0.1, "dark": None}, {})

    few = place(opendrs, *SIZE, snapshot=snapshot).out
    everything = place(opendrs, *SIZE, "--all", snapshot=snapshot).out

    assert "12\tinsufficient-memory\tn00, n01, n02 and 9 more" in few
    assert "n11\tinsufficient-memory" in everything


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "--cpu"),
        (("--cpu", "2"), "--memory"),
        (("--cpu", "0", "--memory", "1 GiB"), "--cpu"),
        (("--cpu", "nan", "--memory", "1 GiB"), "--cpu"),
        (("--cpu", "1", "--memory", "much"), "--memory"),
        (("--cpu", "1", "--memory", "0"), "--memory"),
        ((*SIZE, "--count", "0"), "--count"),
        ((*SIZE, "--count", "many"), "--count"),
        (("--like", "web9"), "did you mean web"),
    ],
)
def test_invalid_option_has_status_2(
    options: tuple[str, ...], text: str, opendrs: RunOpendrs
) -> None:
    answer = place(opendrs, *options)

    assert (answer.status, answer.out) == (2, "")
    assert text in answer.err


def test_guest_without_limit_needs_a_size(opendrs: RunOpendrs) -> None:
    snapshot = cluster({"a": 0.1}, {"vm1": ("a", None)})

    assert place(opendrs, "--like", "vm1", snapshot=snapshot).status == 2
    assert place(opendrs, "--like", "vm1", *SIZE, snapshot=snapshot).status == 1


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    return configure_persistent_platform(
        monkeypatch, tmp_path / "opendrs.toml", tmp_path / "record.sqlite"
    )


def reserve(
    opendrs: RunOpendrs, lab: Callable[..., list[str]], name: str, *options: str
) -> CommandResult:
    return opendrs(*lab("place"), "--cpu", "1", "--memory", "10 GiB", *options, name)


def test_reservation_counts_in_later_plans_until_it_is_released(
    opendrs: RunOpendrs, lab: Callable[..., list[str]]
) -> None:
    size = ("--cpu", "1", "--memory", "30 GiB", "--count", "2", "--format", "json")

    def placed() -> object:
        return json.loads(opendrs(*lab("place"), *size).out)["placed"]

    assert placed() == 2  # 95 GiB less 50 of each of two nodes
    first = opendrs(*lab("place"), *size, "--reserve", "db", "--for", "2 h")
    assert (first.status, json.loads(first.out)["placed"]) == (0, 2)
    assert placed() == 0
    assert opendrs(*lab("place"), "--release", "db").status == 0
    assert placed() == 2


def drain(node: str, path: Path) -> None:
    request = DrainedNode(node=NodeId(node), since=NOON, user="ann")
    with SqliteStore(path) as store:
        store.save("platform", {"name": "lab"})
        store.save(request.key, request.entry)


def test_drained_node_is_infeasible(
    opendrs: RunOpendrs, lab: Callable[..., list[str]], tmp_path: Path
) -> None:
    drain("b", tmp_path / "record.sqlite")

    answer = opendrs(*lab("place"), *SIZE, "--format", "json")

    document = json.loads(answer.out)
    assert [each["node"] for each in document["ranked"]] == ["a"]
    reasons = {each["node"]: each["reason"] for each in document["infeasible"]}
    assert reasons == {"b": "node-maintenance", "c": "node-unreachable"}


def test_no_guest_fits_on_a_drained_node(
    opendrs: RunOpendrs, lab: Callable[..., list[str]], tmp_path: Path
) -> None:
    drain("b", tmp_path / "record.sqlite")

    answer = opendrs(*lab("what-if"), "--fail", "a", "--format", "json")

    assert answer.status == 1
    assert [each["guest"] for each in json.loads(answer.out)["unplaced"]] == ["v"]


def test_name_is_reserved_once(
    opendrs: RunOpendrs, lab: Callable[..., list[str]]
) -> None:
    assert reserve(opendrs, lab, "db", "--reserve").status == 0

    again = reserve(opendrs, lab, "db", "--reserve")

    assert (again.status, again.out) == (2, "")
    assert "db" in again.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--release", "db"), "unknown reservation"),
        (("--reserve", "a/b"), "--reserve"),
        (("--reserve", "db", "--release", "db"), "--release"),
        ((*SIZE, "--for", "1 h"), "--for"),
        ((*SIZE, "--reserve", "db", "--for", "0"), "--for"),
    ],
)
def test_invalid_reservation_has_status_2(
    options: tuple[str, ...],
    text: str,
    opendrs: RunOpendrs,
    lab: Callable[..., list[str]],
) -> None:
    answer = opendrs(*lab("place"), *options)

    assert (answer.status, answer.out) == (2, "")
    assert text in answer.err


def test_file_has_no_reservations(opendrs: RunOpendrs) -> None:
    answer = place(opendrs, *SIZE, "--reserve", "db")

    assert (answer.status, answer.out) == (2, "")
    assert "--reserve" in answer.err
