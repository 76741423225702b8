"""Gates: no migration for balance while no node is loaded enough.

An uneven cluster of idle nodes costs no guest anything. The gates are limits of the
operator: loads of CPU and of memory that some node must exceed before guests are
migrated for balance. Repairs of rules, drains, relief of overload and consolidation are
not gated.

Source:
    VMware vSphere and ProxLB start balancing at a load of the nodes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

from opendrs.metrics import LoadModel, node_loads
from opendrs.model import EMPTY_PLAN, Limits, Snapshot
from opendrs.policies.base import Decision, DecisionReason, MemoryT

PolicyT = TypeVar("PolicyT", bound=Any)
Decide = Callable[[PolicyT, Snapshot, MemoryT], Decision[MemoryT]]


def closed_gates(
    snapshot: Snapshot, limits: Limits, load_model: LoadModel
) -> str | None:
    """Return why no guest of *snapshot* is migrated for balance, or None if one may be.

    The reason has the highest loads and the gates. A node whose load is unknown opens
    no gate.

    Args:
        snapshot: The cluster.
        limits: Limits of the operator, with the gates.
        load_model: Load that counts.
    """
    gates = {
        "cpu": limits.balance_above_cpu_load,
        "memory": limits.balance_above_memory_load,
    }
    loads = node_loads(snapshot, load_model)

    def details() -> Iterator[str]:
        for resource, gate in gates.items():
            if gate is not None:
                values = {name: getattr(load, resource) for name, load in loads.items()}
                highest = max(values, key=lambda name: (values[name], name))
                yield (
                    f"highest {resource} load {values[highest]:.1%} ({highest}), "
                    f"balanced above {gate:.1%}"
                )

    is_open = all(gate is None for gate in gates.values()) or any(
        getattr(load, resource) > gate
        for resource, gate in gates.items()
        if gate is not None
        for load in loads.values()
    )
    if is_open:
        return None
    return "; ".join(details()) if loads else "the load of no node is known"


def gated(
    load_model: LoadModel | None = None,
) -> Callable[[Decide[PolicyT, MemoryT]], Decide[PolicyT, MemoryT]]:
    """Return a decorator for `decide` of a policy that migrates guests for balance.

    While the gates are closed, there is no plan for balance. The policy keeps its
    memory, as if it had not decided: it has migrated nothing. Decisions without a plan,
    and plans for another reason, are returned unchanged.

    Args:
        load_model: Load of the nodes that counts; None for that of the policy.
    """

    def decorate(decide: Decide[PolicyT, MemoryT]) -> Decide[PolicyT, MemoryT]:
        @wraps(decide)
        def decide_behind_gates(
            policy: PolicyT, snapshot: Snapshot, memory: MemoryT
        ) -> Decision[MemoryT]:
            decision = decide(policy, snapshot, memory)
            if decision.reason is not DecisionReason.IMPROVES_BALANCE:
                return decision
            model = policy.load_model if load_model is None else load_model
            detail = closed_gates(snapshot, policy.limits, model)
            if detail is None:
                return decision
            return replace(
                decision,
                reason=DecisionReason.LOAD_BELOW_GATE,
                memory=memory,
                plan=EMPTY_PLAN,
                detail=detail,
                after=decision.before,
            )

        return decide_behind_gates

    return decorate
