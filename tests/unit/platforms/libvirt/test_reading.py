"""From recorded answers to nodes and guests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.errors import UnexpectedResponseError
from opendrs.model import (
    Guest,
    GuestKind,
    GuestState,
    Mobility,
    Node,
    NodeState,
    Resources,
    Usage,
)
from opendrs.platforms.libvirt.answers import DomainAnswer, HostAnswer
from opendrs.platforms.libvirt.places import places
from opendrs.platforms.libvirt.reading import guest_of, identity, node_of
from unit.platforms.libvirt.recorded import (
    CAPABILITIES,
    NODE,
    RUNNING,
    SECOND,
    SHARING,
    STATS,
    XML,
    arriving,
    domain,
    host,
    sample,
    shut_off,
)

KIB = 1024


def guest(
    told: DomainAnswer, answer: HostAnswer | None = None, node: Node | None = None
) -> Guest:
    place = places({NODE: [told]})[0]
    answer = answer or host(sample(0.0, [told]), sample(1.0, [told]))
    return guest_of(place, answer, node or node_of(NODE, answer, ()), ("/srv",))


def test_reads_what_a_host_has_and_uses() -> None:
    first, second = sample(0.0, busy=10, idle=90), sample(1.0, busy=14, idle=102)

    node = node_of(NODE, host(first, second), ("ssd",))

    # By hand: 4 of 16 seconds were busy, of two cores; memory less free,
    # buffers and cache.
    assert node == Node(
        id=NODE,
        capacity=Resources(2, 2097152 * KIB),
        usage=Usage(0.5, (2097152 - 1964548 - 200 - 308) * KIB),
        state=NodeState.ONLINE,
        architecture="x86_64",
        cpu_model="kvm64",
        labels=frozenset({"ssd"}),
        ksm_shared=0,
    )


def test_a_host_that_does_not_answer_is_unknown_and_not_empty() -> None:
    node = node_of(NODE, None, ("ssd",))

    assert node.state is NodeState.UNKNOWN
    assert node.capacity is None
    assert node.usage == Usage()
    assert node.labels == {"ssd"}


def test_what_a_host_does_not_say_is_unknown() -> None:
    answer = replace(host(), memory={}, sharing={}, capabilities="<capabilities/>")

    node = node_of(NODE, answer, ())

    assert node.state is NodeState.ONLINE
    assert (node.capacity, node.usage) == (None, Usage())
    assert (node.architecture, node.cpu_model) == (None, None)
    assert node.ksm_shared is None


def test_what_merging_pages_saves_is_counted_in_the_smallest_pages() -> None:
    # 1000 pages of 4 KiB, and not of the 2 MiB that there are as well.
    merged = replace(host(), sharing={**SHARING, "shm_pages_sharing": 1000})
    unsized = replace(merged, capabilities="<capabilities/>")

    assert node_of(NODE, merged, ()).ksm_shared == 1000 * 4 * KIB
    assert node_of(NODE, unsized, ()).ksm_shared is None


def test_waiting_for_a_disk_is_not_being_busy() -> None:
    first = replace(sample(0.0), cpu={"user": 0, "idle": 0, "iowait": 0})
    second = replace(
        sample(1.0), cpu={"user": SECOND, "idle": SECOND, "iowait": 2 * SECOND}
    )

    assert node_of(NODE, host(first, second), ()).usage.cpu == pytest.approx(0.5)


def test_answers_that_are_not_xml_are_an_error_of_the_host() -> None:
    with pytest.raises(UnexpectedResponseError, match="h1 is not XML"):
        node_of(NODE, replace(host(), capabilities="<oops"), ())


def test_one_host_is_known_by_its_name_and_its_uuid() -> None:
    other = replace(host(), capabilities=CAPABILITIES.replace("ab0f", "ffff"))

    assert identity(host()) == identity(host())
    assert identity(host()) != identity(other)
    assert identity(host()) != identity(replace(host(), hostname="lab-h2"))


def test_reads_what_a_guest_may_use_and_uses() -> None:
    before, after = domain(cpu__time=3 * SECOND), domain(cpu__time=4 * SECOND)

    seen = guest(after, host(sample(10.0, [before]), sample(12.0, [after])))

    assert seen == Guest(
        id=seen.id,
        node=NODE,
        kind=GuestKind.VM,
        state=GuestState.RUNNING,
        limit=Resources(1, 16384 * KIB),
        usage=Usage(0.5, 50144 * KIB),
        moves=Mobility.LIVE,
    )


def test_a_guest_that_was_not_there_at_both_readings_was_not_measured() -> None:
    new = guest(RUNNING, host(sample(0.0), sample(1.0, [RUNNING])))
    restarted = guest(
        domain(cpu__time=1),
        host(sample(0.0, [RUNNING]), sample(1.0, [domain(cpu__time=1)])),
    )

    assert new.usage.cpu is None
    assert restarted.usage.cpu is None


def test_without_the_resident_size_the_balloon_tells_the_memory() -> None:
    stats = {key: value for key, value in STATS.items() if key != "balloon.rss"}

    assert guest(replace(RUNNING, stats=stats)).usage.memory == 16384 * KIB


def test_a_guest_that_is_shut_off_uses_nothing_that_was_measured() -> None:
    seen = guest(shut_off())

    assert seen.state is GuestState.STOPPED
    assert seen.limit == Resources(1, 16384 * KIB)
    assert seen.usage == Usage()


def test_a_quota_limits_the_processor() -> None:
    quota = "<cputune><period>100000</period><quota>25000</quota></cputune></domain>"
    told = replace(domain(vcpu__current=4), xml=XML.replace("</domain>", quota))
    free = replace(told, xml=told.xml.replace("25000", "-1"))

    assert guest(told).limit == Resources(1.0, 16384 * KIB)
    assert guest(free).limit == Resources(4.0, 16384 * KIB)


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        (0, GuestState.UNKNOWN),
        (2, GuestState.RUNNING),
        (3, GuestState.PAUSED),
        (4, GuestState.UNKNOWN),
        (6, GuestState.UNKNOWN),
        (7, GuestState.PAUSED),
    ],
)
def test_names_the_state_of_a_guest_that_has_a_process(
    state: int, seen: GuestState
) -> None:
    assert guest(domain(state__state=state, state__reason=1)).state is seen


def test_a_guest_that_arrives_from_nowhere_may_run_elsewhere() -> None:
    seen = guest(arriving())

    assert seen.state is GuestState.UNKNOWN
    assert seen.moves is Mobility.NEVER


def test_a_guest_with_its_nodes_processor_needs_the_same_elsewhere() -> None:
    told = replace(RUNNING, xml=XML.replace("mode='custom'", "mode='host-passthrough'"))

    assert guest(told).cpu_model == "kvm64"
    assert guest(told).moves is Mobility.LIVE


def test_a_guest_with_a_processor_nobody_knows_stays_where_it_is() -> None:
    told = replace(RUNNING, xml=XML.replace("mode='custom'", "mode='host-passthrough'"))

    seen = guest(told, node=Node(id=NODE))

    assert seen.moves is Mobility.NEVER
    assert seen.obstacle == "it needs the processor of its node, which is not known"


def test_gives_all_reasons_why_a_guest_cannot_move() -> None:
    devices = "<hostdev type='usb'/><filesystem/></devices>"
    told = replace(RUNNING, xml=XML.replace("</devices>", devices))

    seen = guest(told)

    assert seen.moves is Mobility.NEVER
    assert seen.obstacle == (
        "a usb device of its node is passed through; "
        "it shares the directory with its node"
    )


def test_reads_tags_from_the_metadata() -> None:
    metadata = "<metadata><o:tags xmlns:o='urn:opendrs'>db, prod</o:tags></metadata>"
    told = replace(RUNNING, xml=XML.replace("<devices>", f"{metadata}<devices>"))

    assert guest(told).tags == {"db", "prod"}


def test_a_container_is_a_container() -> None:
    seen = guest(replace(RUNNING, xml=XML.replace("type='qemu'", "type='lxc'")))

    assert seen.kind is GuestKind.CONTAINER
    assert seen.moves is Mobility.NEVER


def test_counters_that_have_gone_astray_are_unknown() -> None:
    # The node has 2 cores and 2 GiB. A container without a limit has 2^53 - 4 KiB.
    before = domain(cpu__time=0)
    after = domain(
        cpu__time=59 * SECOND,
        balloon__maximum=9007199254740988,
        balloon__rss=2**53,
    )
    answer = host(sample(0.0, [before]), sample(1.0, [after]))
    answer = replace(
        answer,
        memory={"total": 2**60, "free": 0},
        sharing={**SHARING, "shm_pages_sharing": 2**60},
    )

    astray = node_of(NODE, answer, ())
    seen = guest(after, answer, node_of(NODE, host(), ()))

    assert (astray.capacity, astray.usage.memory) == (None, None)
    assert astray.ksm_shared is None
    assert (seen.limit, seen.usage) == (None, Usage())
