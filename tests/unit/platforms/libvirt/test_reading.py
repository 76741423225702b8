"""From recorded answers to nodes and guests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.config.network_load import with_capacity
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
from opendrs.platforms.libvirt.guest_location import locate_guests
from opendrs.platforms.libvirt.reading import (
    build_guest,
    build_node,
    describe_guest,
    host_identity,
)
from opendrs.platforms.libvirt.responses import DomainResponse, HostResponse
from support.libvirt_responses import (
    CAPABILITIES,
    NODE,
    RUNNING,
    SECOND,
    SHARING,
    STATS,
    XML,
    domain,
    host,
    incoming,
    sample,
    shut_off,
    with_metadata,
    with_network,
)

KIB = 1024


def guest(
    reported: DomainResponse,
    answer: HostResponse | None = None,
    node: Node | None = None,
) -> Guest:
    place = locate_guests({NODE: [reported]})[0]
    answer = answer or host(sample(0.0, [reported]), sample(1.0, [reported]))
    node = node or build_node(NODE, answer, ())
    return build_guest(describe_guest(place, {NODE: node}), answer, node, ("/srv",))


def test_node_has_capacity_and_usage() -> None:
    first, second = sample(0.0, busy=10, idle=90), sample(1.0, busy=14, idle=102)

    node = build_node(NODE, host(first, second), ("ssd",))

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


def test_unreachable_host_is_an_unknown_node() -> None:
    node = build_node(NODE, None, ("ssd",))

    assert node.state is NodeState.UNKNOWN
    assert node.capacity is None
    assert node.usage == Usage()
    assert node.labels == {"ssd"}


def test_missing_host_figures_are_none() -> None:
    answer = replace(host(), memory={}, page_sharing={}, capabilities="<capabilities/>")

    node = build_node(NODE, answer, ())

    assert node.state is NodeState.ONLINE
    assert (node.capacity, node.usage) == (None, Usage())
    assert (node.architecture, node.cpu_model) == (None, None)
    assert node.ksm_shared is None


def test_what_merging_pages_saves_is_counted_in_the_smallest_pages() -> None:
    # 1000 pages of 4 KiB, and not of the 2 MiB that there are as well.
    merged = replace(host(), page_sharing={**SHARING, "shm_pages_sharing": 1000})
    unsized = replace(merged, capabilities="<capabilities/>")

    assert build_node(NODE, merged, ()).ksm_shared == 1000 * 4 * KIB
    assert build_node(NODE, unsized, ()).ksm_shared is None


def test_waiting_for_a_disk_is_not_being_busy() -> None:
    first = replace(sample(0.0), cpu={"user": 0, "idle": 0, "iowait": 0})
    second = replace(
        sample(1.0), cpu={"user": SECOND, "idle": SECOND, "iowait": 2 * SECOND}
    )

    assert build_node(NODE, host(first, second), ()).usage.cpu == pytest.approx(0.5)


def test_invalid_xml_is_an_unexpected_response() -> None:
    with pytest.raises(UnexpectedResponseError, match="h1: description is not XML"):
        build_node(NODE, replace(host(), capabilities="<oops"), ())


def test_host_identity_is_name_and_uuid() -> None:
    other = replace(host(), capabilities=CAPABILITIES.replace("ab0f", "ffff"))

    assert host_identity(host()) == host_identity(host())
    assert host_identity(host()) != host_identity(other)
    assert host_identity(host()) != host_identity(replace(host(), hostname="lab-h2"))


def test_guest_has_limit_and_usage() -> None:
    before, after = domain(cpu__time=3 * SECOND), domain(cpu__time=4 * SECOND)

    seen = guest(after, host(sample(10.0, [before]), sample(12.0, [after])))

    assert seen == Guest(
        id=seen.id,
        node=NODE,
        kind=GuestKind.VM,
        state=GuestState.RUNNING,
        limit=Resources(1, 16384 * KIB),
        usage=Usage(0.5, 50144 * KIB),
        mobility=Mobility.LIVE,
    )


def test_guest_in_one_sample_has_no_cpu_usage() -> None:
    new = guest(RUNNING, host(sample(0.0), sample(1.0, [RUNNING])))
    restarted = guest(
        domain(cpu__time=1),
        host(sample(0.0, [RUNNING]), sample(1.0, [domain(cpu__time=1)])),
    )

    assert new.usage.cpu is None
    assert restarted.usage.cpu is None


def test_memory_usage_falls_back_to_the_balloon() -> None:
    stats = {key: value for key, value in STATS.items() if key != "balloon.rss"}

    assert guest(replace(RUNNING, stats=stats)).usage.memory == 16384 * KIB


def test_a_guest_that_is_shut_off_uses_nothing_that_was_measured() -> None:
    seen = guest(shut_off())

    assert seen.state is GuestState.STOPPED
    assert seen.limit == Resources(1, 16384 * KIB)
    assert seen.usage == Usage()


def test_a_quota_limits_the_processor() -> None:
    quota = "<cputune><period>100000</period><quota>25000</quota></cputune></domain>"
    reported = replace(domain(vcpu__current=4), xml=XML.replace("</domain>", quota))
    free = replace(reported, xml=reported.xml.replace("25000", "-1"))

    assert guest(reported).limit == Resources(1.0, 16384 * KIB)
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


def test_incoming_guest_has_unknown_state() -> None:
    seen = guest(incoming())

    assert seen.state is GuestState.UNKNOWN
    assert seen.mobility is Mobility.NONE


def test_host_passthrough_guest_has_the_cpu_model_of_its_node() -> None:
    reported = replace(
        RUNNING, xml=XML.replace("mode='custom'", "mode='host-passthrough'")
    )

    assert guest(reported).cpu_model == "kvm64"
    assert guest(reported).mobility is Mobility.LIVE


def test_host_passthrough_guest_without_cpu_model_is_immobile() -> None:
    reported = replace(
        RUNNING, xml=XML.replace("mode='custom'", "mode='host-passthrough'")
    )

    seen = guest(reported, node=Node(id=NODE))

    assert seen.mobility is Mobility.NONE
    assert (
        seen.mobility_detail == "it needs the CPU model of its node, which is unknown"
    )


def test_mobility_detail_names_all_blockers() -> None:
    devices = "<hostdev type='usb'/><filesystem/></devices>"
    reported = replace(RUNNING, xml=XML.replace("</devices>", devices))

    seen = guest(reported)

    assert seen.mobility is Mobility.NONE
    assert seen.mobility_detail == (
        "a usb device of its node is passed through; "
        "it shares the directory with its node"
    )


def test_tags_are_read_from_the_metadata() -> None:
    assert guest(with_metadata("<o:guest tags='db, prod'/>")).tags == {"db", "prod"}


def test_invalid_metadata_makes_the_guest_immobile() -> None:
    seen = guest(with_metadata("<o:guest pin='yes' tags='db'/>"))

    assert seen.mobility is Mobility.NONE
    assert seen.mobility_detail == (
        "metadata opendrs.pin: expected true or false, got 'yes'"
    )
    assert seen.tags == {"db"}


def test_invalid_description_makes_the_guest_immobile() -> None:
    seen = guest(replace(RUNNING, xml="<oops"))

    assert (seen.state, seen.mobility) == (GuestState.RUNNING, Mobility.NONE)
    assert "vm1: description is not XML" in (seen.mobility_detail or "")


def test_a_container_is_a_container() -> None:
    seen = guest(replace(RUNNING, xml=XML.replace("type='qemu'", "type='lxc'")))

    assert seen.kind is GuestKind.CONTAINER
    assert seen.mobility is Mobility.NONE


def test_implausible_counters_are_none() -> None:
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
        page_sharing={**SHARING, "shm_pages_sharing": 2**60},
    )

    implausible = build_node(NODE, answer, ())
    seen = guest(after, answer, build_node(NODE, host(), ()))

    assert (implausible.capacity, implausible.usage.memory) == (None, None)
    assert implausible.ksm_shared is None
    assert (seen.limit, seen.usage) == (None, Usage())


def network_load(before: DomainResponse, after: DomainResponse) -> float | None:
    answer = host(sample(0.0, [before]), sample(2.0, [after]))
    node = with_capacity({NODE: build_node(NODE, answer, ())}, 1e9)[NODE]
    return guest(after, answer, node).loads.get("network")


def test_network_load_is_the_rate_between_both_samples() -> None:
    before, after = with_network((700, 90), (5, 0)), with_network((900, 90), (5, 100))

    assert network_load(before, after) == (200 + 100) / 2
    assert network_load(with_network(), with_network()) == 0


def test_network_load_without_comparable_counters_is_unknown() -> None:
    known, reset = with_network((700, 90)), with_network((700, 0))
    arriving = replace(incoming(), stats={**incoming().stats, **known.stats})

    assert network_load(known, reset) is None
    assert network_load(known, with_network((700, 90), (5, 0))) is None
    assert network_load(known, with_network(None)) is None
    assert network_load(RUNNING, RUNNING) is None
    assert network_load(arriving, known) is None


def test_network_load_is_not_measured_without_a_capacity() -> None:
    counted = with_network((700, 90))

    assert guest(counted).loads == {}
