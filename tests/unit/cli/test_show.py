"""opendrs show: what there is, how loaded, and what is broken."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opendrs.config import write_snapshot
from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    Mobility,
    MutualAntiAffinity,
    Node,
    NodeId,
    NodeState,
    Pin,
    Pressure,
    Snapshot,
    Stall,
)
from support.builders import cluster, guest, guest_ids, node
from support.terminal import RunOpendrs, run_opendrs_in_terminal

APART = AntiAffinity(guests=guest_ids("vm1", "vm2"), name="apart")
PAIR = cluster(
    nodes={"a": 0.5, "b": None},
    guests={"vm1": ("a", 0.25), "vm2": ("a", None)},
    rules=[APART, Pin(guests=guest_ids("vm1"))],
)


def show(opendrs: RunOpendrs, snapshot: Snapshot, *options: str) -> str:
    write_snapshot(snapshot, Path("pair.json"))
    answer = opendrs("show", "pair.json", *options)
    assert (answer.status, answer.err) == (0, "")
    return answer.out


def line_starting(text: str, start: str) -> list[str]:
    rows = (row.expandtabs(1) for row in text.splitlines())
    return next(row for row in rows if row.startswith(start)).split()


def test_shows_the_load_of_each_node(opendrs: RunOpendrs) -> None:
    text = show(opendrs, PAIR)

    assert text.startswith("pair: 2 nodes, 2 guests, at 2026-11-21 12:00:00 UTC\n")
    assert " ".join(line_starting(text, "a ")) == ("a online 50% 10 50% 100.0 GiB 2")


def test_what_is_unknown_is_a_question_mark(opendrs: RunOpendrs) -> None:
    blank = Snapshot(
        PAIR.taken_at, nodes={NodeId("a"): Node(id=NodeId("a"))}, guests={}
    )

    text = show(opendrs, blank)

    assert line_starting(text, "a ") == ["a", "unknown", "?", "?", "?", "?", "0"]


def test_shows_the_worst_pressure_if_any_is_known(opendrs: RunOpendrs) -> None:
    pressed = Pressure(cpu=Stall(0.1, 0.0), io=Stall(0.25, 0.0))
    nodes = {
        NodeId("a"): node("a", 0.5, pressure=pressed),
        NodeId("b"): node("b", 0.5, state=NodeState.MAINTENANCE),
    }

    text = show(opendrs, Snapshot(PAIR.taken_at, nodes=nodes, guests={}))

    assert line_starting(text, "a ")[-2:] == ["25%", "io"]
    assert line_starting(text, "b ")[-1] == "?"


def test_shows_further_loads_if_any_is_known(opendrs: RunOpendrs) -> None:
    full = {"loads": {"network": 5e8}, "load_capacities": {"network": 1.25e9}}
    nodes = {
        NodeId("a"): node("a", 0.5, **full),
        NodeId("b"): node("b", 0.5, loads={"network": 2e8}),
    }
    web = guest("vm1", "a", 0.1, loads={"network": 31_250_000.0})

    text = show(
        opendrs, Snapshot(PAIR.taken_at, nodes=nodes, guests={GuestId("vm1"): web})
    )

    # 500 of 1,250 MB/s on the first node; the second one has no known capacity.
    assert line_starting(text, "a ")[-1] == "40%"
    assert line_starting(text, "b ")[-1] == "200M"
    assert line_starting(text, "vm1")[-2:] == ["31.2M", "live"]


def test_lists_guests_when_they_are_few(opendrs: RunOpendrs) -> None:
    text = show(opendrs, PAIR)

    assert " ".join(line_starting(text, "vm1")) == (
        "vm1 a running 2.50 2.5 25.0 GiB 25.0 GiB live"
    )
    assert " ".join(line_starting(text, "vm2")) == "vm2 a running ? ? ? ? live"


def test_many_guests_are_listed_on_request(opendrs: RunOpendrs) -> None:
    many = cluster(
        nodes={"a": 0.5}, guests={f"vm{number}": ("a", 0.01) for number in range(30)}
    )

    assert "vm17" not in show(opendrs, many)
    assert "vm17" in show(opendrs, many, "--guests")


def test_show_has_the_mobility_in_words(opendrs: RunOpendrs) -> None:
    found = cluster(
        nodes={"a": 0.5}, guests=dict.fromkeys(("vm1", "vm2", "vm3"), ("a", 0.1))
    )
    guests = {
        name: replace(found.guests[name], mobility=mobility)
        for name, mobility in zip(
            sorted(found.guests),
            (Mobility.NONE, Mobility.COLD, Mobility.LIVE),
            strict=True,
        )
    }

    text = show(opendrs, replace(found, guests=guests))

    for name, words in (
        ("vm1", "cannot be migrated"),
        ("vm2", "migrated only while stopped"),
        ("vm3", "live"),
    ):
        assert " ".join(line_starting(text, name)).endswith(words)


def test_show_names_violations_and_contradictions(opendrs: RunOpendrs) -> None:
    torn = cluster(
        nodes={"a": 0.5},
        guests={"vm1": ("a", 0.25), "vm2": ("a", 0.1)},
        rules=[APART, Affinity(guests=guest_ids("vm1", "vm2"), name="together")],
    )

    text = show(opendrs, torn)

    assert "violated: apart: vm1, vm2 on a" in text
    assert "contradiction: both affinity and anti-affinity between vm1 and vm2" in text


def test_show_names_both_sides_of_a_rule(opendrs: RunOpendrs) -> None:
    rule = MutualAntiAffinity(
        guests=guest_ids("vm1"), other_tags=frozenset({"test"}), name="apart"
    )
    found = cluster(nodes={"a": 0.5}, guests={"vm1": ("a", 0.25)}, rules=[rule])

    text = show(opendrs, found)

    assert "vm1 apart from tag test" in " ".join(line_starting(text, "apart"))


def test_show_json_has_snapshot_and_violations(opendrs: RunOpendrs) -> None:
    found = json.loads(show(opendrs, PAIR, "--format", "json"))

    assert found["snapshot"]["guests"]["vm2"] == {
        "node": "a",
        "kind": "vm",
        "state": "running",
        "mobility": "live",
    }
    assert found["contradictions"] == []
    assert found["violations"] == [
        {"rule": "apart", "strict": True, "guests": ["vm1", "vm2"], "nodes": ["a"]}
    ]


def test_show_escapes_names(opendrs: RunOpendrs) -> None:
    odd = cluster(nodes={"a\x1b[31m": 0.5}, guests={"[bold]vm": ("a\x1b[31m", 0.1)})

    text = show(opendrs, odd)

    assert "\x1b" not in text
    assert "a\\u001b[31m" in text
    assert "[bold]vm" in text


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_keeps_to_the_columns_of_the_terminal(
    opendrs: RunOpendrs, size: tuple[int, int]
) -> None:
    del opendrs  # which enters a directory of its own

    lines = run_opendrs_in_terminal("show", "demo", "--guests", size=size).lines

    headings = ["node", "state", "cpu", "cores", "memory", "capacity", "guests"]
    assert [*headings, "pressure"] in [line.split() for line in lines]
    assert max(map(len, lines)) <= size[0]
    assert any("█" in line for line in lines)


def test_of_many_nodes_the_most_loaded_are_shown(opendrs: RunOpendrs) -> None:
    loads = {f"n{number:02}": number / 100 for number in range(30)}
    many = cluster(nodes=loads, guests={})

    text = show(opendrs, many)
    rows = [line.split("\t")[0] for line in text.splitlines() if "online" in line]

    assert "\n30 online; the 10 most loaded nodes; --all shows all\n" in text
    assert rows[1:] == [f"n{number}" for number in range(29, 19, -1)]
    assert show(opendrs, many, "--all").count("\tonline\t") == 30


def test_of_many_rules_the_kinds_are_counted(opendrs: RunOpendrs) -> None:
    guests = {f"vm{number}": ("a", 0.01) for number in range(30)}
    rules = [Pin(guests=guest_ids(name)) for name in guests]
    many = cluster(nodes={"a": 0.5}, guests=guests, rules=rules)

    assert "\n30\tpin\tstrict\n" in show(opendrs, many)
    assert "\tpin\tstrict\tvm17" not in show(opendrs, many)
    assert "-\tpin\tstrict\tvm17" in show(opendrs, many, "--all")


def test_many_violations_are_abridged(opendrs: RunOpendrs) -> None:
    crowded_cluster = [f"g{number}" for number in range(6)]
    apart = AntiAffinity(guests=guest_ids(*crowded_cluster), name="apart")
    many = cluster({"a": 0.5}, dict.fromkeys(crowded_cluster, ("a", 0.1)), [apart])

    text = show(opendrs, many)

    assert text.count("\nviolated: apart: ") == 10
    assert text.endswith("and 5 more; --all shows all\n")
    assert show(opendrs, many, "--all").count("\nviolated: apart: ") == 15


def test_a_long_list_of_guests_is_cut_in_text_and_whole_in_json(
    opendrs: RunOpendrs,
) -> None:
    crowded_cluster = [f"g{number}" for number in range(9)]
    rule = Affinity(guests=guest_ids(*crowded_cluster))
    torn = cluster(
        {"a": 0.5, "b": 0.5},
        {name: ("b" if name == "g8" else "a", 0.01) for name in crowded_cluster},
        [rule],
    )

    text = show(opendrs, torn)
    [found] = json.loads(show(opendrs, torn, "--format", "json"))["violations"]

    assert "violated: affinity of g0, g1, g2 and 6 more: g0, g1, g2 " in text
    assert found["rule"] == f"affinity of {', '.join(crowded_cluster)}"
    assert found["guests"] == crowded_cluster
