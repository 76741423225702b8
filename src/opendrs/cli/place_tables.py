"""Tables and JSON of `opendrs place`."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from opendrs.cli.cluster_tables import ALL_OPTION_HINT, MAX_NODES_LISTED
from opendrs.cli.console import TextTable, add_row, create_table
from opendrs.cli.formatting import (
    arrow,
    format_bytes,
    format_core_count,
    format_percent,
)
from opendrs.model import NodeId, format_count, format_list
from opendrs.placement import (
    InfeasibleNode,
    RankedNode,
    StartPlacement,
    StartRequest,
)


def placement_document(
    request: StartRequest, found: StartPlacement, notes: tuple[str, ...]
) -> dict[str, object]:
    """Return the ranking and the nodes of the guests as a JSON document."""
    return {
        "guest": {
            "cpu": request.limit.cpu,
            "memory": request.limit.memory,
            "tags": sorted(request.tags),
            "like": request.like,
        },
        "count": request.count,
        "placed": sum(node is not None for node in found.nodes),
        "nodes": list(found.nodes),
        "ranked": [_ranked_document(each) for each in found.ranked],
        "infeasible": _infeasible_documents(found.infeasible),
        "infeasible_after": _infeasible_documents(found.infeasible_after),
        "notes": list(notes),
    }


def _ranked_document(each: RankedNode) -> dict[str, object]:
    loads = {
        name: {"cpu": load.cpu, "memory": load.memory}
        for name, load in (("before", each.before), ("after", each.after))
    }
    return {
        "node": each.node,
        "score": each.score,
        "priority": each.priority,
        "soft_violations": each.soft_violations,
        **loads,
    }


def _infeasible_documents(nodes: tuple[InfeasibleNode, ...]) -> list[dict[str, str]]:
    return [
        {"node": each.node, "reason": each.reason.value, "detail": each.detail}
        for each in nodes
    ]


def print_placement(
    screen: Console,
    request: StartRequest,
    found: StartPlacement,
    notes: tuple[str, ...],
    *,
    show_all: bool,
) -> None:
    """Print the best node, then the ranking, then the infeasible nodes."""
    screen.print(_summary(request, found))
    for note in notes:
        screen.print(Text(note, style="yellow"))
    if request.count > 1 and any(found.nodes):
        screen.print()
        _print_counts(screen, found, show_all=show_all)
    if found.ranked:
        screen.print()
        _print_ranking(screen, found.ranked, show_all=show_all)
    if found.infeasible:
        screen.print()
        _print_infeasible(screen, found.infeasible, show_all=show_all)
    if found.infeasible_after and found.ranked:
        screen.print()
        screen.print("for the first guest without a node:")
        _print_infeasible(screen, found.infeasible_after, show_all=show_all)


def _summary(request: StartRequest, found: StartPlacement) -> Text:
    limit = request.limit
    size = f"{format_core_count(limit.cpu)}, {format_bytes(limit.memory)}"
    placed = [node for node in found.nodes if node is not None]
    if not placed:
        subject = "the guest" if request.count == 1 else "any of the guests"
        return Text(f"no feasible node for {subject} ({size})", style="red")
    if request.count == 1:
        return Text(f"best node: {placed[0]} ({size})", style="bold")
    nodes = format_count(len(set(placed)), "node")
    line = f"{len(placed)} of {request.count} guests fit, on {nodes} ({size} each)"
    return Text(line, style="bold" if len(placed) == request.count else "red")


def _print_counts(screen: Console, found: StartPlacement, *, show_all: bool) -> None:
    counts = Counter(node for node in found.nodes if node is not None)
    listing = create_table("node", "guests", right=["guests"])
    rows = counts.most_common(None if show_all else MAX_NODES_LISTED)
    for node, number in rows:
        add_row(listing, node, str(number))
    screen.print(listing)
    _print_rest(screen, len(counts) - len(rows))


def _print_ranking(
    screen: Console, ranked: tuple[RankedNode, ...], *, show_all: bool
) -> None:
    has_priority = len({each.priority for each in ranked}) > 1
    has_soft = any(each.soft_violations for each in ranked)
    extra = [
        *(["priority"] if has_priority else []),
        *(["soft rules"] if has_soft else []),
    ]
    right = ["rank", "score", *extra]
    listing = create_table(
        "rank", "node", "score", "cpu", "memory", *extra, right=right
    )
    rows = ranked if show_all else ranked[:MAX_NODES_LISTED]
    for rank, each in enumerate(rows, 1):
        add_row(
            listing,
            str(rank),
            each.node,
            f"{each.score:.3f}",
            _change(each.before.cpu, each.after.cpu),
            _change(each.before.memory, each.after.memory),
            *([str(each.priority)] if has_priority else []),
            *([_soft_text(each)] if has_soft else []),
        )
    screen.print(listing)
    _print_rest(screen, len(ranked) - len(rows))


def _soft_text(each: RankedNode) -> str:
    return f"{each.soft_violations} violated" if each.soft_violations else "kept"


def _change(before: float, after: float) -> str:
    return f"{format_percent(before).strip()} {arrow()} {format_percent(after).strip()}"


def _print_infeasible(
    screen: Console, infeasible: tuple[InfeasibleNode, ...], *, show_all: bool
) -> None:
    """Print the infeasible nodes; of many, one line for each reason."""
    listing: TextTable
    if show_all or len(infeasible) <= MAX_NODES_LISTED:
        listing = create_table("infeasible node", "reason", "detail")
        for each in infeasible:
            add_row(listing, each.node, each.reason.value, each.detail)
        screen.print(listing)
        return
    by_reason: dict[str, list[NodeId]] = {}
    for each in infeasible:
        by_reason.setdefault(each.reason.value, []).append(each.node)
    listing = create_table(
        "infeasible nodes", "reason", "names", right=["infeasible nodes"]
    )
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        add_row(listing, str(len(names)), reason, format_list(names))
    screen.print(listing)
    screen.print(Text(ALL_OPTION_HINT, style="dim"))


def _print_rest(screen: Console, count: int) -> None:
    if count > 0:
        more = f"and {format_count(count, 'more node')}; {ALL_OPTION_HINT}"
        screen.print(Text(more, style="dim"))
