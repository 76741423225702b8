import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import DiagnosticCode
from opendrs.model import NodeId
from opendrs.pve_ha.config.rules import (
    Group,
    NodeAffinityRule,
    PveAffinity,
    PveRule,
    ResourceAffinityRule,
    RuleSet,
    format_groups,
    format_rules,
    read_groups,
    read_rules,
)
from opendrs.pve_ha.states import ServiceId


def section(*properties: str, header: str = "node-affinity: rule1") -> str:
    return "\n".join([header, *(f"\t{line}" for line in properties)])


NAMED = ("resources vm:1", "nodes node1")


def only(text: str) -> PveRule:
    (rule,) = read_rules(text).rules.values()
    assert rule is not None
    return rule


def test_read_rules_returns_all_properties() -> None:
    text = section("resources vm:1,ct:2; vm:3", "nodes node1:2,node2", "strict 1")

    assert only(text) == NodeAffinityRule(
        resources=frozenset(map(ServiceId, ("vm:1", "ct:2", "vm:3"))),
        nodes={NodeId("node1"): 2, NodeId("node2"): 0},
        strict=True,
    )


@pytest.mark.parametrize("line", ["disable", "disable 1", "disable 0"])
def test_rule_with_disable_property_is_disabled(line: str) -> None:
    rules = read_rules(section(*NAMED, line))

    assert rules.rules
    assert not rules.node_affinities()


def test_section_without_preceding_empty_line_is_ignored() -> None:
    text = f"{section(*NAMED)}\n{section('resources vm:9', header='x-y: other')}"

    rules = read_rules(text)

    assert list(rules.rules) == ["rule1"]
    codes = {warning.code for warning in rules.warnings}
    assert DiagnosticCode.DUPLICATE_KEY in codes


def test_comments_are_skipped_even_within_a_rule() -> None:
    assert only(section("resources vm:1", "# nothing", "nodes node1"))


def test_rule_without_nodes_has_no_effect_and_keeps_its_order() -> None:
    text = (
        f"{section('resources vm:1')}\n\n{section(*NAMED, header='node-affinity: b2')}"
    )

    rules = read_rules(text)

    assert rules.rules["rule1"] is None
    assert rules.order == {"rule1": 1, "b2": 2}


def test_later_rule_of_same_name_counts() -> None:
    text = f"{section(*NAMED)}\n\n{section('resources vm:2', 'nodes node2')}"

    rules = read_rules(text)

    assert rules.order == {"rule1": 2}
    assert rules.node_affinities()["rule1"].resources == {"vm:2"}


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("node-affinity: 1rule", DiagnosticCode.INVALID_VALUE),
        ("node-affinity: x", DiagnosticCode.INVALID_VALUE),
        ("nonsense: rule1", DiagnosticCode.UNKNOWN_VALUE),
    ],
)
def test_invalid_section_is_skipped(header: str, code: DiagnosticCode) -> None:
    text = section(*NAMED, header=header)

    rules = read_rules(text)

    assert not rules.rules
    assert [warning.code for warning in rules.warnings] == [code]


@pytest.mark.parametrize("line", ["strict yes", "nonsense 1", "nodes -node"])
def test_invalid_property_is_dropped(line: str) -> None:
    assert only(section(*NAMED, line)) == only(section(*NAMED))


names = st.text(alphabet="abc", min_size=2, max_size=3)
services = st.frozensets(
    st.integers(1, 9).map(lambda n: ServiceId(f"vm:{n}")), min_size=1
)
comments = st.none() | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda text: text == text.strip())
rules_drawn = st.builds(
    NodeAffinityRule,
    resources=services,
    nodes=st.dictionaries(names.map(NodeId), st.integers(0, 3), min_size=1),
    strict=st.none() | st.booleans(),
    disable=st.sampled_from([None, True]),
    comment=comments,
) | st.builds(
    ResourceAffinityRule,
    resources=services,
    affinity=st.sampled_from(PveAffinity),
    disable=st.sampled_from([None, True]),
    comment=comments,
)


@given(st.dictionaries(names, rules_drawn, max_size=3))
def test_read_restores_written_rules(rules: dict[str, PveRule]) -> None:
    order = {name: number for number, name in enumerate(rules, start=1)}

    again = read_rules(format_rules(RuleSet(rules, order)))

    assert again.rules == rules
    assert again.order == order


groups_drawn = st.builds(
    Group,
    nodes=st.dictionaries(names.map(NodeId), st.integers(0, 3), min_size=1),
    restricted=st.none() | st.booleans(),
    failback=st.booleans(),
    comment=comments,
)


@given(st.dictionaries(names, groups_drawn, max_size=3))
def test_read_restores_written_groups(
    groups: dict[str, Group],
) -> None:
    again = read_groups(format_groups(groups))

    assert again.groups == groups
    assert list(again.groups) == list(groups)
    assert again.warnings == ()


def test_group_without_nodes_is_ignored_with_warning() -> None:
    found = read_groups("group: g1\n\trestricted 1\n")

    assert found.groups == {}
    (warning,) = found.warnings
    assert warning.code is DiagnosticCode.MISSING_KEY
    assert str(warning) == "section at line 1: nodes is missing"
