"""opendrs show: what there is, how loaded, and what is broken."""

import json
from pathlib import Path

import pytest

from builders import cluster, guest_ids, node
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Node,
    NodeId,
    NodeState,
    Pin,
    Pressure,
    Snapshot,
    Stall,
)
from opendrs.platforms.file import write_snapshot
from terminal import Opendrs, in_terminal

APART = AntiAffinity(guests=guest_ids("vm1", "vm2"), name="apart")
PAIR = cluster(
    nodes={"a": 0.5, "b": None},
    guests={"vm1": ("a", 0.25), "vm2": ("a", None)},
    rules=[APART, Pin(guests=guest_ids("vm1"))],
)


def shown(opendrs: Opendrs, snapshot: Snapshot, *options: str) -> str:
    write_snapshot(snapshot, Path("pair.json"))
    answer = opendrs("show", "pair.json", *options)
    assert (answer.status, answer.err) == (0, "")
    return answer.out


def line(text: str, start: str) -> list[str]:
    rows = (row.expandtabs(1) for row in text.splitlines())
    return next(row for row in rows if row.startswith(start)).split()


def test_shows_the_load_of_each_node(opendrs: Opendrs) -> None:
    text = shown(opendrs, PAIR)

    assert text.startswith("pair: 2 nodes, 2 guests, at 2026-11-21 12:00:00 UTC\n")
    assert " ".join(line(text, "a ")) == ("a online 50% 10 50% 100.0 GiB 2")


def test_what_is_unknown_is_a_question_mark(opendrs: Opendrs) -> None:
    blank = Snapshot(
        PAIR.taken_at, nodes={NodeId("a"): Node(id=NodeId("a"))}, guests={}
    )

    text = shown(opendrs, blank)

    assert line(text, "a ") == ["a", "unknown", "?", "?", "?", "?", "0"]


def test_shows_the_worst_pressure_if_any_is_known(opendrs: Opendrs) -> None:
    pressed = Pressure(cpu=Stall(0.1, 0.0), io=Stall(0.25, 0.0))
    nodes = {
        NodeId("a"): node("a", 0.5, pressure=pressed),
        NodeId("b"): node("b", 0.5, state=NodeState.MAINTENANCE),
    }

    text = shown(opendrs, Snapshot(PAIR.taken_at, nodes=nodes, guests={}))

    assert line(text, "a ")[-2:] == ["25%", "io"]
    assert line(text, "b ")[-1] == "?"


def test_lists_guests_when_they_are_few(opendrs: Opendrs) -> None:
    text = shown(opendrs, PAIR)

    assert " ".join(line(text, "vm1")) == (
        "vm1 a running 2.5 2.5 25.0 GiB 25.0 GiB live"
    )
    assert " ".join(line(text, "vm2")) == "vm2 a running ? ? ? ? live"


def test_lists_many_guests_only_when_asked(opendrs: Opendrs) -> None:
    many = cluster(
        nodes={"a": 0.5}, guests={f"vm{number}": ("a", 0.01) for number in range(30)}
    )

    assert "vm17" not in shown(opendrs, many)
    assert "vm17" in shown(opendrs, many, "--guests")


def test_names_what_is_broken_and_what_contradicts(opendrs: Opendrs) -> None:
    torn = cluster(
        nodes={"a": 0.5},
        guests={"vm1": ("a", 0.25), "vm2": ("a", 0.1)},
        rules=[APART, Affinity(guests=guest_ids("vm1", "vm2"), name="together")],
    )

    text = shown(opendrs, torn)

    assert "broken: apart: broken by vm1, vm2 on a" in text
    assert "contradiction: vm1 and vm2 must be together and apart" in text


def test_json_holds_the_snapshot_and_its_faults(opendrs: Opendrs) -> None:
    found = json.loads(shown(opendrs, PAIR, "--format", "json"))

    assert found["snapshot"]["guests"]["vm2"] == {
        "node": "a",
        "kind": "vm",
        "state": "running",
        "moves": "live",
    }
    assert found["contradictions"] == []
    assert found["violations"] == [
        {"rule": "apart", "strict": True, "guests": ["vm1", "vm2"], "nodes": ["a"]}
    ]


def test_names_do_not_command_the_terminal(opendrs: Opendrs) -> None:
    odd = cluster(nodes={"a\x1b[31m": 0.5}, guests={"[bold]vm": ("a\x1b[31m", 0.1)})

    text = shown(opendrs, odd)

    assert "\x1b" not in text
    assert "a\\u001b[31m" in text
    assert "[bold]vm" in text


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_keeps_to_the_columns_of_the_terminal(
    opendrs: Opendrs, size: tuple[int, int]
) -> None:
    del opendrs  # which enters a directory of its own

    lines = in_terminal("show", "demo", "--guests", size=size).lines

    heads = ["node", "state", "cpu", "cores", "memory", "capacity", "guests", "waiting"]
    assert heads in [line.split() for line in lines]
    assert max(map(len, lines)) <= 80
    assert any("█" in line for line in lines)


def test_of_many_nodes_the_most_loaded_are_shown(opendrs: Opendrs) -> None:
    loads = {f"n{number:02}": number / 100 for number in range(30)}
    many = cluster(nodes=loads, guests={})

    text = shown(opendrs, many)
    rows = [line.split("\t")[0] for line in text.splitlines() if "online" in line]

    assert "\n30 online; the 10 most loaded nodes; --all shows all\n" in text
    assert rows[1:] == [f"n{number}" for number in range(29, 19, -1)]
    assert shown(opendrs, many, "--all").count("\tonline\t") == 30


def test_of_many_rules_the_kinds_are_counted(opendrs: Opendrs) -> None:
    guests = {f"vm{number}": ("a", 0.01) for number in range(30)}
    rules = [Pin(guests=guest_ids(name)) for name in guests]
    many = cluster(nodes={"a": 0.5}, guests=guests, rules=rules)

    assert "\n30\tpin\tstrict\n" in shown(opendrs, many)
    assert "leave vm17 where it is" not in shown(opendrs, many)
    assert "leave vm17 where it is\tpin\tstrict" in shown(opendrs, many, "--all")


def test_of_many_broken_rules_the_first_are_shown(opendrs: Opendrs) -> None:
    crowd = [f"g{number}" for number in range(6)]
    apart = AntiAffinity(guests=guest_ids(*crowd), name="apart")
    many = cluster({"a": 0.5}, dict.fromkeys(crowd, ("a", 0.1)), [apart])

    text = shown(opendrs, many)

    assert text.count("\nbroken: apart: ") == 10
    assert text.endswith("and 5 more; --all shows all\n")
    assert shown(opendrs, many, "--all").count("\nbroken: apart: ") == 15


def test_a_long_list_of_guests_is_cut_in_text_and_whole_in_json(
    opendrs: Opendrs,
) -> None:
    crowd = [f"g{number}" for number in range(9)]
    rule = Affinity(guests=guest_ids(*crowd))
    torn = cluster(
        {"a": 0.5, "b": 0.5},
        {name: ("b" if name == "g8" else "a", 0.01) for name in crowd},
        [rule],
    )

    text = shown(opendrs, torn)
    [found] = json.loads(shown(opendrs, torn, "--format", "json"))["violations"]

    assert "broken: keep g0, g1, g2 and 6 more together: broken by g0, g1, g2 " in text
    assert found["rule"] == f"keep {', '.join(crowd)} together"
    assert found["guests"] == crowd
