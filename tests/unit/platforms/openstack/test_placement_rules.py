"""Rules of server groups, zones, traits and metadata."""

from __future__ import annotations

from typing import Any

import pytest

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    GuestPriority,
    NodeAffinity,
    Pin,
    Rule,
)
from opendrs.platforms.openstack.placement_rules import platform_rules
from opendrs.platforms.openstack.reading import (
    CloudState,
    guest_ids,
    guests_of,
    managed_services,
    nodes_of,
)
from opendrs.platforms.openstack.responses import Server, parse_response
from support.cloud_responses import cloud, group, provider, server, service, uuid


def rules(state: CloudState) -> tuple[Rule, ...]:
    nodes = nodes_of(state, managed_services(state))
    ids = guest_ids(state.servers)
    guests = guests_of(state, ids, nodes)
    by_uuid = {u: guests[name] for u, name in ids.items() if name in guests}
    return platform_rules(state, by_uuid, nodes)


def ids(*names: str) -> frozenset[GuestId]:
    return frozenset(GuestId(f"{name}/{uuid(name)[:8]}") for name in names)


@pytest.mark.parametrize(
    ("policy", "kind", "strict"),
    [
        ("affinity", Affinity, True),
        ("anti-affinity", AntiAffinity, True),
        ("soft-affinity", Affinity, False),
        ("soft-anti-affinity", AntiAffinity, False),
    ],
)
def test_server_group_is_rule_with_origin(
    policy: str, kind: type[Affinity | AntiAffinity], *, strict: bool
) -> None:
    state = cloud(
        server("a"), server("b"), groups=(group(policy, "a", "b", "deleted"),)
    )

    assert rules(state) == (
        kind(
            guests=ids("a", "b"),
            strict=strict,
            name="web",
            origin="server group web (g1)",
        ),
    )


@pytest.mark.parametrize("policy", ["affinity", "custom-policy"])
def test_group_with_one_server_or_unknown_policy_is_no_rule(policy: str) -> None:
    members = ("a",) if policy == "affinity" else ("a", "b")

    state = cloud(server("a"), server("b"), groups=(group(policy, *members),))

    assert rules(state) == ()


def test_max_server_per_host_is_the_limit_of_one_rule() -> None:
    servers = (server("a"), server("b"), server("c", "h2"), server("d", "h2"))
    state = cloud(*servers, groups=(group("anti-affinity", *"abcd", most=2),))

    (rule,) = rules(state)

    assert isinstance(rule, AntiAffinity)
    assert (rule.guests, rule.max_guests, rule.domain) == (ids(*"abcd"), 2, "")


def zones(*servers: Server) -> CloudState:
    services = (service("h1"), service("h2"), service("h3", zone="dc2"))
    return cloud(*servers, services=services)


def test_server_with_requested_zone_stays_in_it() -> None:
    (rule,) = rules(zones(server("a", pinned_availability_zone="nova"), server("b")))

    assert isinstance(rule, NodeAffinity)
    assert rule.guests == ids("a")
    assert set(rule.nodes) == {"h1", "h2"}


def test_server_stays_in_zone_if_request_is_not_reported() -> None:
    fields: dict[str, Any] = server("a").model_dump(by_alias=True)
    del fields["pinned_availability_zone"]
    fields |= {"OS-EXT-AZ:availability_zone": "nova"}

    (rule,) = rules(zones(parse_response(Server, fields)))

    assert isinstance(rule, NodeAffinity)
    assert set(rule.nodes) == {"h1", "h2"}


def test_requested_zone_is_no_rule_if_there_is_one_zone() -> None:
    assert rules(cloud(server("a", pinned_availability_zone="nova"))) == ()


@pytest.mark.parametrize(
    ("value", "host", "allowed"),
    [
        ("required", "h1", {"h1", "h2"}),
        ("forbidden", "h3", {"h3"}),
        ("required", "h3", None),
    ],
)
def test_trait_of_flavor_restricts_nodes_unless_violated_already(
    value: str, host: str, allowed: set[str] | None
) -> None:
    gold = provider(traits=("CUSTOM_GOLD",))
    state = cloud(
        server("a", host, extra_specs={"trait:CUSTOM_GOLD": value}),
        providers={"h1-1": gold, "h2-1": gold, "h3-1": provider()},
    )

    found = [set(rule.nodes) for rule in rules(state) if isinstance(rule, NodeAffinity)]

    assert found == ([] if allowed is None else [allowed])


def test_metadata_gives_rules_within_the_project() -> None:
    word = {"opendrs.anti-affinity": "web, db"}
    web = {"opendrs.anti-affinity": "web"}
    state = cloud(
        server("a", metadata=word),
        server("b", metadata=web),
        server("c", metadata=web, tenant_id="p2"),
    )

    (rule,) = rules(state)

    assert isinstance(rule, AntiAffinity)
    assert rule.guests == ids("a", "b")
    assert rule.strict
    assert rule.origin == "metadata opendrs.anti-affinity in the project p1"


def test_extra_spec_of_flavor_is_a_priority_and_metadata_is_none() -> None:
    state = cloud(
        server("a", extra_specs={"opendrs:priority": "4"}),
        server("b", metadata={"opendrs.priority": "high"}),
    )

    (rule,) = rules(state)

    assert isinstance(rule, GuestPriority)
    assert (rule.value, rule.guests) == (4.0, ids("a"))
    assert rule.origin == "flavors with opendrs:priority"


def test_metadata_pins_server() -> None:
    state = cloud(server("a", metadata={"opendrs.pin": "true"}), server("b"))

    (rule,) = rules(state)

    assert isinstance(rule, Pin)
    assert rule.guests == ids("a")
