"""Snapshot files are read completely, or all errors are reported."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from opendrs.config import DiagnosticCode, read_snapshot, snapshot_and_diagnostics
from opendrs.config.parsing import parse_json
from opendrs.config.snapshot_reading import recorded_snapshot_from
from opendrs.errors import InvalidFileError
from opendrs.model import (
    GIB,
    UNKNOWN_USAGE,
    Affinity,
    AntiAffinity,
    Forecast,
    GuestId,
    GuestKind,
    GuestPriority,
    GuestState,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Resources,
    Stall,
    TagExclusion,
    Usage,
)
from support.builders import guest_ids

Read = Callable[[object], str]


def document(**changes: object) -> dict[str, Any]:
    """Return the example of the format, with other values at the top."""
    return {
        "format": "opendrs-snapshot/1",
        "taken_at": "2026-11-21T00:00:00Z",
        "nodes": {
            "node1": {
                "capacity": {"cpu": 16, "memory": 64 * GIB},
                "usage": {"cpu": 3.5, "memory": 20 * GIB},
                "state": "online",
                "architecture": "x86_64",
                "labels": ["ssd"],
            },
            "node2": {},
        },
        "guests": {
            "vm:101": {
                "node": "node1",
                "kind": "vm",
                "state": "running",
                "limit": {"cpu": 4, "memory": 8 * GIB},
                "usage": {"cpu": 1.5, "memory": 4 * GIB},
                "mobility": "live",
            },
            "vm:102": {"node": "node1", "kind": "container"},
        },
        "rules": [
            {"kind": "anti-affinity", "guests": ["vm:101", "vm:102"], "strict": False},
            {"kind": "affinity", "guests": ["vm:101", "vm:102"], "name": "pair"},
            {"kind": "node-affinity", "guests": ["vm:101"], "nodes": {"node1": 2}},
            {"kind": "pin", "guests": ["vm:101"]},
            {"kind": "exclusion", "tags": ["fixed"]},
            {"kind": "priority", "value": "high", "tags": ["gold"]},
            {"kind": "priority", "value": 0.25, "guests": ["vm:101"]},
        ],
        **changes,
    }


@pytest.fixture
def read_error(tmp_path: Path) -> Read:
    """Return what is said about a document, or about the text of a file."""

    def read_content(content: object) -> str:
        path = tmp_path / "cluster.json"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text)
        with pytest.raises(InvalidFileError) as raised:
            read_snapshot(path)
        return str(raised.value).replace(str(path), "FILE")

    return read_content


def write_content(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(content))
    return path


def test_reads_the_nodes(tmp_path: Path) -> None:
    snapshot = read_snapshot(write_content(tmp_path, document()))

    node = snapshot.nodes[NodeId("node1")]
    assert snapshot.taken_at == datetime(2026, 11, 21, tzinfo=UTC)
    assert node.capacity == Resources(16, 64 * GIB)
    assert node.usage == Usage(3.5, 20 * GIB)
    assert node.state is NodeState.ONLINE
    assert node.architecture == "x86_64"
    assert node.labels == {"ssd"}


def test_reads_the_guests(tmp_path: Path) -> None:
    snapshot = read_snapshot(write_content(tmp_path, document()))

    guest = snapshot.guests[GuestId("vm:101")]
    assert (guest.node, guest.kind) == ("node1", GuestKind.VM)
    assert guest.state is GuestState.RUNNING
    assert guest.limit == Resources(4, 8 * GIB)
    assert guest.usage == Usage(1.5, 4 * GIB)
    assert guest.mobility is Mobility.LIVE


def test_reads_every_kind_of_rule(tmp_path: Path) -> None:
    snapshot = read_snapshot(write_content(tmp_path, document()))

    both, one = guest_ids("vm:101", "vm:102"), guest_ids("vm:101")
    assert snapshot.rules == (
        AntiAffinity(guests=both, strict=False),
        Affinity(guests=both, strict=True, name="pair"),
        NodeAffinity(guests=one, nodes={NodeId("node1"): 2}, strict=True),
        Pin(guests=one),
        TagExclusion(tags=frozenset({"fixed"})),
        GuestPriority(value=2.0, tags=frozenset({"gold"})),
        GuestPriority(value=0.25, guests=one),
    )


def test_what_is_absent_is_unknown(tmp_path: Path) -> None:
    snapshot = read_snapshot(write_content(tmp_path, document()))

    node, guest = snapshot.nodes[NodeId("node2")], snapshot.guests[GuestId("vm:102")]
    assert node.capacity is None
    assert node.usage == Usage(None, None)
    assert node.state is NodeState.UNKNOWN
    assert node.pressure.io == Stall(None, None)
    assert guest.state is GuestState.UNKNOWN
    assert guest.mobility is None
    assert guest.ha_managed is None


def test_reads_toml(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(
        'format = "opendrs-snapshot/1"\n'
        "taken_at = 2026-11-21T01:00:00+01:00\n"
        "[nodes.node1]\n"
        "usage.cpu = 2\n"
        "[guests]\n"
    )

    snapshot = read_snapshot(path)

    assert snapshot.taken_at == datetime(2026, 11, 21, tzinfo=UTC)
    assert snapshot.nodes[NodeId("node1")].usage == Usage(2.0, None)


@pytest.mark.parametrize("name", ["cluster", "cluster.txt"])
def test_a_file_of_another_name_may_hold_either_form(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(json.dumps(document()))
    as_json = read_snapshot(path)
    path.write_text(
        'format = "opendrs-snapshot/1"\ntaken_at = "2026-11-21T00:00:00Z"\n'
        "nodes = {}\nguests = {}\n"
    )
    as_toml = read_snapshot(path)

    assert len(as_json.nodes) == 2
    assert as_toml.nodes == {}


def node_with(**fields: object) -> dict[str, Any]:
    return document(nodes={"node1": fields, "node2": {}})


def guest_with(**fields: object) -> dict[str, Any]:
    guest = {"node": "node1", "kind": "vm", **fields}
    return document(guests={"vm:101": guest}, rules=[])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            guest_with(usage={"cpu": "a lot"}),
            'guests.vm:101.usage.cpu: expected a number, got "a lot"',
        ),
        (
            guest_with(usage={"cpu": True}),
            "guests.vm:101.usage.cpu: expected a number, got true",
        ),
        (
            guest_with(usage={"cpu": "3"}),
            'guests.vm:101.usage.cpu: expected a number, got "3"',
        ),
        (
            guest_with(usage={"cpu": -1}),
            "guests.vm:101.usage.cpu: expected 0 or more, got -1",
        ),
        (
            guest_with(usage={"cpu": float("nan")}),
            "guests.vm:101.usage.cpu: expected a finite number, got NaN",
        ),
        (
            guest_with(usage={"cpu": float("inf")}),
            "guests.vm:101.usage.cpu: expected a finite number, got Infinity",
        ),
        (
            guest_with(usage={"memory": 1.5}),
            "guests.vm:101.usage.memory: expected a whole number, got 1.5",
        ),
        (
            guest_with(usage=None),
            "guests.vm:101.usage: expected a table of named values, got null",
        ),
        (
            guest_with(state="asleep"),
            (
                "guests.vm:101.state: expected 'running', 'paused', 'stopped' or "
                "'unknown', got \"asleep\""
            ),
        ),
        (
            guest_with(ha_managed=1),
            "guests.vm:101.ha_managed: expected true or false, got 1",
        ),
        (
            guest_with(tags="web"),
            'guests.vm:101.tags: expected a list, got "web"',
        ),
        (
            guest_with(node="node3"),
            'guests.vm:101.node: unknown node "node3"; did you mean node2?',
        ),
        (
            guest_with(migrating_to="elsewhere"),
            'guests.vm:101.migrating_to: unknown node "elsewhere"',
        ),
        (
            guest_with(migrating_to="node1"),
            "guests.vm:101: migrating_to must differ from its node, got node1",
        ),
        (
            guest_with(disks=[{"storage": "a", "name": "scsi0"}] * 2),
            "guests.vm:101: disks: two have the same name: scsi0, scsi0",
        ),
        (guest_with(id="vm:102"), "guests.vm:101.id: unknown field"),
        (
            guest_with(usages={}),
            "guests.vm:101.usages: unknown field; did you mean usage?",
        ),
        (
            document(guests={"vm:101": {"kind": "vm"}}, rules=[]),
            "guests.vm:101.node: is missing",
        ),
        (
            document(guests={"a name": {"node": "node1", "kind": 7}}, rules=[]),
            "guests.\"a name\".kind: expected 'vm' or 'container', got 7",
        ),
        (
            node_with(capacity={"cpu": 0, "memory": 1}),
            "nodes.node1.capacity.cpu: expected 0.001 or more, got 0",
        ),
        (
            node_with(capacity={"cpu": 1, "memory": 10**400}),
            (
                "nodes.node1.capacity.memory: expected at most 1e+18, "
                "got 1000000000000000000000000000000000000000..."
            ),
        ),
        (
            node_with(pressure={"io": {"some": 12}}),
            "nodes.node1.pressure.io.some: expected at most 1, got 12",
        ),
        (
            document(taken_at="2026-11-21T00:00:00"),
            (
                "taken_at: expected a time with its time zone, such as "
                '2026-11-21T12:00:00Z, got "2026-11-21T00:00:00"'
            ),
        ),
        (
            document(taken_at=1764000000),
            (
                "taken_at: expected a time with its time zone, such as "
                "2026-11-21T12:00:00Z, got 1764000000"
            ),
        ),
        (
            document(format="opendrs-snapshot/9"),
            "format: expected 'opendrs-snapshot/1', got \"opendrs-snapshot/9\"",
        ),
        (
            document(rules=[{"kind": "pin", "guests": ["vm:999"]}]),
            'rules[0].guests: unknown guest "vm:999"',
        ),
        (
            document(
                rules=[
                    {"kind": "node-affinity", "guests": ["vm:101"], "nodes": {"x": 1}}
                ]
            ),
            'rules[0].nodes: unknown node "x"',
        ),
        (
            document(rules=[{"kind": "affinity", "guests": ["vm:101"]}]),
            "rules[0]: expected at least 2 guests, or tags, got 1",
        ),
        (
            document(rules=[{"kind": "anti-affinity", "other_tags": ["web"]}]),
            "rules[0]: expected guests or tags besides the other guests",
        ),
        (
            document(
                rules=[
                    {
                        "kind": "anti-affinity",
                        "tags": ["db"],
                        "other_tags": ["web"],
                        "domain": "rack",
                    }
                ]
            ),
            "rules[0]: expected no domain and no max_guests with other guests",
        ),
        (
            document(
                rules=[
                    {
                        "kind": "anti-affinity",
                        "guests": ["vm:101"],
                        "other_guests": ["vm:101"],
                    }
                ]
            ),
            "rules[0]: expected other_guests without vm:101, which guests contains",
        ),
        (
            document(
                rules=[
                    {
                        "kind": "anti-affinity",
                        "guests": ["vm:101"],
                        "other_guests": ["vm:999"],
                    }
                ]
            ),
            'rules[0].other_guests: unknown guest "vm:999"',
        ),
        (
            document(rules=[{"kind": "affinity", "guests": ["vm:101", "vm:101"]}]),
            'rules[0].guests: expected each name only once, got ["vm:101", "vm:101"]',
        ),
        (
            document(rules=[{"kind": "pin", "guests": ["vm:101"], "strict": True}]),
            "rules[0].strict: unknown field",
        ),
        (document(rules=[{"guests": ["vm:101"]}]), "rules[0].kind: is missing"),
        (
            document(rules=[{"kind": "node-affinity", "tags": ["web"]}]),
            "node-affinity rule: nodes: expected at least 1, got 0",
        ),
        (
            document(rules=[{"kind": "node-affinity", "labels": ["ssd"]}]),
            "node-affinity rule: guests: expected at least 1, got 0",
        ),
        (
            document(rules=[{"kind": "priority", "value": "urgent", "tags": ["a"]}]),
            (
                "rules[0].value: expected low, normal, high, or a number from 0.01 to "
                '100, got "urgent"'
            ),
        ),
        (
            document(rules=[{"kind": "priority", "value": 2}]),
            "priority rule: guests and tags together: expected at least 1, got 0",
        ),
        (
            document(rules=[{"kind": "friends"}]),
            (
                "rules[0].kind: expected 'node-affinity', 'affinity', 'anti-affinity', "
                "'pin', 'exclusion', 'priority', got \"friends\""
            ),
        ),
        (
            document(rules=["keep apart"]),
            'rules[0]: expected a table of named values, got "keep apart"',
        ),
        ([1, 2, 3, 4], "expected a table of named values, got a list of 4"),
    ],
)
def test_diagnostic_has_path_value_and_expectation(
    read_error: Read, content: object, message: str
) -> None:
    found = read_error(content)

    assert found == f"FILE: {message}"


@pytest.mark.parametrize("forecast", [{}, {"expected": {}}, {"upper": {}}])
def test_forecast_without_values_is_unknown(forecast: object) -> None:
    snapshot, diagnostics = snapshot_and_diagnostics(
        guest_with(forecast=forecast), "FILE"
    )

    assert not diagnostics
    assert snapshot is not None
    found = snapshot.guests[GuestId("vm:101")].forecast
    assert found == Forecast(expected=UNKNOWN_USAGE, upper=UNKNOWN_USAGE)


def test_name_that_is_not_unicode_is_an_error() -> None:
    guest = {"node": "node1", "kind": "vm", "loads": {"cpu": 1}}  # also inconsistent

    _, diagnostics = snapshot_and_diagnostics(
        document(guests={"\ud800": guest}, rules=[]), "FILE"
    )

    assert [each.message for each in diagnostics] == [
        'expected a text in Unicode, got "\\ud800"'
    ]


def test_fields_beside_a_duplicate_key_are_counted() -> None:
    fields = ", ".join(f'"f{i}": 1' for i in range(2000))
    usage = f'{{"cpu": 1, "cpu": 1, {fields}}}'
    text = json.dumps(guest_with(usage="USAGE")).replace('"USAGE"', usage)

    _, diagnostics = snapshot_and_diagnostics(parse_json(text, "FILE"), "FILE")

    assert "guests.vm:101: expected at most 1,000 fields, got more" in map(
        str, diagnostics
    )


def test_recorded_guest_may_have_any_number_of_fields() -> None:
    loads = {f"load{i}": 1.0 for i in range(2000)}

    snapshot = recorded_snapshot_from(guest_with(loads=loads), "RECORD")

    assert snapshot.guests[GuestId("vm:101")].loads == loads


def test_all_errors_are_reported_at_once(read_error: Read) -> None:
    wrong = document(
        nodes={"node1": {"usage": {"cpu": "x"}}},
        guests={"vm:101": {"node": "node9", "kind": "vm", "uptime": -1}},
        rules=[{"kind": "pin", "guests": ["vm:404"]}],
    )

    found = read_error(wrong)

    assert [line.split(": ")[1] for line in found.splitlines()] == [
        "nodes.node1.usage.cpu",
        "guests.vm:101.uptime",
        "guests.vm:101.node",
        "rules[0].guests",
    ]


def test_diagnostics_after_the_first_ten_are_counted(read_error: Read) -> None:
    guests = {f"vm:{number}": {"node": "node1"} for number in range(25)}

    found = read_error(document(guests=guests, rules=[]))

    assert len(found.splitlines()) == 11
    assert found.endswith("FILE: and 15 more")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1,\n "b": }', "FILE: not JSON: expecting value (line 2, column 7)"),
        ("", "FILE: empty file"),
        (
            "{}\n{}",
            (
                "FILE: not JSON: more than one value (a history has one snapshot per "
                "line) (line 2, column 1)"
            ),
        ),
        ("[" * 1_000_000, "FILE: nested too deeply"),
        ('{"format": ' + "9" * 5000 + "}", "FILE: number too long"),
        (b"\x89PNG\r\n", "FILE: not UTF-8: byte 0x89 at position 0"),
    ],
)
def test_invalid_json_is_one_error_line(
    read_error: Read, content: str | bytes, message: str
) -> None:
    found = read_error(content)

    assert found == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = 1\nb == 2", "not TOML: Invalid value (at line 2, column 4)"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a." * 100_000 + "a = 1", "nested too deeply"),
        ("x = {" + "a." * 2000 + "a = 1}", "nested too deeply"),
        ("x = {y = 'z', " + "a . " * 2000 + "a = 1}", "nested too deeply"),
        ('x = {y = """z"""", ' + "a." * 2000 + "a = 1}", "nested too deeply"),
        ('"=".' + "a." * 2000 + "a = 1", "nested too deeply"),
        ('"#".' + '\'a\'.a."\\"".' * 2000 + "a = 1", "nested too deeply"),
        ("x = '" + "a." * 2000, 'not TOML: Expected "\'" (at end of document)'),
        ("a = " + "9" * 5000, "number too long"),
    ],
)
def test_invalid_toml_is_one_error_line(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(content)

    with pytest.raises(InvalidFileError) as raised:
        read_snapshot(path)

    assert str(raised.value) == f"{path}: {message}"


def test_arbitrary_text_is_neither_json_nor_toml(tmp_path: Path) -> None:
    path = tmp_path / "cluster"
    path.write_text("x" * 10_000_000)

    with pytest.raises(InvalidFileError) as raised:
        read_snapshot(path)

    assert str(raised.value) == f"{path}: neither JSON nor TOML"


def test_a_number_too_long_to_be_shown_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text("format = 0x" + "f" * 10_000)

    with pytest.raises(InvalidFileError, match=r"format: .*got a huge number"):
        read_snapshot(path)


def test_duplicate_keys_are_reported() -> None:
    text = json.dumps(document()).replace('"vm:102"', '"vm:101"', 1)
    text = text.replace('"node2": {}', '"node2": {"state": "online", "state": "x"}')

    _, diagnostics = snapshot_and_diagnostics(parse_json(text, "FILE"), "FILE")

    duplicates = {
        each.path for each in diagnostics if each.code is DiagnosticCode.DUPLICATE_KEY
    }
    assert duplicates == {("guests", "vm:101"), ("nodes", "node2", "state")}


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="No such file or directory"):
        read_snapshot(tmp_path / "none.json")


def test_directory_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="Is a directory"):
        read_snapshot(tmp_path)


def test_control_characters_do_not_reach_the_terminal(read_error: Read) -> None:
    name = "\x1b[31mred\n"

    found = read_error(document(nodes={name: {"state": name}}, guests={}))

    assert "\x1b" not in found
    assert all(line.startswith("FILE: ") for line in found.splitlines())


@pytest.mark.parametrize("table", ["nodes", "guests"])
def test_empty_name_is_rejected(table: str) -> None:
    wrong = document()
    wrong[table][""] = wrong[table].popitem()[1]

    _, diagnostics = snapshot_and_diagnostics(wrong, "FILE")

    found = [(each.code, each.path) for each in diagnostics]
    assert (DiagnosticCode.OUT_OF_RANGE, (table, "")) in found


def test_diagnostic_has_the_path_of_the_rule() -> None:
    rules = [{"kind": "pin", "guests": ["vm:101"]}] * 3
    rules.append({"kind": "pin", "guests": []})

    _, diagnostics = snapshot_and_diagnostics(document(rules=rules), "FILE")

    assert [(each.code, each.path) for each in diagnostics] == [
        (DiagnosticCode.OUT_OF_RANGE, ("rules", 3, "guests"))
    ]


def test_deep_nesting_is_rejected(read_error: Read) -> None:
    deep = '{"x":' * 900 + "1" + "}" * 900
    text = json.dumps(document()).replace('"node2": {}', f'"node2": {deep}')

    assert "nodes.node2.x: " in read_error(text.encode())
