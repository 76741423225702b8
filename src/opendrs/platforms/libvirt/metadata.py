"""Tags and placement rules from the metadata of domains.

A domain has one element `guest` of the namespace `urn:opendrs`, with these attributes:

- `affinity="web"` places all guests with this word on one node, `anti-affinity="web"`
  on different nodes; several words are separated by commas or spaces.
- `soft-affinity` and `soft-anti-affinity` are preferences.
- `nodes="h1,@ssd"` places a guest on these nodes, or nodes with these labels.
- `pin="true"` keeps a guest on its node.
- `priority="high"` is its priority: low, normal, high or a number.
- `tags="db,prod"` are its tags.

A guest whose metadata is invalid stays where it is, with the error as its reason: its
owner has stated something that is not understood. The valid attributes apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from opendrs.model import GuestId, Node, NodeId, Rule, format_list
from opendrs.rules import (
    EXPECTED_PRIORITY,
    GROUP_RULES,
    keyed_group_rules,
    keyed_node_rules,
    keyed_priorities,
    parse_priority,
    pin_rules,
    words_of,
)

NAMESPACE = "urn:opendrs"
PREFIX = "opendrs."  # of the attributes in messages and origins, as on other platforms
_GUEST = f"{{{NAMESPACE}}}guest"
_NODES, _PIN, _PRIORITY, _TAGS = "nodes", "pin", "priority", "tags"
_ATTRIBUTES = (*GROUP_RULES, _NODES, _PIN, _PRIORITY, _TAGS)
_PIN_VALUES = ("true", "false")


@dataclass(frozen=True, slots=True)
class GuestMetadata:
    """Metadata of one domain.

    Attributes:
        values: The attributes of the element `guest`.
        problems: The errors in the metadata.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def tags(self) -> frozenset[str]:
        """Return the tags of the guest."""
        return frozenset(self.words(_TAGS))

    @property
    def is_pinned(self) -> bool:
        """Return True if the guest stays on its node."""
        return self.values.get(_PIN) == "true"

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words of the attribute *name*; none without it."""
        return words_of(self.values.get(name, ""))


def read_metadata(domain: Element, nodes: Mapping[NodeId, Node]) -> GuestMetadata:
    """Return the metadata in the domain XML of a guest.

    Args:
        domain: The domain XML.
        nodes: The nodes of the cluster, which the metadata may name.
    """
    elements = [
        element
        for element in domain.iterfind("metadata/*")
        if element.tag.startswith(f"{{{NAMESPACE}}}")
    ]
    values = {
        name: value
        for element in elements
        if element.tag == _GUEST
        for name, value in element.attrib.items()
    }
    return GuestMetadata(values, tuple(_problems(elements, values, nodes)))


def metadata_rules(
    guests: Iterable[tuple[GuestId, GuestMetadata]], nodes: Mapping[NodeId, Node]
) -> tuple[Rule, ...]:
    """Return the rules that the metadata of *guests* states, each with its origin."""
    rows = tuple(guests)
    origin = "metadata "
    return (
        *keyed_group_rules(
            ((guest, "", _keys(metadata)) for guest, metadata in rows), PREFIX, origin
        ),
        *keyed_node_rules(
            ((guest, metadata.words(_NODES)) for guest, metadata in rows),
            ((node.id, node.labels) for node in nodes.values()),
            f"{origin}{PREFIX}{_NODES}",
        ),
        *pin_rules(
            (guest for guest, metadata in rows if metadata.is_pinned),
            f"{origin}{PREFIX}{_PIN}",
        ),
        *keyed_priorities(
            ((guest, metadata.values.get(_PRIORITY, "")) for guest, metadata in rows),
            f"{origin}{PREFIX}{_PRIORITY}",
        ),
    )


def _keys(metadata: GuestMetadata) -> dict[str, str]:
    return {f"{PREFIX}{name}": value for name, value in metadata.values.items()}


def _problems(
    elements: Iterable[Element],
    values: Mapping[str, str],
    nodes: Mapping[NodeId, Node],
) -> Iterator[str]:
    for element in elements:
        name = element.tag.partition("}")[2]
        if element.tag != _GUEST:
            yield f"metadata {NAMESPACE}: expected the element guest, got {name}"
        elif len(element):
            child = element[0].tag.rpartition("}")[2]
            yield (
                f"metadata {NAMESPACE}: expected attributes of guest, got the "
                f"element {child}"
            )
    for name, value in values.items():
        if problem := _value_problem(name, value, nodes):
            yield f"metadata {PREFIX}{name}: {problem}"


def _value_problem(name: str, value: str, nodes: Mapping[NodeId, Node]) -> str | None:
    if name not in _ATTRIBUTES:
        return f"unknown; expected {', '.join(_ATTRIBUTES)}"
    if name == _PIN:
        known = value in _PIN_VALUES
        return None if known else f"expected true or false, got {value!r}"
    words = words_of(value)
    if not words:
        return "expected a word, got none"
    if name == _PRIORITY:
        known = parse_priority(value.strip()) is not None
        return None if known else f"expected {EXPECTED_PRIORITY}, got {value!r}"
    if name == _NODES:
        labels = {f"@{label}" for node in nodes.values() for label in node.labels}
        unknown = [each for each in words if each not in nodes and each not in labels]
        if unknown:
            return f"expected nodes or @LABEL, got {format_list(unknown)}"
    return None
