"""Drill files: validation, execution and expectations."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.config import DiagnosticCode, path_text
from opendrs.errors import InvalidFileError
from opendrs.pve_ha import log_events
from opendrs.pve_ha.simulator.file_format import (
    DrillFile,
    drill_and_diagnostics,
    drill_from,
    read_drill,
)
from opendrs.pve_ha.simulator.file_format.assertions import (
    GLOBAL_ASSERTIONS,
    GUEST_ASSERTIONS,
    NODE_ASSERTIONS,
)
from opendrs.pve_ha.simulator.file_format.events import EVENT_KINDS
from opendrs.pve_ha.simulator.file_format.schema import FIELDS

REFERENCE = Path(__file__).parents[5] / "docs/reference/drill-file.md"
GUIDE = Path(__file__).parents[5] / "docs/how-to/drill.md"
FORMAT = "opendrs-drill/1"
CLUSTER = """
format = "opendrs-drill/1"
[snapshot.nodes]
node1 = {}
node2 = {}
node3 = {}
[snapshot.guests]
"vm:1" = { node = "node1", kind = "vm", state = "running" }
"vm:2" = { node = "node2", kind = "vm", state = "running" }
web = { node = "node3", kind = "container", state = "running" }
"""


def drill(text: str) -> DrillFile:
    return drill_from(tomllib.loads(CLUSTER + text), "drill.toml", Path())


def event(text: str, at: int = 100) -> str:
    return f"[[events]]\nat = {at}\n{text}\n"


def expect(*lines: str) -> str:
    return "\n".join(["[[expect]]", *lines, ""])


def failed_expectations(text: str) -> list[str]:
    result = drill(text)
    return [
        line.removeprefix("drill.toml: ")
        for line in result.failed_expectations(result.run())
    ]


def diagnostics(text: str) -> list[tuple[DiagnosticCode, str]]:
    document = tomllib.loads(CLUSTER + text)
    _, found = drill_and_diagnostics(document, "drill.toml", Path())
    return [(each.code, path_text(each.path)) for each in found]


FAILED_NODE = event('power = { node = "node3", state = "off" }')


def test_guests_running_in_snapshot_run_from_the_start() -> None:
    result = drill("").run()

    assert not any(
        isinstance(e.event, log_events.ServiceStarting) for e in result.entries
    )
    assert result.failure is None


def test_event_happens_between_two_rounds() -> None:
    log = drill(event('crash = { guest = "vm:2" }', at=133)).run().log()

    assert "info    133      cmdlist: execute service vm:2 crash\n" in log
    assert "info    140    node2/lrm: service status vm:2 started\n" in log


def test_drill_ends_after_settle_time_or_until() -> None:
    text = CLUSTER.replace("[snapshot.nodes]", "until = 2000\n[snapshot.nodes]")
    longer = drill_from(tomllib.loads(text + FAILED_NODE), "drill.toml", Path())

    assert drill(FAILED_NODE).run().entries[-1].time == 600
    assert longer.run().entries[-1].time == 2000


@pytest.mark.parametrize(
    ("event_text", "command"),
    [
        ('power = { node = "node2", state = "off" }', "power node2 off"),
        ('network = { node = "node2", state = "off" }', "network node2 off"),
        ('files = { node = "node2", readable = false }', "cfs node2 rw fail"),
        ('files = { node = "node2", consistent = true }', "cfs node2 update work"),
        ('shutdown = { node = "node2" }', "shutdown node2"),
        ('reboot = { node = "node2" }', "reboot node2"),
        (
            'maintenance = { node = "node2", state = "on" }',
            "crm node2 enable-node-maintenance",
        ),
        (
            'maintenance = { node = "node2", state = "off" }',
            "crm node2 disable-node-maintenance",
        ),
        ('restart_lrm = { node = "node2" }', "restart-lrm node2"),
        ('crm = { node = "node2", do = "stop" }', "crm node2 stop"),
        ('crm = { node = "node2", do = "start" }', "crm node2 start"),
        ('disarm = { mode = "freeze" }', "crm node1 disarm-ha freeze"),
        ("arm = {}", "crm node1 arm-ha"),
        ('skip_rounds = { process = "lrm", rounds = 2 }', "skip-round lrm 2"),
        (
            'version = { node = "node2", to = "9.0.0" }',
            "pve-manager-version node2 set 9.0.0",
        ),
        ('request = { guest = "web", state = "stopped" }', "service ct:web stopped"),
        ('migrate = { guest = "vm:1", to = "node2" }', "service vm:1 migrate node2"),
        ('relocate = { guest = "web", to = "node2" }', "service ct:web relocate node2"),
        ('stop = { guest = "vm:1", timeout = 60 }', "service vm:1 stop 60"),
        ('crash = { guest = "vm:1" }', "service vm:1 crash"),
        ('fail = { guest = "vm:1", starts = 2 }', "service vm:1 fail starts 2"),
        ('lock = { guest = "vm:1" }', "service vm:1 lock backup"),
        ('unlock = { guest = "vm:1" }', "service vm:1 unlock"),
        (
            'add = { guest = "vm:9", node = "node2" }',
            "service vm:9 add node2 started 0",
        ),
        ('delete = { guest = "vm:1" }', "service vm:1 delete"),
        (
            'limit = { guest = "vm:1", memory = 1048576 }',
            "service vm:1 set-static-stats maxmem 1",
        ),
        (
            'usage = { guest = "vm:1", cpu = 1.5 }',
            "service vm:1 set-dynamic-stats cpu 1.5",
        ),
        (
            'rules = [{ kind = "anti-affinity", guests = ["vm:1", "web"] }]',
            "rules rule-1",
        ),
    ],
)
def test_event_is_logged_as_command_of_proxmox_ve(
    event_text: str, command: str
) -> None:
    result = drill(event(event_text)).run()

    executed = [
        e.message for e in result.entries if e.source == "cmdlist" and e.time == 100
    ]
    assert executed == [f"execute {command}"]
    assert result.failure is None


def test_event_may_have_several_nodes() -> None:
    log = drill(event('network = { node = ["node2", "node3"], state = "off" }')).run()

    assert "execute network node2 off" in log.log()
    assert "execute network node3 off" in log.log()


@pytest.mark.parametrize(
    "expectation",
    [
        ['guest = "web"', 'runs_on = ["node1", "node2"]'],
        ['guest = "web"', "at = 100", "running = false"],
        ['guest = "web"', "at = 99", 'runs_on = "node3"'],
        ['guest = "web"', 'state = "started"', "moved = true", "started = true"],
        ['guest = "web"', "down_at_most = 160", "down_at_least = 120"],
        ['guest = ["vm:1", "vm:2"]', "moved = false", "down_at_most = 0"],
        ['node = "node3"', "fenced = true", 'state = "unknown"'],
        ['node = ["node1", "node2"]', "fenced = false", 'state = "online"'],
        ["at = 200", "moved = false", "fenced = false"],
        ["since = 101", "fenced = true", "moved = true", "started = true"],
        ['apart = ["vm:1", "vm:2"]', 'log = "FENCE: Try to fence node"'],
        ["since = 400", 'no_log = "FENCE"'],
    ],
)
def test_met_expectation_is_not_reported(expectation: list[str]) -> None:
    assert failed_expectations(FAILED_NODE + expect(*expectation)) == []


@pytest.mark.parametrize(
    ("expectation", "found"),
    [
        (['guest = "web"', 'runs_on = "node3"'], "web: expected to run on node3"),
        (["at = 100", 'guest = "web"', "running = true"], "web: expected to run, does"),
        (['guest = "vm:1"', "running = false"], "vm:1: expected not to run, runs on"),
        (['guest = "vm:1"', 'state = "error"'], "vm:1: expected to be error, is star"),
        (['guest = "web"', "down_at_most = 9"], "web: expected to be down for at most"),
        (['guest = "vm:1"', "down_at_least = 9"], "vm:1: expected to be down for at l"),
        (['guest = "vm:1"', "moved = true"], "vm:1: expected to move, did not"),
        (['guest = "web"', "moved = false"], "web: expected not to move, did to node1"),
        (['guest = "vm:1"', "started = true"], "vm:1: expected to be started, was"),
        (["moved = false"], "expected none to move, did web to node1"),
        (["at = 200", "moved = true"], "expected some to move, none did by 200 s"),
        (["started = false"], "expected none to be started, was web at"),
        (["fenced = false"], "expected none to be fenced, was node3 at"),
        (['node = "node1"', "fenced = true"], "node1: expected to be fenced, was n"),
        (['node = "node1"', 'state = "fence"'], "node1: expected to be fence, is onli"),
        (['apart = ["vm:1", "web"]'], "expected apart, but vm:1 runs on node1, web"),
        (['together = ["vm:1", "vm:2"]'], "expected together, but vm:1 runs on node1"),
        (['log = "Eureka"'], "expected in the log, not found: Eureka"),
        (['no_log = "FENCE: Try"'], "expected not to be in the log: emai"),
    ],
)
def test_failed_expectation_is_reported_with_actual_value(
    expectation: list[str], found: str
) -> None:
    (message,) = failed_expectations(FAILED_NODE + expect(*expectation))

    assert message.startswith(f"expect[0]: {found}")


@pytest.mark.parametrize(
    ("text", "code", "field"),
    [
        (
            event('powr = { node = "node3", state = "off" }'),
            DiagnosticCode.UNKNOWN_KEY,
            "events[0].powr",
        ),
        (
            event('power = { node = "nod3", state = "off" }'),
            DiagnosticCode.UNKNOWN_NAME,
            "events[0].power.node",
        ),
        (
            event('power = { node = "node3", state = "of" }'),
            DiagnosticCode.UNKNOWN_VALUE,
            "events[0].power.state",
        ),
        (
            event('crash = { guest = "wep" }'),
            DiagnosticCode.UNKNOWN_NAME,
            "events[0].crash.guest",
        ),
        (
            event("crash = { guest = [] }"),
            DiagnosticCode.OUT_OF_RANGE,
            "events[0].crash.guest",
        ),
        (event("", at=-1), DiagnosticCode.OUT_OF_RANGE, "events[0].at"),
        (event(""), DiagnosticCode.MISSING_KEY, "events[0]"),
        (
            FAILED_NODE + 'crash = { guest = "web" }',
            DiagnosticCode.INCONSISTENT,
            "events[0]",
        ),
        (
            event('files = { node = "node1" }'),
            DiagnosticCode.MISSING_KEY,
            "events[0].files",
        ),
        (
            event('usage = { guest = "web" }'),
            DiagnosticCode.MISSING_KEY,
            "events[0].usage",
        ),
        (
            event('add = { guest = "x", node = "node1" }'),
            DiagnosticCode.INVALID_VALUE,
            "events[0].add.guest",
        ),
        (
            event('migrate = { guest = "web", to = "x" }'),
            DiagnosticCode.UNKNOWN_NAME,
            "events[0].migrate.to",
        ),
        (
            event('rules = [{ kind = "pin", guests = ["x"] }]'),
            DiagnosticCode.UNKNOWN_NAME,
            "events[0].rules[0].guests",
        ),
        (
            event(
                'rules = [{ kind = "node-affinity", guests = ["web"], nodes = {x=1}}]'
            ),
            DiagnosticCode.UNKNOWN_NAME,
            "events[0].rules[0].nodes",
        ),
        (
            event('rules = [{ kind = "friends" }]'),
            DiagnosticCode.UNKNOWN_VALUE,
            "events[0].rules[0].kind",
        ),
        (
            expect('guest = "web"', "fenced = true"),
            DiagnosticCode.INCONSISTENT,
            "expect[0].fenced",
        ),
        (
            expect('node = "node1"', 'log = "x"'),
            DiagnosticCode.INCONSISTENT,
            "expect[0].log",
        ),
        (expect("running = true"), DiagnosticCode.INCONSISTENT, "expect[0].running"),
        (
            expect('guest = "web"', 'node = "node1"'),
            DiagnosticCode.INCONSISTENT,
            "expect[0]",
        ),
        (
            expect('guest = "web"', 'state = "online"'),
            DiagnosticCode.UNKNOWN_VALUE,
            "expect[0].state",
        ),
        (
            expect('guest = "web"', 'runs_on = "x"'),
            DiagnosticCode.UNKNOWN_NAME,
            "expect[0].runs_on",
        ),
        (expect("at = 3"), DiagnosticCode.MISSING_KEY, "expect[0]"),
        (
            '[services.wep]\nstate = "stopped"',
            DiagnosticCode.UNKNOWN_NAME,
            "services.wep",
        ),
        (
            '[services.web]\nstate = "x"',
            DiagnosticCode.UNKNOWN_VALUE,
            "services.web.state",
        ),
        (
            '[services.web]\nfails = { node = "x" }',
            DiagnosticCode.UNKNOWN_NAME,
            "services.web.fails.node",
        ),
        (
            '[datacenter]\nscheduler = "x"',
            DiagnosticCode.UNKNOWN_VALUE,
            "datacenter.scheduler",
        ),
        (
            "[snapshot.nodes.node9]\nstat = 1",
            DiagnosticCode.UNKNOWN_KEY,
            "snapshot.nodes.node9.stat",
        ),
    ],
)
def test_invalid_drill_file_is_reported_with_location(
    text: str, code: DiagnosticCode, field: str
) -> None:
    assert (code, field) in diagnostics(text)


def test_message_has_file_field_and_suggestion() -> None:
    with pytest.raises(InvalidFileError) as caught:
        drill(event('crash = { guest = "wep" }'))

    (line,) = caught.value.messages
    assert line.startswith("drill.toml: events[0].crash.guest: ")
    assert line.endswith('"wep"; did you mean web?')


def test_all_errors_are_reported() -> None:
    wrong = event('power = { node = "x", state = "y" }') + "[datacenter]\nhold = -1"

    assert len(diagnostics(wrong)) == 3


def test_impossible_event_is_reported_with_location() -> None:
    gone = event('delete = { guest = "web" }') + event('crash = { guest = "web" }')

    with pytest.raises(InvalidFileError, match=r"toml: events\[1\]: no such service"):
        drill(gone).run()


def test_only_managed_guests_are_services_if_management_is_known() -> None:
    assert diagnostics(
        '[snapshot.guests.x]\nnode = "node1"\nkind = "vm"\nha_managed = true\n'
        + event('crash = { guest = "web" }')
    ) == [(DiagnosticCode.INCONSISTENT, "events[0].crash.guest")]


def test_guest_listed_under_services_is_a_service() -> None:
    result = drill(
        '[snapshot.guests.x]\nnode = "node1"\nkind = "vm"\nha_managed = false\n'
        "[services.x]\nmax_restart = 3\n[services.web]\nmanaged = false\n"
    )

    assert set(result.setup.names.services) == {"x"}


def test_services_fail_as_configured() -> None:
    crash = event('crash = { guest = "web" }') + expect('log = "unable to start"')

    assert failed_expectations("[services.web]\nfails = { starts = 1 }\n" + crash) == []
    assert failed_expectations(crash) != []


def test_snapshot_and_log_may_be_separate_files(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(
        'format = "opendrs-snapshot/1"\ntaken_at = "2026-11-21T12:00:00Z"\n'
        '[nodes.a]\n[guests.b]\nnode = "a"\nkind = "vm"\n'
    )
    (tmp_path / "log.expect").write_text("nothing\n")
    file = tmp_path / "drill.toml"
    file.write_text(
        'format = "opendrs-drill/1"\nsnapshot = "cluster.toml"\nlog = "log.expect"\n'
    )

    read = read_drill(file)

    assert (set(read.setup.snapshot.nodes), read.log) == ({"a"}, "nothing\n")


@pytest.mark.parametrize(
    ("document", "code", "field"),
    [
        (
            {"snapshot": {"nodes": {}, "guests": {}}},
            DiagnosticCode.MISSING_KEY,
            "format",
        ),
        ({"format": FORMAT}, DiagnosticCode.MISSING_KEY, "snapshot"),
        ({"format": FORMAT, "snapshot": 3}, DiagnosticCode.WRONG_TYPE, "snapshot"),
        (
            {"format": FORMAT, "snapshot": "x.json"},
            DiagnosticCode.UNUSABLE_FILE,
            "snapshot",
        ),
        (
            {**tomllib.loads(CLUSTER), "log": "x.expect"},
            DiagnosticCode.UNUSABLE_FILE,
            "log",
        ),
    ],
)
def test_incomplete_drill_is_rejected(
    document: dict[str, object], code: DiagnosticCode, field: str
) -> None:
    read, found = drill_and_diagnostics(document, "drill.toml", Path("/nowhere"))

    assert read is None
    assert [(each.code, each.path) for each in found] == [(code, (field,))]


def test_file_that_is_not_toml_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "drill.toml"
    file.write_text("format = ")

    with pytest.raises(InvalidFileError, match="TOML"):
        read_drill(file)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**30) | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(sorted(FIELDS)) | st.text(), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_arbitrary_document_is_rejected(document: object) -> None:
    with pytest.raises(InvalidFileError):
        drill_from(document, "drill.toml", Path("/nowhere"))


@given(st.sampled_from(["events", "expect", "services", "datacenter", "until"]), PLAIN)
def test_arbitrary_field_is_read_or_rejected(field: str, value: object) -> None:
    document = {**tomllib.loads(CLUSTER), field: value}
    if isinstance(value, dict) and field in ("events", "expect"):
        document[field] = [value]

    try:
        read = drill_from(document, "drill.toml", Path("/nowhere"))
    except InvalidFileError:
        return

    assert read.setup.names.nodes


def test_drill_of_the_guide_meets_its_expectations() -> None:
    text = GUIDE.read_text().split("```toml\n")[1].split("```")[0]

    result = drill_from(tomllib.loads(text), "drill.toml", Path())

    assert result.expectations
    assert result.failed_expectations(result.run()) == ()


def test_reference_contains_every_field() -> None:
    text = REFERENCE.read_text()

    words = (
        FIELDS
        | EVENT_KINDS
        | GUEST_ASSERTIONS.keys()
        | NODE_ASSERTIONS.keys()
        | GLOBAL_ASSERTIONS.keys()
    )
    assert [word for word in sorted(words) if not re.search(rf"\b{word}\b", text)] == []
