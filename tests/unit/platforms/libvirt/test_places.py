"""Which domains are one guest, and where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import NodeId
from opendrs.platforms.libvirt.answers import DomainAnswer, Paused
from opendrs.platforms.libvirt.places import Place, places, settled
from unit.platforms.libvirt.recorded import RUNNING, arriving, domain, shut_off

PAUSED = domain(state__state=3, state__reason=1)
LEFT = domain(state__state=3, state__reason=Paused.MIGRATION)
POSTCOPY = domain(state__state=3, state__reason=Paused.POSTCOPY)


def on(
    **nodes: DomainAnswer | list[DomainAnswer],
) -> Mapping[NodeId, list[DomainAnswer]]:
    return {
        NodeId(node): told if isinstance(told, list) else [told]
        for node, told in nodes.items()
    }


def only(found: Iterable[Place]) -> Place:
    (place,) = found
    return place


def test_a_guest_on_one_host_is_there() -> None:
    place = only(places(on(h1=RUNNING, h2=[])))

    assert (place.id, place.node, place.migrating_to) == ("vm1", "h1", None)
    assert place.executes
    assert place.trouble is None


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(RUNNING, arriving(), id="copying"),
        pytest.param(LEFT, arriving(), id="handing over"),
        pytest.param(LEFT, RUNNING, id="handed over"),
        pytest.param(POSTCOPY, RUNNING, id="post-copy"),
        pytest.param(PAUSED, arriving(), id="paused by its operator"),
    ],
)
@pytest.mark.parametrize(("first", "second"), [("h1", "h2"), ("h2", "h1")])
def test_a_guest_that_moves_is_one_guest(
    source: DomainAnswer, target: DomainAnswer, first: str, second: str
) -> None:
    place = only(places(on(**{first: source, second: target})))

    assert (place.node, place.migrating_to) == (first, second)
    assert place.trouble is None


@pytest.mark.parametrize("other", [RUNNING, PAUSED])
def test_a_guest_that_is_twice_is_shown_twice_and_left_alone(
    other: DomainAnswer,
) -> None:
    found = places(on(h1=RUNNING, h2=other))

    assert [place.id for place in found] == ["vm1@h1", "vm1@h2"]
    assert {place.trouble for place in found} == {
        "one guest seems to run on h1, h2 at once: stop all but one"
    }


def test_a_definition_left_behind_is_not_a_second_guest() -> None:
    place = only(places(on(h1=shut_off(), h2=RUNNING)))

    assert (place.node, place.trouble) == ("h2", None)


def test_a_guest_defined_everywhere_and_running_nowhere_is_one_guest() -> None:
    place = only(places(on(h2=shut_off(), h1=shut_off())))

    assert (place.node, place.executes) == ("h1", False)


def test_different_guests_of_one_name_are_told_apart() -> None:
    other = replace(RUNNING, uuid="u2")

    found = places(on(h1=RUNNING, h2=other, h3=replace(other, uuid="u3", name="x")))

    assert [place.id for place in found] == ["vm1@h1", "vm1@h2", "x"]
    assert [place.trouble for place in found] == [
        "another guest of the same name is on h2",
        "another guest of the same name is on h1",
        None,
    ]


def test_a_guest_that_arrives_from_nowhere_is_left_alone() -> None:
    place = only(places(on(h2=arriving())))

    assert place.trouble == "it is arriving from a host that does not answer"
    assert not place.executes


def test_hosts_read_one_after_the_other_may_both_have_had_it_running() -> None:
    assert not settled(on(h1=RUNNING, h2=RUNNING))
    assert settled(on(h1=RUNNING, h2=arriving()))


DOMAINS = st.builds(
    lambda told, uuid, name: replace(told, uuid=uuid, name=name),
    st.sampled_from([RUNNING, PAUSED, LEFT, POSTCOPY, arriving(), shut_off()]),
    st.sampled_from(["u1", "u2", "u3"]),
    st.sampled_from(["a", "b"]),
)
HOSTS = st.dictionaries(
    st.sampled_from([NodeId("h1"), NodeId("h2"), NodeId("h3")]),
    st.lists(DOMAINS, max_size=3, unique_by=(lambda d: d.uuid, lambda d: d.name)),
)


@given(HOSTS)
def test_no_guest_that_has_a_process_is_hidden(
    told: Mapping[NodeId, list[DomainAnswer]],
) -> None:
    there = {
        (answer.uuid, node)
        for node, answers in told.items()
        for answer in answers
        if answer.active
    }
    shown = {
        (place.domain.uuid, node)
        for place in places(told)
        for node in (place.node, place.migrating_to)
    }

    assert there <= shown


@given(HOSTS)
def test_no_two_guests_have_one_name(
    told: Mapping[NodeId, list[DomainAnswer]],
) -> None:
    names = [place.id for place in places(told)]

    assert len(names) == len(set(names))


@given(HOSTS)
def test_the_order_of_hosts_does_not_matter(
    told: Mapping[NodeId, list[DomainAnswer]],
) -> None:
    assert places(told) == places(dict(reversed(list(told.items()))))
