"""A cluster on the screen: its nodes, its guests, its rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
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
from opendrs.cli.screen import add_row, table, visible
from opendrs.controller.documents import violation_documents
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Exclusion,
    Guest,
    Node,
    NodeAffinity,
    NodeState,
    Pin,
    Pressure,
    Rule,
    Snapshot,
)
from opendrs.rules import Contradiction, Violation

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


def node_table(snapshot: Snapshot) -> Table:
    """Return the nodes: how they are, and how loaded."""
    counts = Counter(guest.node for guest in snapshot.guests.values() if guest.present)
    pressed = any(_worst(node.pressure) is not None for node in snapshot.nodes.values())
    further = ("waiting",) if pressed else ()
    made = table("node", "state", "cpu", "memory", "guests", *further, right=["guests"])
    for name, node in sorted(snapshot.nodes.items()):
        cells = (*_node_cells(node), str(counts[name]))
        add_row(made, *cells, *([_pressure(node.pressure)] if pressed else []))
    return made


def _node_cells(node: Node) -> tuple[str | Text, ...]:
    state = Text(node.state.value, style=_STATE_STYLES[node.state])
    capacity = node.capacity
    cpu = bar(fraction(node.usage.cpu, capacity.cpu if capacity else None))
    memory = bar(fraction(node.usage.memory, capacity.memory if capacity else None))
    if capacity is not None:
        cpu.append(f" of {cores(capacity.cpu)}")
        memory.append(f" of {amount(capacity.memory)}")
    return node.id, state, cpu, memory


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
    right = ["cores", "memory"]
    made = table("guest", "node", "state", "cores", "memory", "moves", right=right)
    for name, guest in sorted(
        snapshot.guests.items(), key=lambda item: (item[1].node, item[0])
    ):
        add_row(
            made,
            name,
            guest.node,
            _state(guest),
            f"{cores(guest.usage.cpu)} of {_most_cores(guest)}",
            f"{amount(guest.usage.memory)} of {_most_memory(guest)}",
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


def _most_memory(guest: Guest) -> str:
    return amount(guest.limit.memory if guest.limit else None)


def rule_table(rules: Sequence[Rule]) -> Table:
    """Return the rules in the operator's order."""
    made = table("rule", "kind", "")
    for rule in rules:
        soft = getattr(rule, "strict", True) is False
        add_row(made, str(rule), _KINDS[type(rule)], "soft" if soft else "strict")
    return made


def print_faults(
    screen: Console,
    contradictions: Sequence[Contradiction],
    broken: Sequence[Violation],
) -> None:
    """Print which rules contradict one another, and which are broken."""
    for contradiction in contradictions:
        screen.print(Text(f"contradiction: {visible(str(contradiction))}", style="red"))
    for violation in broken:
        style = "red" if violation.strict else "yellow"
        kind = "broken" if violation.strict else "not kept (soft)"
        screen.print(Text(f"{kind}: {visible(str(violation))}", style=style))


def faults_document(
    contradictions: Sequence[Contradiction], broken: Sequence[Violation]
) -> dict[str, object]:
    """Return the same as plain values."""
    return {
        "contradictions": [
            {
                "why": found.why,
                "rules": [str(rule) for rule in found.rules],
                "guests": sorted(found.guests),
            }
            for found in contradictions
        ],
        "violations": violation_documents(broken),
    }
