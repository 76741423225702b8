"""Best plan among several choices of the domains in which guests gather.

A rule that keeps guests in one domain binds them to a chosen one before a search. If
the plan for the first choice leaves a rule violated, plans for others compete; in small
clusters always if balance counts, as they may balance more. Their searches together
take about as long as the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opendrs.model import GuestId, Rule, Snapshot, rule_guests
from opendrs.optimizer import ScaledIterationLimit, StoppingCriterion, is_small
from opendrs.policies.base import Decision
from opendrs.policies.optimize.candidate import CandidatePlan
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.safe_plan import best_plan, plan_rank
from opendrs.policies.optimize.small_cluster import MAX_PLACEMENTS
from opendrs.rules import (
    chooses_domain,
    count_strict,
    is_choice,
    ranked_choices,
    violations,
)

MAX_CHOICES = 16  # further choices for a cluster of few placements
MAX_SEARCHES = 2  # further choices for others, which share the iterations of one

Prepare = Callable[[Snapshot], OptimizeContext | Decision[None]]


def best_choice(
    first: OptimizeContext,
    snapshot: Snapshot,
    prepare: Prepare,
    stop: StoppingCriterion,
    *,
    fewest_migrations: bool = False,
) -> CandidatePlan:
    """Return the best plan among those for several choices of domains.

    The fewest violated rules count first, then the fewest violations, and then what
    counts for plans of one choice. Among equals it is the first choice.

    Args:
        first: Decision context of *snapshot*.
        snapshot: The cluster, with rules that bind guests to chosen domains.
        prepare: Function that returns the context of a cluster, or the decision if
            there is no work.
        stop: Stopping criterion of a search. A clock leaves no time for other choices,
            except in a small cluster, all placements of which are compared.
        fewest_migrations: True if that counts before balance.
    """
    plan = best_plan(first, stop, fewest_migrations=fewest_migrations)
    if first.priorities[0] is not Goal.REPAIR or not chooses_domain(snapshot):
        return plan
    small = first.repairs.small
    if small is not None:
        most = min(MAX_CHOICES, max(1, MAX_PLACEMENTS // small.graph.count))
        others = ranked_choices(snapshot, snapshot.guests.keys(), most)
    elif isinstance(stop, ScaledIterationLimit):
        balances = not fewest_migrations and is_small(first.problem)
        if not (plan.violations or balances):
            return plan
        others = ranked_choices(snapshot, _unrepaired(plan), MAX_SEARCHES)
        stop = _part(stop, len(others))
    else:
        return plan
    contexts = [prepare(each) for each in others]
    plans = [
        best_plan(each, stop, fewest_migrations=fewest_migrations)
        for each in contexts
        if not isinstance(each, Decision)
    ]

    def rank(each: CandidatePlan) -> tuple[float, ...]:
        violated = count_strict(violations(_with_rules(each, first.snapshot.rules)))
        compared = replace(each, context=first)  # at one price of a transfer
        values = plan_rank(compared, fewest_migrations=fewest_migrations)
        return violated.rules, violated.violations, *values

    return min((plan, *plans), key=rank)


def _unrepaired(plan: CandidatePlan) -> frozenset[GuestId]:
    """Return the guests that *plan* does not gather; all guests without such ones."""
    after = plan.snapshot
    scattered = frozenset[GuestId]().union(
        *(rule_guests(x.rule) for x in violations(after) if is_choice(x.rule, after))
    )
    return scattered or frozenset(after.guests)


def _part(stop: ScaledIterationLimit, count: int) -> ScaledIterationLimit:
    """Return the limit of each of *count* searches that share *stop*."""
    count = max(1, count)
    return replace(
        stop,
        per_group=max(1, stop.per_group // count),
        least=stop.least // count,
        most=stop.most // count,
    )


def _with_rules(plan: CandidatePlan, rules: tuple[Rule, ...]) -> Snapshot:
    """Return the cluster after *plan*, with *rules*."""
    return replace(plan.snapshot, rules=rules)
