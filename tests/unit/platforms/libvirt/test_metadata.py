"""Tags and rules from the metadata of domains."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    GuestPriority,
    Node,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
)
from opendrs.platforms.libvirt.metadata import (
    GuestMetadata,
    metadata_rules,
    read_metadata,
)
from support.builders import guest_ids
from support.libvirt_responses import with_metadata

H1, H2, H3 = NodeId("h1"), NodeId("h2"), NodeId("h3")
NODES = {
    H1: Node(id=H1, labels=frozenset({"ssd"})),
    H2: Node(id=H2, labels=frozenset({"ssd"})),
    H3: Node(id=H3),
}


def metadata(elements: str) -> GuestMetadata:
    return read_metadata(ET.fromstring(with_metadata(elements).xml), NODES)  # noqa: S314


def rules(**elements: str) -> tuple[Rule, ...]:
    """Return the rules of guests with the attributes of the element `guest`."""
    guests = {
        GuestId(name): metadata(f"<o:guest {attributes}/>")
        for name, attributes in elements.items()
    }
    return metadata_rules(guests.items(), NODES)


@pytest.mark.parametrize(
    ("name", "kind", "strict"),
    [
        ("affinity", Affinity, True),
        ("anti-affinity", AntiAffinity, True),
        ("soft-affinity", Affinity, False),
        ("soft-anti-affinity", AntiAffinity, False),
    ],
)
def test_guests_with_the_same_word_form_a_rule_that_names_its_origin(
    name: str, kind: type[Affinity | AntiAffinity], *, strict: bool
) -> None:
    found = rules(a=f"{name}='web'", b=f"{name}='db,web'", c=f"{name}='db'", d="")

    assert found == (
        kind(
            guests=guest_ids("b", "c"),
            strict=strict,
            name=f"{name} db",
            origin=f"metadata opendrs.{name}",
        ),
        kind(
            guests=guest_ids("a", "b"),
            strict=strict,
            name=f"{name} web",
            origin=f"metadata opendrs.{name}",
        ),
    )


def test_word_of_one_guest_is_no_rule() -> None:
    assert rules(a="anti-affinity='web'", b="affinity='web'") == ()


def test_nodes_are_names_and_labels() -> None:
    assert rules(a="nodes='h3 @ssd'", b="nodes='h2'") == (
        NodeAffinity(
            guests=guest_ids("a"),
            nodes={H1: 0, H2: 0, H3: 0},
            name="nodes @ssd,h3",
            origin="metadata opendrs.nodes",
        ),
        NodeAffinity(
            guests=guest_ids("b"),
            nodes={H2: 0},
            name="nodes h2",
            origin="metadata opendrs.nodes",
        ),
    )


def test_priority_is_a_rule() -> None:
    assert rules(a="priority='low'") == (
        GuestPriority(
            value=0.5,
            guests=guest_ids("a"),
            name="priority low",
            origin="metadata opendrs.priority",
        ),
    )


def test_pinned_guests_form_one_rule() -> None:
    assert rules(a="pin='true'", b="pin='false'", c="pin='true'") == (
        Pin(guests=guest_ids("a", "c"), name="pinned", origin="metadata opendrs.pin"),
    )


def test_other_metadata_is_ignored() -> None:
    found = metadata(
        "<nova:instance xmlns:nova='urn:nova' pin='1'><x/></nova:instance>"
    )

    assert found == GuestMetadata()


@pytest.mark.parametrize(
    ("elements", "problem"),
    [
        (
            "<o:guest antiaffinity='web'/>",
            (
                "metadata opendrs.antiaffinity: unknown; expected affinity, "
                "anti-affinity, soft-affinity, soft-anti-affinity, nodes, pin, "
                "priority, tags"
            ),
        ),
        (
            "<o:guest pin=''/>",
            "metadata opendrs.pin: expected true or false, got ''",
        ),
        (
            "<o:guest priority='hihg'/>",
            (
                "metadata opendrs.priority: expected low, normal, high or a number "
                "from 0.01 to 100, got 'hihg'"
            ),
        ),
        (
            "<o:guest affinity=' , '/>",
            "metadata opendrs.affinity: expected a word, got none",
        ),
        (
            "<o:guest nodes='h1,h9,@nvme'/>",
            "metadata opendrs.nodes: expected nodes or @LABEL, got h9, @nvme",
        ),
        (
            "<o:rules>opendrs.pin</o:rules>",
            "metadata urn:opendrs: expected the element guest, got rules",
        ),
        (
            "<o:guest><o:pin>true</o:pin></o:guest>",
            "metadata urn:opendrs: expected attributes of guest, got the element pin",
        ),
    ],
)
def test_invalid_metadata_is_named(elements: str, problem: str) -> None:
    assert metadata(elements).problems == (problem,)


def test_unknown_nodes_pin_the_guest_and_leave_other_rules_unchanged() -> None:
    found = rules(a="nodes='h9' anti-affinity='web'", b="anti-affinity='web'")

    assert found == (
        AntiAffinity(
            guests=guest_ids("a", "b"),
            name="anti-affinity web",
            origin="metadata opendrs.anti-affinity",
        ),
        Pin(guests=guest_ids("a"), name="nodes h9", origin="metadata opendrs.nodes"),
    )
