"""The command `opendrs place`: nodes for guests that are to start."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from opendrs.cli.cluster_tables import ALL_OPTION_HINT, MAX_NODES_LISTED
from opendrs.cli.console import TextTable, add_row, console, create_table, print_json
from opendrs.cli.formatting import (
    arrow,
    format_bytes,
    format_core_count,
    format_percent,
)
from opendrs.cli.options import (
    JSON,
    IntegerRange,
    QuantityRange,
    all_option,
    at_option,
    config_option,
    cores_type,
    format_option,
    reject_nan,
    require_guest,
    source_argument,
)
from opendrs.cli.platform_store import enrich_from_store
from opendrs.cli.sources import load_settings, observe, open_source
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import (
    SIZE,
    Guest,
    NodeId,
    Resources,
    Snapshot,
    TagExclusion,
    format_count,
    format_list,
)
from opendrs.placement import (
    MAX_COUNT,
    InfeasibleNode,
    RankedNode,
    StartPlacement,
    StartRequest,
    start_placement,
)

NO_NODE = 1  # exit status: some guests have no feasible node


@click.command(name="place")
@source_argument
@click.option(
    "--cpu",
    type=cores_type,
    callback=reject_nan,
    metavar="CORES",
    help="Virtual cores of the guest.",
)
@click.option(
    "--memory",
    type=QuantityRange(SIZE, 1, 1e18),
    callback=reject_nan,
    metavar="SIZE",
    help="Memory of the guest, such as '16 GiB'.",
)
@click.option(
    "--like",
    metavar="GUEST",
    help="Size, hardware requirements and rules of GUEST; --cpu and --memory "
    "override its size.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Tag of the guest; may be repeated. Rules that Proxmox VE derives from it "
    "apply.",
)
@click.option(
    "--count",
    type=IntegerRange(1, MAX_COUNT),
    default=1,
    metavar="N",
    help="Number of guests that start one after the other (default 1).",
)
@all_option
@at_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    cpu: float | None,
    memory: float | None,
    like: str | None,
    tags: tuple[str, ...],
    count: int,
    show_all: bool,
    at: datetime | None,
    config: Path | None,
    output_format: str,
) -> int:
    """Rank the nodes for the start of a guest. Starts nothing.

    The guest is assumed to use all its cores and memory. Strict rules, the state and
    the hardware of the nodes, and the limits of memory decide which nodes are feasible.
    A node that is not measured is infeasible, never empty. First are the nodes that
    node-affinity rules prefer, then those that violate the fewest soft rules, then
    those with the best score for the load after the start (TOPSIS, as in Proxmox VE).

    With --count, each guest starts on the first node of the ranking, with those
    before it in place. The ranking is that of the first guest.

    \b
      opendrs place lab --cpu 4 --memory '16 GiB'
      opendrs place lab --like web3             a guest like web3, with its rules
      opendrs place lab --like web3 --count 10
      opendrs place cluster.json --cpu 2 --memory '4 GiB' --all

    Exit status: 0 all guests have a node; 1 some have none; 2 invalid input.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    cluster = open_source(source, settings, at=at)
    policy = settings.load_policy(None, {})
    snapshot = enrich_from_store(observe(cluster), policy, cluster, settings)
    model = None if like is None else require_guest("--like", like, snapshot)
    request = StartRequest(
        limit=_size(cpu, memory, model),
        count=count,
        tags=frozenset(tags) | (frozenset() if model is None else model.tags),
        like=None if model is None else model.id,
    )
    found = start_placement(snapshot, request, settings.limits)
    notes = _notes(snapshot, request)
    if output_format == JSON:
        print_json(placement_document(request, found, notes))
    else:
        _print_placement(console(), request, found, notes, show_all=show_all)
    return NO_NODE if None in found.nodes else 0


def _size(cpu: float | None, memory: float | None, like: Guest | None) -> Resources:
    """Return the size of the new guests.

    Raises:
        ConfigurationError: An amount is neither given nor known of the guest to
            resemble.
    """
    limit = None if like is None else like.limit
    cpu = cpu or (limit.cpu if limit is not None else None)
    memory = memory or (limit.memory if limit is not None else None)
    for option, value in (("--cpu", cpu), ("--memory", memory)):
        if not value:
            detail = (
                "required, or --like GUEST"
                if like is None
                else f"required: {like.id} has no such limit"
            )
            raise ConfigurationError(
                f"{option}: {detail}", code=DiagnosticCode.MISSING_KEY
            )
    return Resources(float(cpu or 0), int(memory or 0))


def _notes(snapshot: Snapshot, request: StartRequest) -> tuple[str, ...]:
    return tuple(
        f"not migrated after its start: rule: {rule}"
        for rule in snapshot.rules
        if isinstance(rule, TagExclusion) and rule.tags & request.tags
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


def _print_placement(
    screen: Console,
    request: StartRequest,
    found: StartPlacement,
    notes: tuple[str, ...],
    *,
    show_all: bool,
) -> None:
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
