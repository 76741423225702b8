"""Tables of a cluster: nodes, guests, rules and violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from opendrs.cli.console import TextCell, TextTable, add_row, create_table, printable
from opendrs.cli.formatting import (
    UNKNOWN,
    format_amount,
    format_bytes,
    format_cores,
    format_percent,
    format_used_cores,
    load_bar,
    used_fraction,
)
from opendrs.controller.serialization import violation_documents
from opendrs.model import (
    RULE_KINDS,
    AntiAffinity,
    DomainAffinity,
    Guest,
    MutualAntiAffinity,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Pressure,
    Rule,
    Snapshot,
    TagExclusion,
    format_count,
    format_list,
)
from opendrs.rules import Contradiction, Violation

MAX_UNABRIDGED_NODES = 20  # up to this number, all nodes are shown
MAX_NODES_LISTED = 10  # otherwise, the most loaded
MAX_UNABRIDGED_RULES = 20  # up to this number, all rules are shown
ALL_OPTION_HINT = "--all shows all"
NO_NAME = "-"
_STATE_STYLES = {
    NodeState.ONLINE: "green",
    NodeState.OFFLINE: "red",
    NodeState.MAINTENANCE: "yellow",
    NodeState.EXCLUDED: "yellow",
    NodeState.UNKNOWN: "dim",
}


def cluster_title(snapshot: Snapshot, name: str) -> str:
    """Return the name of the cluster, its size and the time of the snapshot."""
    nodes = format_count(len(snapshot.nodes), "node")
    guests = format_count(len(snapshot.guests), "guest")
    when = f"{snapshot.taken_at:%Y-%m-%d %H:%M:%S %Z}"
    return printable(f"{name}: {nodes}, {guests}, at {when}")


def print_nodes(screen: Console, snapshot: Snapshot, *, show_all: bool) -> None:
    """Print the state and the load of the nodes.

    Of more than 20 nodes, only the most loaded are printed, in descending order, and
    the number of nodes in each state, unless *show_all* is set.
    """
    names = sorted(snapshot.nodes)
    if len(names) > MAX_UNABRIDGED_NODES and not show_all:
        names = most_loaded(MAX_NODES_LISTED, snapshot)
        states = Counter(node.state for node in snapshot.nodes.values())
        counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
        abridgment = f"{counts}; the {len(names)} most loaded nodes; {ALL_OPTION_HINT}"
        screen.print(Text(abridgment, style="dim"))
    screen.print(_node_table(snapshot, names))


def most_loaded(limit: int, *snapshots: Snapshot) -> list[NodeId]:
    """Return the names of the nodes with the highest load in any of *snapshots*.

    The load is the higher one of measured CPU and memory load, in descending order.
    Equal nodes are in order of their names; nodes without measurements are last.
    """
    loads: dict[NodeId, float] = {}
    for snapshot in snapshots:
        for name, node in snapshot.nodes.items():
            resource_loads = (node_load(node, "cpu"), node_load(node, "memory"))
            highest = max(
                (part for part in resource_loads if part is not None), default=-1.0
            )
            loads[name] = max(highest, loads.get(name, -1.0))
    return sorted(loads, key=lambda name: (-loads[name], name))[:limit]


def node_load(node: Node, resource: str) -> float | None:
    """Return the used fraction of the `cpu` or `memory` of *node*; None if unknown."""
    if node.capacity is None:
        return None
    used: float | None = getattr(node.usage, resource)
    total: float = getattr(node.capacity, resource)
    return used_fraction(used, total)


def _node_table(snapshot: Snapshot, names: Sequence[NodeId]) -> TextTable:
    counts = Counter(
        guest.node for guest in snapshot.guests.values() if guest.is_active
    )
    has_pressure = any(
        _highest_stall(node.pressure) is not None for node in snapshot.nodes.values()
    )
    loads = _further_loads(snapshot)
    extra_headings = (*loads, *(("pressure",) if has_pressure else ()))
    right = ["cores", "capacity", "guests"]
    headings = ("node", "state", "cpu", "cores", "memory", "capacity", "guests")
    listing = create_table(*headings, *extra_headings, right=right)
    for name in names:
        node = snapshot.nodes[name]
        further = [_further_load_cell(node, load) for load in loads]
        cells = (*_node_cells(node), str(counts[name]), *further)
        add_row(
            listing, *cells, *([_pressure_text(node.pressure)] if has_pressure else [])
        )
    return listing


def _node_cells(node: Node) -> tuple[str | Text | TextCell, ...]:
    capacity = node.capacity
    return (
        node.id,
        Text(node.state.value, style=_STATE_STYLES[node.state]),
        load_bar(node_load(node, "cpu")),
        format_cores(capacity.cpu if capacity else None),
        load_bar(node_load(node, "memory")),
        format_bytes(capacity.memory if capacity else None),
    )


def _further_loads(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the further loads that are known of a node or a guest, in order."""
    names: set[str] = set()
    for node in snapshot.nodes.values():
        names |= node.loads.keys() | node.load_capacities.keys()
    for guest in snapshot.guests.values():
        names |= guest.loads.keys()
    return tuple(sorted(names))


