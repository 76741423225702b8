"""A cluster on the screen: its nodes, its guests, its rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from opendrs.cli.figures import (
    UNKNOWN,
    amount,
    bar,
    cores,
    counted,
    fraction,
    percent,
)
from opendrs.cli.screen import Cell, Table, add_row, table, visible
from opendrs.controller.documents import violation_documents
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Exclusion,
    Guest,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Pressure,
    Rule,
    Snapshot,
)
from opendrs.rules import Contradiction, Violation

FEW_NODES = 20  # that are all shown
MOST_NODES = 10  # of more nodes, the most loaded
FEW_RULES = 20  # that are all shown
SEE_ALL = "--all shows all"
_STATE_STYLES = {
    NodeState.ONLINE: "green",
    NodeState.OFFLINE: "red",
    NodeState.MAINTENANCE: "yellow",
    NodeState.UNKNOWN: "dim",
}
_KINDS = {
    NodeAffinity: "node-affinity",
    Affinity: "affinity",
    AntiAffinity: "anti-affinity",
    Pin: "pin",
    Exclusion: "exclusion",
}


def title(snapshot: Snapshot, name: str) -> str:
    """Return one line about the cluster."""
    nodes = counted(len(snapshot.nodes), "node")
    guests = counted(len(snapshot.guests), "guest")
    when = f"{snapshot.taken_at:%Y-%m-%d %H:%M:%S %Z}"
    return visible(f"{name}: {nodes}, {guests}, at {when}")


def print_nodes(screen: Console, snapshot: Snapshot, *, everything: bool) -> None:
    """Print the nodes: their state and their load.

    Of many nodes the most loaded are printed, the worst first, and how many nodes
    are in which state.
    """
    names = sorted(snapshot.nodes)
    if len(names) > FEW_NODES and not everything:
        names = most_loaded(MOST_NODES, snapshot)
        states = Counter(node.state for node in snapshot.nodes.values())
        counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
        which = f"{counts}; the {len(names)} most loaded nodes; {SEE_ALL}"
        screen.print(Text(which, style="dim"))
    screen.print(_node_table(snapshot, names))


def most_loaded(most: int, *snapshots: Snapshot) -> list[NodeId]:
    """Return the names of the nodes with the highest load in any of *snapshots*.

    The load is the higher one of processors and memory, as measured. Of equal nodes
    the first by name comes first, those that are not measured last.
    """
    loads: dict[NodeId, float] = {}
    for snapshot in snapshots:
        for name, node in snapshot.nodes.items():
            parts = (node_load(node, "cpu"), node_load(node, "memory"))
            highest = max((part for part in parts if part is not None), default=-1.0)
            loads[name] = max(highest, loads.get(name, -1.0))
    return sorted(loads, key=lambda name: (-loads[name], name))[:most]


def node_load(node: Node, resource: str) -> float | None:
    """Return the used part of the `cpu` or `memory` of *node*; None if not known."""
    if node.capacity is None:
        return None
    used: float | None = getattr(node.usage, resource)
    total: float = getattr(node.capacity, resource)
    return fraction(used, total)


def _node_table(snapshot: Snapshot, names: Sequence[NodeId]) -> Table:
    counts = Counter(guest.node for guest in snapshot.guests.values() if guest.present)
    pressed = any(_worst(node.pressure) is not None for node in snapshot.nodes.values())
    further = ("waiting",) if pressed else ()
    right = ["cores", "capacity", "guests"]
    heads = ("node", "state", "cpu", "cores", "memory", "capacity", "guests")
    made = table(*heads, *further, right=right)
    for name in names:
        node = snapshot.nodes[name]
        cells = (*_node_cells(node), str(counts[name]))
        add_row(made, *cells, *([_pressure(node.pressure)] if pressed else []))
    return made


def _node_cells(node: Node) -> tuple[str | Text | Cell, ...]:
    capacity = node.capacity
    return (
        node.id,
        Text(node.state.value, style=_STATE_STYLES[node.state]),
        bar(node_load(node, "cpu")),
        cores(capacity.cpu if capacity else None),
        bar(node_load(node, "memory")),
        amount(capacity.memory if capacity else None),
    )


def _worst(pressure: Pressure) -> tuple[float, str] | None:
    known = [
        (stall.some, name)
        for name in ("cpu", "memory", "io")
        if (stall := getattr(pressure, name)).some is not None
    ]
    return max(known, default=None)


def _pressure(pressure: Pressure) -> str:
    """Return for which resource most was waited, and for what part of time."""
    worst = _worst(pressure)
    return UNKNOWN if worst is None else f"{percent(worst[0]).strip()} {worst[1]}"


def guest_table(snapshot: Snapshot) -> Table:
    """Return the guests: where they are, what they use, how they move."""
    figures = ("cores", "cores limit", "memory", "memory limit")
    made = table("guest", "node", "state", *figures, "moves", right=figures)
    for name, guest in sorted(
        snapshot.guests.items(), key=lambda item: (item[1].node, item[0])
    ):
        add_row(
            made,
            name,
            guest.node,
            _state(guest),
            cores(guest.usage.cpu),
            _most_cores(guest),
            amount(guest.usage.memory),
            amount(guest.limit.memory if guest.limit else None),
            guest.moves.value if guest.moves else UNKNOWN,
        )
    return made


def _state(guest: Guest) -> str:
    if guest.migrating_to is not None:
        return f"moves to {guest.migrating_to}"
    return guest.state.value


def _most_cores(guest: Guest) -> str:
    if guest.limit is None:
        return UNKNOWN
    return cores(guest.limit.cpu) if guest.limit.cpu else "all"


def print_rule_table(
    screen: Console, rules: Sequence[Rule], *, everything: bool
) -> None:
    """Print the rules in the operator's order; of many, how many of each kind."""
    if len(rules) > FEW_RULES and not everything:
        kinds = Counter(_kind(rule) for rule in rules)
        made = table("rules", "kind", "strictness", right=["rules"])
        for (kind, strictness), count in kinds.most_common():
            add_row(made, str(count), kind, strictness)
        screen.print(made)
        screen.print(Text(SEE_ALL, style="dim"))
        return
    made = table("rule", "kind", "strictness")
    for rule in rules:
        add_row(made, rule.described(), *_kind(rule))
    screen.print(made)


