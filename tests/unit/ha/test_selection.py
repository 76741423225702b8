from collections.abc import Mapping

from opendrs.ha.documents import ServiceStatus
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.places import places_of
from opendrs.ha.rules import CompiledRules, checked, compiled, read_rules, transformed
from opendrs.ha.selection import Selector
from opendrs.ha.states import Preference, ServiceState
from opendrs.ha.usage import BasicUsage
from opendrs.model import NodeId

NODES = tuple(NodeId(name) for name in ("node1", "node2", "node3"))
VM = ServiceId("vm:111")
PREFERS_NODE1 = """
node-affinity: prefers-node1
	resources vm:111
	nodes node1
"""


def rules(text: str) -> CompiledRules:
    kept, dropped = checked(read_rules(text), len(NODES))
    assert not dropped
    return compiled(transformed(kept), NODES)


def started(node: str, **changes: object) -> ServiceStatus:
    return ServiceStatus(
        state=ServiceState.STARTED,
        node=NodeId(node),
        **changes,  # type: ignore[arg-type]
    )


def selector(
    services: Mapping[str, ServiceStatus],
    text: str = "",
    nodes: tuple[NodeId, ...] = NODES,
) -> Selector:
    named = {ServiceId(name): status for name, status in services.items()}
    usage = BasicUsage(nodes)
    for service, status in named.items():
        usage.add(service, places_of(status, dict.fromkeys(nodes)))
    return Selector(rules(text), usage, named)


def test_a_service_follows_its_preferred_node_and_goes_round_when_it_fails() -> None:
    # The calls and answers of the original's own test of failover.
    here, nodes, visited = "node1", set(NODES), []
    story = "stay next -node1 stay next next -node2 stay next +node1 stay +node2"
    for word in f"{story} stay next".split():
        if word[0] in "+-":
            change = nodes.add if word[0] == "+" else nodes.discard
            change(NodeId(word[1:]))
            continue
        preference = Preference.NONE if word == "stay" else Preference.TRY_NEXT
        # Usage is not counted there: all nodes cost the same.
        chooser = Selector(
            rules(PREFERS_NODE1),
            BasicUsage(tuple(sorted(nodes))),
            {VM: started(here)},
        )
        found = chooser.select(VM, preference, failback=True)
        assert found is not None
        here = found
        visited.append(here)

    assert visited == [
        *("node1", "node1", "node2", "node3", "node2"),
        *("node3", "node3", "node1", "node1", "node1"),
    ]


def test_without_failback_a_service_stays_where_it_may_be() -> None:
    chooser = selector({VM: started("node2")}, PREFERS_NODE1)

    assert chooser.select(VM, Preference.NONE, failback=False) == "node2"
    assert chooser.select(VM, Preference.NONE, failback=True) == "node1"


def test_a_strict_rule_leaves_no_node_when_its_nodes_are_gone() -> None:
    text = f"{PREFERS_NODE1.rstrip()}\n\tstrict\n"
    chooser = selector({VM: started("node2")}, text, nodes=NODES[1:])

    assert chooser.select(VM, Preference.BEST_SCORE, failback=True) is None


def test_a_service_is_recovered_where_the_fewest_are() -> None:
    chooser = selector(
        {"vm:1": started("node1"), "vm:2": started("node2"), "vm:3": started("gone")}
    )

    best = chooser.select(ServiceId("vm:3"), Preference.BEST_SCORE, failback=True)

    assert best == "node3"


def test_a_service_returns_to_the_node_it_left_for_a_maintenance() -> None:
    away = started("node1", maintenance_node=NodeId("node3"))
    chooser = selector({VM: away})

    assert chooser.select(VM, Preference.NONE, failback=True) == "node3"


def test_nodes_on_which_a_service_failed_are_not_tried_again() -> None:
    failed = started("node2", failed_nodes=(NodeId("node1"), NodeId("node2")))
    chooser = selector({VM: failed})

    assert chooser.select(VM, Preference.TRY_NEXT, failback=True) == "node3"


def test_a_service_goes_where_most_of_its_companions_are() -> None:
    text = (
        "resource-affinity: together\n\tresources vm:1,vm:2,vm:3,vm:111\n"
        "\taffinity positive\n"
    )
    chooser = selector(
        {
            "vm:1": started("node1"),
            "vm:2": started("node3"),
            "vm:3": started("node3"),
            VM: started("node2"),
        },
        text,
    )

    assert chooser.select(VM, Preference.NONE, failback=True) == "node3"


def test_a_service_that_moves_keeps_others_from_both_nodes() -> None:
    text = "resource-affinity: apart\n\tresources vm:1,vm:111\n\taffinity negative\n"
    moving = ServiceStatus(
        state=ServiceState.MIGRATE, node=NodeId("node1"), target=NodeId("node3")
    )
    chooser = selector({"vm:1": moving, VM: started("node1")}, text)

    assert chooser.company(VM).separate == {"node1", "node3"}
    assert chooser.select(VM, Preference.NONE, failback=True) == "node2"
