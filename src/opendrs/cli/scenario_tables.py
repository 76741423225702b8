"""Tables and JSON of `opendrs what-if`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from opendrs.cli.cluster_load import cluster_load, print_change
from opendrs.cli.cluster_tables import ALL_OPTION_HINT
from opendrs.cli.console import add_row, create_table, printable
from opendrs.cli.formatting import format_bytes, format_core_count
from opendrs.cli.plan_summary import PlanCost, plan_cost
from opendrs.controller.serialization import violation_documents
from opendrs.model import GIB, Snapshot, format_count, format_list
from opendrs.placement import (
    AdditionalGuests,
    DispensableNodes,
    FailureTolerance,
    IntoleratedFailure,
    RequiredTolerance,
    Scenario,
    ScenarioResult,
)
from opendrs.policies import Decision, reason_text
from opendrs.rules import violation_change, violations

MAX_ROWS = 5  # of each list of details, without --all
MAX_NAMES = 3
MORE_FAILURES = 2  # tolerated failures beyond which none are evaluated


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """Plan of a policy for the cluster after a scenario.

    Attributes:
        policy: Its name.
        decision: Its decision.
        before: The cluster before the plan.
        after: The cluster after the plan.
    """

    policy: str
    decision: Decision[Any]
    before: Snapshot
    after: Snapshot

    @property
    def cost(self) -> PlanCost:
        """Return what the plan moves and transfers."""
        actions = (step.action for step in self.decision.plan.steps)
        return plan_cost(actions, self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfAnswer:
    """Cluster after a scenario, and its capacity.

    Attributes:
        scenario: The changes.
        result: The cluster after them.
        policy: Plan of a policy after the changes; None if none was requested.
        tolerance: Node failures that the cluster tolerates in the end.
        required: Failures that the limits want tolerated; None if none.
        additional: Guests that fit in addition; None if their size is unknown.
        dispensable: Nodes that it could do without.
        node_count: Number of online nodes in the end.
    """

    scenario: Scenario
    result: ScenarioResult
    policy: PolicyOutcome | None
    tolerance: FailureTolerance
    required: RequiredTolerance | None
    additional: AdditionalGuests | None
    dispensable: DispensableNodes
    node_count: int


def answer_document(answer: WhatIfAnswer) -> dict[str, object]:
    """Return *answer* as a JSON document."""
    scenario, result, outcome = answer.scenario, answer.result, answer.policy
    final = result.after if outcome is None else outcome.after
    required = answer.required
    return {
        "scenario": {
            "add": [{"count": x.count, "like": x.template} for x in scenario.add],
            "growth": scenario.growth,
            "fail": list(scenario.fail),
            "remove": list(scenario.remove),
        },
        "fits": result.fits,
        "is_proven": result.is_proven,
        "placed": [asdict(each) for each in result.placed],
        "unplaced": [asdict(each) for each in result.unplaced],
        "short_of_memory": list(result.short_of_memory),
        "violations": {
            "before": violation_documents(violations(result.before)),
            "after": violation_documents(violations(final)),
            "new": violation_documents(result.new_violations),
        },
        "load": {
            "before": asdict(cluster_load(result.before)),
            "after": asdict(cluster_load(result.after)),
            "after_policy": None if outcome is None else asdict(cluster_load(final)),
        },
        "policy": None if outcome is None else _policy_document(outcome),
        "nodes": answer.node_count,
        "failures": _tolerance_document(answer.tolerance),
        "required_tolerance": None if required is None else asdict(required),
        "additional_guests": _additional_document(answer.additional),
        "dispensable_nodes": {
            "nodes": list(answer.dispensable.nodes),
            "migrations": answer.dispensable.migrations,
        },
    }


def _policy_document(outcome: PolicyOutcome) -> dict[str, object]:
    return {
        "name": outcome.policy,
        "reason": outcome.decision.reason.value,
        "detail": outcome.decision.detail,
        "migrations": outcome.cost.migrations,
        "disk_moves": outcome.cost.disk_moves,
        "gib": outcome.cost.transferred / GIB,
    }


def _tolerance_document(tolerance: FailureTolerance) -> dict[str, object]:
    return {
        "tolerated": tolerance.tolerated,
        "evaluated_nodes": tolerance.evaluated_nodes,
        "single": [asdict(each) for each in tolerance.single],
        "evaluated_pairs": tolerance.evaluated_pairs,
        "pairs": [asdict(each) for each in tolerance.pairs],
        "domain": tolerance.domain,
        "evaluated_domains": tolerance.evaluated_domains,
        "domains": [asdict(each) for each in tolerance.domains],
        "bound": list(tolerance.bound),
    }


def _additional_document(additional: AdditionalGuests | None) -> object:
    if additional is None:
        return None
    return {
        "count": additional.count,
        "limit": asdict(additional.size.limit),
        "usage": asdict(additional.size.usage),
        "nodes": dict(additional.nodes),
    }


def print_answer(screen: Console, answer: WhatIfAnswer, *, show_all: bool) -> None:
    """Print the summary, then the loads, then the details of *answer*."""
    for line in _summary_lines(answer):
        screen.print(line, soft_wrap=not screen.is_terminal)
    result, outcome = answer.result, answer.policy
    screen.print()
    rules = violation_change(result.before, result.after)
    loads = cluster_load(result.before), cluster_load(result.after)
    print_change(screen, *loads, rules)
    if outcome is not None:
        screen.print()
        screen.print(Text(printable(_policy_line(outcome)), style="bold"))
        if outcome.decision.plan.steps:
            rules = violation_change(outcome.before, outcome.after)
            print_change(screen, loads[1], cluster_load(outcome.after), rules)
    limit = None if show_all else MAX_ROWS
    _print_problems(screen, result, limit)
    _print_failures(screen, answer.tolerance, limit)
    if show_all and result.placed:
        screen.print()
        listing = create_table("guest", "from", "to")
        for each in result.placed:
            add_row(listing, each.guest, each.source, each.target)
        screen.print(listing)


def _summary_lines(answer: WhatIfAnswer) -> Iterator[Text]:
    result = answer.result
    changes = ", ".join(_change_texts(answer.scenario))
    if changes:
        yield Text(printable(f"changes: {changes}"))
        yield _fits_text(result)
    yield _tolerance_text(answer.tolerance)
    if answer.tolerance.domain is not None:
        yield _domain_text(answer.tolerance)
    if bound := answer.tolerance.bound:
        line = f"  not counting {format_list(bound)}, which cannot restart elsewhere"
        yield Text(printable(line))
    if answer.required is not None:
        yield _required_text(answer.required)
    yield _additional_text(answer.additional)
    drained = answer.dispensable
    names = f": {format_list(drained.nodes)}" if drained.nodes else ""
    migrations = format_count(drained.migrations, "migration")
    cost = f" ({migrations})" if drained.nodes else ""
    yield Text(
        printable(
            f"nodes that could be drained: {len(drained.nodes)} of "
            f"{answer.node_count}{cost}{names}"
        )
    )


def _change_texts(scenario: Scenario) -> Iterator[str]:
    for addition in scenario.add:
        yield f"{format_count(addition.count, 'node')} like {addition.template} added"
    if scenario.growth:
        yield f"load {scenario.growth:+.0%}"
    if scenario.fail:
        yield f"{format_list(scenario.fail)} failed"
    if scenario.remove:
        yield f"{format_list(scenario.remove)} removed"


def _fits_text(result: ScenarioResult) -> Text:
    moved = format_count(len(result.placed), "guest")
    if result.fits:
        suffix = f": {moved} on other nodes" if result.placed else ""
        return Text(f"all guests fit{suffix}", style="green")
    parts = []
    if result.unplaced:
        parts.append(f"{format_count(len(result.unplaced), 'guest')} without a node")
    if result.short_of_memory:
        nodes = format_count(len(result.short_of_memory), "node")
        parts.append(f"{nodes} short of memory")
    if result.new_violations:
        rules = format_count(len(result.new_violations), "strict-rule violation")
        parts.append(f"{rules} added")
    qualifier = "" if result.is_proven else " (none found within the limit of search)"
    return Text(
        f"not all guests fit: {', '.join(parts)}; {moved} on other nodes{qualifier}",
        style="red",
    )


def _tolerance_text(tolerance: FailureTolerance) -> Text:
    count, total = tolerance.tolerated, tolerance.evaluated_nodes
    if tolerance.single:
        names = format_list([each.nodes[0] for each in tolerance.single])
        detail = f"{len(tolerance.single)} of {total} do not fit elsewhere: {names}"
        line = f"node failures tolerated: 0; {detail}"
    elif count >= MORE_FAILURES:
        line = f"node failures tolerated: any {count} at once; more were not evaluated"
    elif count == 0:
        line = "node failures tolerated: 0"
    elif tolerance.evaluated_pairs:
        failed, pairs = len(tolerance.pairs), tolerance.evaluated_pairs
        line = f"node failures tolerated: any 1; {failed} of {pairs} pairs are not"
    else:
        line = "node failures tolerated: any 1; pairs not evaluated"
    return Text(printable(line), style="red" if not count else "")


def _domain_text(tolerance: FailureTolerance) -> Text:
    """Return which failures of a domain are tolerated."""
    subject = f"{tolerance.domain} failures tolerated"
    if not tolerance.domains:
        return Text(printable(f"{subject}: any 1"))
    names = format_list([each.name for each in tolerance.domains])
    count = f"{len(tolerance.domains)} of {tolerance.evaluated_domains}"
    line = f"{subject}: 0; {count} do not fit elsewhere: {names}"
    return Text(printable(line), style="red")


def _required_text(required: RequiredTolerance) -> Text:
    """Return whether the failures of the limits are tolerated."""
    subject = "failures that [limits] wants tolerated"
    total = format_count(required.evaluated, "set") + " of nodes"
    evaluated = "" if required.is_complete else "; not every set was evaluated"
    if not required.intolerated:
        return Text(printable(f"{subject}: all are, of {total}{evaluated}"))
    names = format_list([each.name for each in required.intolerated])
    count = len(required.intolerated)
    line = f"{subject}: {count} of {total} are not: {names}{evaluated}"
    return Text(printable(line), style="red")


def _additional_text(additional: AdditionalGuests | None) -> Text:
    if additional is None:
        return Text("additional guests: unknown, no guest has a known size")
    limit, usage = additional.size.limit, additional.size.usage
    cores = format_core_count(limit.cpu) if limit.cpu else "all cores"
    size = f"{cores}, {format_bytes(limit.memory)}"
    used = f"using {format_core_count(usage.cpu)}, {format_bytes(usage.memory)}"
    return Text(f"additional guests that fit: {additional.count} ({size}, {used})")


def _policy_line(outcome: PolicyOutcome) -> str:
    """Return the reason, and the cost of a plan or why there is none.

    The detail of a plan is left out if its effect is in the loads; moves of disks do
    not change these.
    """
    decision = outcome.decision
    line = f"then {outcome.policy}: {reason_text(decision.reason)}"
    detailed = f"{line}: {decision.detail}" if decision.detail else line
    if not decision.plan.steps:
        return detailed
    cost = outcome.cost
    transfer = f"{format_bytes(cost.transferred)} to transfer"
    if cost.disk_moves:
        return f"{detailed}; {transfer}"
    return f"{line}; {format_count(cost.migrations, 'migration')}, {transfer}"


def _print_problems(screen: Console, result: ScenarioResult, limit: int | None) -> None:
    """Print guests without a node, nodes short of memory, and new violations."""
    if result.unplaced:
        screen.print()
        listing = create_table("guest without a node", "from", "reason", "detail")
        for each in result.unplaced[:limit]:
            add_row(listing, each.guest, each.node, each.reason.value, each.detail)
        screen.print(listing)
        _print_rest(screen, result.unplaced, limit)
    if result.short_of_memory:
        screen.print()
        names = format_list(result.short_of_memory, MAX_NAMES if limit else 10**9)
        screen.print(Text(printable(f"short of memory: {names}"), style="red"))
    if result.new_violations:
        screen.print()
        for violation in result.new_violations[:limit]:
            screen.print(Text(printable(f"violated: {violation}"), style="red"))
        _print_rest(screen, result.new_violations, limit)


def _print_failures(
    screen: Console, tolerance: FailureTolerance, limit: int | None
) -> None:
    """Print the failures that are not tolerated, those with most guests first."""
    found = (*tolerance.single, *tolerance.pairs, *tolerance.domains)
    failures = sorted(
        {each.nodes: each for each in found}.values(),
        key=lambda each: (-len(each.unplaced), each.nodes),
    )
    if not failures:
        return
    screen.print()
    headings = (
        "failed",
        "guests",
        "without\na node",
        "names",
        "infeasible\nnodes",
        "certainty",
    )
    listing = create_table(*headings, right=["guests", "without\na node"])
    for each in failures[:limit]:
        add_row(listing, *_failure_cells(each))
    screen.print(listing)
    _print_rest(screen, failures, limit)


def _failure_cells(failure: IntoleratedFailure) -> tuple[str, ...]:
    return (
        failure.name,
        str(failure.displaced),
        str(len(failure.unplaced)),
        format_list(failure.unplaced, MAX_NAMES),
        failure.detail,
        "proven" if failure.is_proven else "not found",
    )


def _print_rest(screen: Console, items: Sequence[object], limit: int | None) -> None:
    if limit is not None and len(items) > limit:
        more = f"and {len(items) - limit} more; {ALL_OPTION_HINT}"
        screen.print(Text(more, style="dim"))