def _kind(rule: Rule) -> tuple[str, str]:
    soft = getattr(rule, "strict", True) is False
    return _KINDS[type(rule)], "soft" if soft else "strict"


def print_faults(
    screen: Console,
    contradictions: Sequence[Contradiction],
    broken: Sequence[Violation],
    most: int | None = None,
) -> None:
    """Print which rules contradict one another, and which are broken.

    Args:
        screen: The console.
        contradictions: Rules that cannot all be kept.
        broken: Rules that do not hold; strict ones are printed first.
        most: How many of each are printed; all when None.
    """
    for contradiction in contradictions[:most]:
        screen.print(Text(f"contradiction: {visible(str(contradiction))}", style="red"))
    for violation in sorted(broken, key=lambda each: not each.strict)[:most]:
        style = "red" if violation.strict else "yellow"
        kind = "broken" if violation.strict else "not kept (soft)"
        screen.print(Text(f"{kind}: {visible(str(violation))}", style=style))
    if most is not None:
        more = max(0, len(contradictions) - most) + max(0, len(broken) - most)
        if more:
            screen.print(Text(f"and {more} more; {SEE_ALL}", style="red"))


def faults_document(
    contradictions: Sequence[Contradiction], broken: Sequence[Violation]
) -> dict[str, object]:
    """Return the same as plain values."""
    return {
        "contradictions": [
            {
                "why": found.why,
                "rules": [rule.described() for rule in found.rules],
                "guests": sorted(found.guests),
            }
            for found in contradictions
        ],
        "violations": violation_documents(broken),
    }