def _further_load_cell(node: Node, load: str) -> str | Text | TextCell:
    """Return the used fraction of a further load, or its amount without a capacity."""
    amount, capacity = node.loads.get(load), node.load_capacities.get(load)
    if capacity is None:
        return format_amount(amount)
    return load_bar(used_fraction(amount, capacity))


def _highest_stall(pressure: Pressure) -> tuple[float, str] | None:
    known = [
        (stall.some, name)
        for name in ("cpu", "memory", "io")
        if (stall := getattr(pressure, name)).some is not None
    ]
    return max(known, default=None)


def _pressure_text(pressure: Pressure) -> str:
    """Return the highest pressure (PSI "some") and its resource, as in `12% cpu`."""
    worst = _highest_stall(pressure)
    return (
        UNKNOWN if worst is None else f"{format_percent(worst[0]).strip()} {worst[1]}"
    )


def guest_table(snapshot: Snapshot) -> TextTable:
    """Return a table of the guests: node, state, usage, limits, loads, mobility."""
    loads = _further_loads(snapshot)
    figures = ("cores", "core limit", "memory", "memory limit", *loads)
    headings = ("guest", "node", "state", *figures, "mobility")
    listing = create_table(*headings, right=figures)
    for name, guest in sorted(
        snapshot.guests.items(), key=lambda item: (item[1].node, item[0])
    ):
        add_row(
            listing,
            name,
            guest.node,
            _state_text(guest),
            format_used_cores(guest.usage.cpu),
            _core_limit_text(guest),
            format_bytes(guest.usage.memory),
            format_bytes(guest.limit.memory if guest.limit else None),
            *(format_amount(guest.loads.get(load)) for load in loads),
            guest.mobility.text if guest.mobility else UNKNOWN,
        )
    return listing


def _state_text(guest: Guest) -> str:
    if guest.migrating_to is not None:
        return f"migrating to {guest.migrating_to}"
    return guest.state.value


def _core_limit_text(guest: Guest) -> str:
    if guest.limit is None:
        return UNKNOWN
    return format_cores(guest.limit.cpu) if guest.limit.cpu else "all"


