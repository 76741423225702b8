"""Identity and location of guests, from the domains of all hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import NodeId
from opendrs.platforms.libvirt.guest_location import (
    GuestLocation,
    is_settled,
    locate_guests,
)
from opendrs.platforms.libvirt.responses import DomainResponse, PausedReason
from support.libvirt_responses import RUNNING, domain, incoming, shut_off

PAUSED = domain(state__state=3, state__reason=1)
LEFT = domain(state__state=3, state__reason=PausedReason.MIGRATION)
POSTCOPY = domain(state__state=3, state__reason=PausedReason.POSTCOPY)


def locate(
    **nodes: DomainResponse | list[DomainResponse],
) -> Mapping[NodeId, list[DomainResponse]]:
    return {
        NodeId(node): reported if isinstance(reported, list) else [reported]
        for node, reported in nodes.items()
    }


def locate_only(found: Iterable[GuestLocation]) -> GuestLocation:
    (place,) = found
    return place


def test_a_guest_on_one_host_is_there() -> None:
    place = locate_only(locate_guests(locate(h1=RUNNING, h2=[])))

    assert (place.id, place.node, place.migrating_to) == ("vm1", "h1", None)
    assert place.is_running
    assert place.mobility_detail is None


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(RUNNING, incoming(), id="copying"),
        pytest.param(LEFT, incoming(), id="handing over"),
        pytest.param(LEFT, RUNNING, id="handed over"),
        pytest.param(POSTCOPY, RUNNING, id="post-copy"),
        pytest.param(PAUSED, incoming(), id="paused by its operator"),
    ],
)
@pytest.mark.parametrize(("first", "second"), [("h1", "h2"), ("h2", "h1")])
def test_migrating_guest_is_one_guest(
    source: DomainResponse, target: DomainResponse, first: str, second: str
) -> None:
    place = locate_only(locate_guests(locate(**{first: source, second: target})))

    assert (place.node, place.migrating_to) == (first, second)
    assert place.mobility_detail is None


@pytest.mark.parametrize("other", [RUNNING, PAUSED])
def test_guest_running_twice_is_shown_twice_and_immobile(
    other: DomainResponse,
) -> None:
    found = locate_guests(locate(h1=RUNNING, h2=other))

    assert [place.id for place in found] == ["vm1@h1", "vm1@h2"]
    assert {place.mobility_detail for place in found} == {
        "the guest seems to run on several nodes: h1, h2; stop all but one"
    }


def test_leftover_definition_is_no_second_guest() -> None:
    place = locate_only(locate_guests(locate(h1=shut_off(), h2=RUNNING)))

    assert (place.node, place.mobility_detail) == ("h2", None)


def test_a_guest_defined_everywhere_and_running_nowhere_is_one_guest() -> None:
    place = locate_only(locate_guests(locate(h2=shut_off(), h1=shut_off())))

    assert (place.node, place.is_running) == ("h1", False)


def test_namesakes_get_their_node_in_the_name() -> None:
    other = replace(RUNNING, uuid="u2")

    found = locate_guests(
        locate(h1=RUNNING, h2=other, h3=replace(other, uuid="u3", name="x"))
    )

    assert [place.id for place in found] == ["vm1@h1", "vm1@h2", "x"]
    assert [place.mobility_detail for place in found] == [
        "another guest with the same name is on h2",
        "another guest with the same name is on h1",
        None,
    ]


def test_incoming_guest_without_source_is_immobile() -> None:
    place = locate_only(locate_guests(locate(h2=incoming())))

    assert place.mobility_detail == "it is migrating from an unreachable host"
    assert not place.is_running


def test_guest_sampled_on_two_hosts_is_not_settled() -> None:
    assert not is_settled(locate(h1=RUNNING, h2=RUNNING))
    assert is_settled(locate(h1=RUNNING, h2=incoming()))


DOMAINS = st.builds(
    lambda reported, uuid, name: replace(reported, uuid=uuid, name=name),
    st.sampled_from([RUNNING, PAUSED, LEFT, POSTCOPY, incoming(), shut_off()]),
    st.sampled_from(["u1", "u2", "u3"]),
    st.sampled_from(["a", "b"]),
)
HOSTS = st.dictionaries(
    st.sampled_from([NodeId("h1"), NodeId("h2"), NodeId("h3")]),
    st.lists(DOMAINS, max_size=3, unique_by=(lambda d: d.uuid, lambda d: d.name)),
)


@given(HOSTS)
def test_no_guest_that_has_a_process_is_hidden(
    reported: Mapping[NodeId, list[DomainResponse]],
) -> None:
    there = {
        (answer.uuid, node)
        for node, answers in reported.items()
        for answer in answers
        if answer.is_active
    }
    shown = {
        (place.domain.uuid, node)
        for place in locate_guests(reported)
        for node in (place.node, place.migrating_to)
    }

    assert there <= shown


@given(HOSTS)
def test_guest_ids_are_unique(
    reported: Mapping[NodeId, list[DomainResponse]],
) -> None:
    names = [place.id for place in locate_guests(reported)]

    assert len(names) == len(set(names))


@given(HOSTS)
def test_the_order_of_hosts_does_not_matter(
    reported: Mapping[NodeId, list[DomainResponse]],
) -> None:
    assert locate_guests(reported) == locate_guests(
        dict(reversed(list(reported.items())))
    )
