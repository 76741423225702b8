"""A drill in one file: read strictly, held, and judged by what it expects."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import InvalidFileError
from opendrs.ha import events
from opendrs.sim.drill.form import DrillFile, drill_from, read_drill
from opendrs.sim.drill.form.happenings import VERBS
from opendrs.sim.drill.form.judgements import OF_ALL, OF_GUESTS, OF_NODES
from opendrs.sim.drill.form.wire import FIELDS

REFERENCE = Path(__file__).parents[5] / "docs/reference/drill-file.md"
GUIDE = Path(__file__).parents[5] / "docs/how-to/drill.md"
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


def event(what: str, at: int = 100) -> str:
    return f"[[events]]\nat = {at}\n{what}\n"


def expect(*what: str) -> str:
    return "\n".join(["[[expect]]", *what, ""])


def disappointments(text: str) -> list[str]:
    held = drill(text)
    return [
        line.removeprefix("drill.toml: ") for line in held.disappointments(held.hold())
    ]


def complaints(text: str) -> list[str]:
    with pytest.raises(InvalidFileError) as caught:
        drill(text)
    return [line.removeprefix("drill.toml: ") for line in caught.value.complaints]


LOST = event('power = { node = "node3", state = "off" }')


def test_what_ran_in_the_snapshot_runs_from_the_start() -> None:
    held = drill("").hold()

    assert not any(isinstance(e.event, events.Starting) for e in held.entries)
    assert held.failure is None


def test_an_event_happens_at_its_time_be_it_between_two_passes() -> None:
    log = drill(event('crash = { guest = "vm:2" }', at=133)).hold().log()

    assert "info    133      cmdlist: execute service vm:2 crash\n" in log
    assert "info    140    node2/lrm: service status vm:2 started\n" in log


def test_a_drill_ends_five_hundred_seconds_after_its_last_event_or_later() -> None:
    text = CLUSTER.replace("[snapshot.nodes]", "until = 2000\n[snapshot.nodes]")
    longer = drill_from(tomllib.loads(text + LOST), "drill.toml", Path())

    assert drill(LOST).hold().entries[-1].time == 600
    assert longer.hold().entries[-1].time == 2000


@pytest.mark.parametrize(
    ("what", "words"),
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
def test_every_event_is_told_in_the_words_of_proxmox_ve(what: str, words: str) -> None:
    held = drill(event(what)).hold()

    told = [e.words for e in held.entries if e.source == "cmdlist" and e.time == 100]
    assert told == [f"execute {words}"]
    assert held.failure is None


def test_one_event_may_happen_to_several() -> None:
    log = drill(event('network = { node = ["node2", "node3"], state = "off" }')).hold()

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
def test_what_is_expected_rightly_comes_true(expectation: list[str]) -> None:
    assert disappointments(LOST + expect(*expectation)) == []


@pytest.mark.parametrize(
    ("expectation", "found"),
    [
        (['guest = "web"', 'runs_on = "node3"'], "web: expected to run on node3"),
        (["at = 100", 'guest = "web"', "running = true"], "web: expected to run, does"),
        (['guest = "vm:1"', "running = false"], "vm:1: expected not to run, runs on"),
        (['guest = "vm:1"', 'state = "error"'], "vm:1: expected to be error, is star"),
        (['guest = "web"', "down_at_most = 9"], "web: expected to be down for at most"),
        (['guest = "vm:1"', "down_at_least = 9"], "vm:1: expected to be down for at l"),
        (['guest = "vm:1"', "moved = true"], "vm:1: expected to move, and did not"),
        (['guest = "web"', "moved = false"], "web: expected not to move, did to node1"),
        (['guest = "vm:1"', "started = true"], "vm:1: expected to be started, and"),
        (["moved = false"], "expected none to move, did web to node1"),
        (["at = 200", "moved = true"], "expected some to move, none did by 200 s"),
        (["started = false"], "expected none to be started, was web at"),
        (["fenced = false"], "expected none to be fenced, was node3 at"),
        (['node = "node1"', "fenced = true"], "node1: expected to be fenced, and was"),
        (['node = "node1"', 'state = "fence"'], "node1: expected to be fence, is onli"),
        (['apart = ["vm:1", "web"]'], "expected apart, but vm:1 runs on node1, web"),
        (['together = ["vm:1", "vm:2"]'], "expected together, but vm:1 runs on node1"),
        (['log = "Eureka"'], "expected in the log, and not there: Eureka"),
        (['no_log = "FENCE: Try"'], "expected not to be in the log: emai"),
    ],
)
def test_what_is_expected_wrongly_is_told_with_what_came_instead(
    expectation: list[str], found: str
) -> None:
    (told,) = disappointments(LOST + expect(*expectation))

    assert told.startswith(f"expect[0]: {found}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            event('powr = { node = "node3", state = "off" }'),
            "events[0].powr: no such f",
        ),
        (event('power = { node = "nod3", state = "off" }'), "did you mean node3?"),
        (
            event('power = { node = "node3", state = "of" }'),
            "expected 'on' or 'off', f",
        ),
        (event('crash = { guest = "wep" }'), 'no guest "wep"; did you mean web?'),
        (event("crash = { guest = [] }"), "events[0].crash.guest: expected at least 1"),
        (event("", at=-1), "events[0].at: expected 0 or more, found -1"),
        (event(""), "events[0]: expected what happens, such as power or crash"),
        (LOST + 'crash = { guest = "web" }', "expected one of crash and power, in an"),
        (event('files = { node = "node1" }'), "expected readable or consistent"),
        (event('usage = { guest = "web" }'), "events[0].usage: expected cpu or memory"),
        (
            event('add = { guest = "x", node = "node1" }'),
            'vm:NAME or ct:NAME, found "x',
        ),
        (
            event('migrate = { guest = "web", to = "x" }'),
            "migrate.to: there is no node",
        ),
        (
            event('rules = [{ kind = "pin", guests = ["x"] }]'),
            'events[0].rules[0].guests: there is no guest "x"',
        ),
        (
            event(
                'rules = [{ kind = "node-affinity", guests = ["web"], nodes = {x=1}}]'
            ),
            'events[0].rules[0].nodes: there is no node "x"',
        ),
        (event('rules = [{ kind = "friends" }]'), "events[0].rules[0].kind: expected"),
        (expect('guest = "web"', "fenced = true"), "fenced: cannot be said of a guest"),
        (expect('node = "node1"', 'log = "x"'), "log: cannot be said of a node"),
        (expect("running = true"), "running: cannot be said without a guest or a node"),
        (expect('guest = "web"', 'node = "node1"'), "a guest or a node, found both"),
        (
            expect('guest = "web"', 'state = "online"'),
            "expect[0].state: expected one of",
        ),
        (
            expect('guest = "web"', 'runs_on = "x"'),
            "expect[0].runs_on: there is no node",
        ),
        (expect("at = 3"), "expect[0]: expected one of apart, fenced, log"),
        ('[services.wep]\nstate = "stopped"', "services.wep: there is no guest"),
        ('[services.web]\nstate = "x"', "services.web.state: expected 'started'"),
        (
            '[services.web]\nfails = { node = "x" }',
            "services.web.fails.node: there is",
        ),
        ('[datacenter]\nscheduler = "x"', "datacenter.scheduler: expected 'basic'"),
        (
            "[snapshot.nodes.node9]\nstat = 1",
            "snapshot: nodes.node9.stat: no such fiel",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, complaint: str) -> None:
    assert any(complaint in told for told in complaints(text)), complaints(text)


def test_all_mistakes_are_told_at_once() -> None:
    wrong = event('power = { node = "x", state = "y" }') + "[datacenter]\nhold = -1"

    assert len(complaints(wrong)) == 3


def test_an_event_that_cannot_be_is_told_with_its_place() -> None:
    gone = event('delete = { guest = "web" }') + event('crash = { guest = "web" }')

    with pytest.raises(InvalidFileError, match=r"toml: events\[1\]: no such service"):
        drill(gone).hold()


def test_only_managed_guests_are_services_once_a_guest_says_so() -> None:
    (wrong,) = complaints(
        '[snapshot.guests.x]\nnode = "node1"\nkind = "vm"\nha_managed = true\n'
        + event('crash = { guest = "web" }')
    )

    assert wrong.startswith('events[0].crash.guest: "web" is not HA-managed; it is')


def test_a_guest_named_under_services_is_a_service() -> None:
    held = drill(
        '[snapshot.guests.x]\nnode = "node1"\nkind = "vm"\nha_managed = false\n'
        "[services.x]\nmax_restart = 3\n[services.web]\nmanaged = false\n"
    )

    assert set(held.stage.names.services) == {"x"}


def test_services_fail_as_they_are_told_to() -> None:
    crash = event('crash = { guest = "web" }') + expect('log = "unable to start"')

    assert disappointments("[services.web]\nfails = { starts = 1 }\n" + crash) == []
    assert disappointments(crash) != []


def test_a_snapshot_and_a_log_may_stand_in_files_beside(tmp_path: Path) -> None:
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

    assert (set(read.stage.snapshot.nodes), read.log) == ({"a"}, "nothing\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "format: is missing"),
        ('format = "opendrs-drill/1"', "snapshot: is missing"),
        (
            'format = "opendrs-drill/1"\nsnapshot = 3',
            "a file or a table of named value",
        ),
        ('format = "opendrs-drill/1"\nsnapshot = "x.json"', "cannot read"),
        ("format = ", "drill.toml is not TOML: "),
    ],
)
def test_a_file_that_is_no_drill_is_refused(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "drill.toml"
    file.write_text(text)

    with pytest.raises(InvalidFileError, match=complaint):
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
def test_anything_at_all_is_a_drill_or_refused(document: object) -> None:
    with pytest.raises(InvalidFileError):
        drill_from(document, "drill.toml", Path("/nowhere"))


@given(st.sampled_from(["events", "expect", "services", "datacenter", "until"]), PLAIN)
def test_anything_in_a_field_is_held_or_refused(field: str, value: object) -> None:
    document = {**tomllib.loads(CLUSTER), field: value}
    if isinstance(value, dict) and field in ("events", "expect"):
        document[field] = [value]

    try:
        read = drill_from(document, "drill.toml", Path("/nowhere"))
    except InvalidFileError:
        return

    assert read.stage.names.nodes


def test_the_drill_of_the_guide_goes_as_the_guide_says() -> None:
    text = GUIDE.read_text().split("```toml\n")[1].split("```")[0]

    held = drill_from(tomllib.loads(text), "drill.toml", Path())

    assert held.expectations
    assert held.disappointments(held.hold()) == ()


def test_the_reference_names_every_word() -> None:
    text = REFERENCE.read_text()

    words = FIELDS | VERBS | OF_GUESTS.keys() | OF_NODES.keys() | OF_ALL.keys()
    assert [word for word in sorted(words) if not re.search(rf"\b{word}\b", text)] == []