def print_rule_table(screen: Console, rules: Sequence[Rule], *, show_all: bool) -> None:
    """Print the rules in the order of the configuration.

    Of more than 20 rules, only the number of each kind is printed, unless *show_all*
    is set.
    """
    if len(rules) > MAX_UNABRIDGED_RULES and not show_all:
        kinds = Counter(_rule_kind(rule) for rule in rules)
        listing = create_table("rules", "kind", "strictness", right=["rules"])
        for (kind, strictness), count in kinds.most_common():
            add_row(listing, str(count), kind, strictness)
        screen.print(listing)
        screen.print(Text(ALL_OPTION_HINT, style="dim"))
        return
    has_origin = any(rule.origin for rule in rules)
    headings = ("rule", "kind", "strictness", "guests", "nodes")
    listing = create_table(*headings, *(("origin",) if has_origin else ()))
    for rule in rules:
        members = _rule_members(rule, all_names=show_all)
        origin = (rule.origin,) if has_origin else ()
        add_row(listing, rule.name or NO_NAME, *_rule_kind(rule), *members, *origin)
    screen.print(listing)


def _rule_members(rule: Rule, *, all_names: bool) -> tuple[str, str]:
    """Return the guests of *rule*, and its nodes, the preferred ones first.

    In place of nodes, an anti-affinity with a limit has this limit.
    """
    if isinstance(rule, TagExclusion):
        return f"with tag {format_list(sorted(rule.tags), separator=' or ')}", ""
    if isinstance(rule, MutualAntiAffinity):
        sides = (
            [*sorted(names), *(f"tag {tag}" for tag in sorted(tags))]
            for names, tags in (
                (rule.guests, rule.tags),
                (rule.other_guests, rule.other_tags),
            )
        )
        texts = [", ".join(x) if all_names else format_list(x) for x in sides]
        return " apart from ".join(texts), ""
    nodes: list[NodeId] = []
    if isinstance(rule, NodeAffinity):
        priorities = rule.nodes
        nodes = sorted(priorities, key=lambda name: (-priorities[name], name))
    guests: list[str] = sorted(rule.guests)
    if not isinstance(rule, Pin):
        guests += [f"with tag {tag}" for tag in sorted(rule.tags)]
    if isinstance(rule, DomainAffinity) or (
        isinstance(rule, AntiAffinity) and not rule.is_pairwise
    ):
        return (", ".join(guests) if all_names else format_list(guests)), rule.limit
    if all_names:
        return ", ".join(guests), ", ".join(nodes)
    return format_list(guests), format_list(nodes)


def _rule_kind(rule: Rule) -> tuple[str, str]:
    soft = getattr(rule, "strict", True) is False
    weight = getattr(rule, "weight", 1.0)
    suffix = "" if weight == 1 else f", weight {weight:g}"
    return RULE_KINDS[type(rule)], f"soft{suffix}" if soft else "strict"


def print_rule_problems(
    screen: Console,
    contradictions: Sequence[Contradiction],
    violated: Sequence[Violation],
    limit: int | None = None,
) -> None:
    """Print contradictions between rules, and violated rules.

    Args:
        screen: The console.
        contradictions: Rules that cannot hold together.
        violated: Rules that do not hold; strict ones are printed first.
        limit: Maximum number of contradictions and of violations; None for all.
    """
    for contradiction in contradictions[:limit]:
        screen.print(
            Text(f"contradiction: {printable(str(contradiction))}", style="red")
        )
    for violation in sorted(violated, key=lambda each: not each.strict)[:limit]:
        style = "red" if violation.strict else "yellow"
        kind = "violated" if violation.strict else "violated (soft)"
        screen.print(Text(f"{kind}: {printable(str(violation))}", style=style))
    if limit is not None:
        more = max(0, len(contradictions) - limit) + max(0, len(violated) - limit)
        if more:
            screen.print(Text(f"and {more} more; {ALL_OPTION_HINT}", style="red"))


def rule_problems_document(
    contradictions: Sequence[Contradiction], violated: Sequence[Violation]
) -> dict[str, object]:
    """Return contradictions and violations as a JSON document."""
    return {
        "contradictions": [
            {
                "detail": contradiction.detail,
                "rules": [rule.describe() for rule in contradiction.rules],
                "guests": sorted(contradiction.guests),
            }
            for contradiction in contradictions
        ],
        "violations": violation_documents(violated),
    }
