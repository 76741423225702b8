from collections.abc import Mapping

from opendrs.model import NodeId
from opendrs.pve_ha.config.rules import (
    PveCompiledRules,
    add_implied_rules,
    compile_rules,
    drop_conflicting_rules,
    read_rules,
)
from opendrs.pve_ha.manager.node_selection import NodeSelector
from opendrs.pve_ha.manager.node_usage import BasicUsage, locate_service
from opendrs.pve_ha.states import NodePreference, ServiceId, ServiceState
from opendrs.pve_ha.status_files import ServiceStatus

NODES = tuple(NodeId(name) for name in ("node1", "node2", "node3"))
VM = ServiceId("vm:111")
PREFERS_NODE1 = """
node-affinity: prefers-node1
	resources vm:111
	nodes node1
"""


def rules(text: str) -> PveCompiledRules:
    kept, dropped = drop_conflicting_rules(read_rules(text), len(NODES))
    assert not dropped
    return compile_rules(add_implied_rules(kept), NODES)


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
) -> NodeSelector:
    named = {ServiceId(name): status for name, status in services.items()}
    usage = BasicUsage(nodes)
    for service, status in named.items():
        usage.add(service, locate_service(status, dict.fromkeys(nodes)))
    return NodeSelector(rules(text), usage, named)


def test_service_prefers_its_node_and_tries_the_next_after_failure() -> None:
    # Calls and results of the failover test of pve-ha-manager.
    current, nodes, visited = "node1", set(NODES), []
    calls = "stay next -node1 stay next next -node2 stay next +node1 stay +node2"
    for word in f"{calls} stay next".split():
        if word[0] in "+-":
            change = nodes.add if word[0] == "+" else nodes.discard
            change(NodeId(word[1:]))
            continue
        preference = NodePreference.NONE if word == "stay" else NodePreference.TRY_NEXT
        # That test counts no usage, so all nodes have the same cost.
        chooser = NodeSelector(
            rules(PREFERS_NODE1),
            BasicUsage(tuple(sorted(nodes))),
            {VM: started(current)},
        )
        found = chooser.select(VM, preference, failback=True)
        assert found is not None
        current = found
        visited.append(current)

    assert visited == [
        *("node1", "node1", "node2", "node3", "node2"),
        *("node3", "node3", "node1", "node1", "node1"),
    ]


def test_service_without_failback_stays_on_allowed_node() -> None:
    chooser = selector({VM: started("node2")}, PREFERS_NODE1)

    assert chooser.select(VM, NodePreference.NONE, failback=False) == "node2"
    assert chooser.select(VM, NodePreference.NONE, failback=True) == "node1"


def test_strict_rule_without_online_node_selects_none() -> None:
    text = f"{PREFERS_NODE1.rstrip()}\n\tstrict\n"
    chooser = selector({VM: started("node2")}, text, nodes=NODES[1:])

    assert chooser.select(VM, NodePreference.BEST_SCORE, failback=True) is None


def test_recovery_selects_node_with_fewest_services() -> None:
    chooser = selector(
        {"vm:1": started("node1"), "vm:2": started("node2"), "vm:3": started("gone")}
    )

    best = chooser.select(ServiceId("vm:3"), NodePreference.BEST_SCORE, failback=True)

    assert best == "node3"


def test_service_returns_to_its_maintenance_node() -> None:
    away = started("node1", maintenance_node=NodeId("node3"))
    chooser = selector({VM: away})

    assert chooser.select(VM, NodePreference.NONE, failback=True) == "node3"


def test_failed_nodes_are_not_tried_again() -> None:
    failed = started("node2", failed_nodes=(NodeId("node1"), NodeId("node2")))
    chooser = selector({VM: failed})

    assert chooser.select(VM, NodePreference.TRY_NEXT, failback=True) == "node3"


def test_service_joins_most_affine_services() -> None:
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

    assert chooser.select(VM, NodePreference.NONE, failback=True) == "node3"


def test_moving_service_excludes_source_and_target() -> None:
    text = "resource-affinity: apart\n\tresources vm:1,vm:111\n\taffinity negative\n"
    moving = ServiceStatus(
        state=ServiceState.MIGRATE, node=NodeId("node1"), target=NodeId("node3")
    )
    chooser = selector({"vm:1": moving, VM: started("node1")}, text)

    assert chooser.affinity_context(VM).anti_affinity_nodes == {"node1", "node3"}
    assert chooser.select(VM, NodePreference.NONE, failback=True) == "node2"
