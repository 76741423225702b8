"""One cycle of the controller: observe, decide, act, record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from opendrs.controller.brake import Brake
from opendrs.controller.execution import execute
from opendrs.controller.report import Report
from opendrs.controller.watcher import Watcher
from opendrs.model import Snapshot
from opendrs.policies import Decision, Policy
from opendrs.ports import Clock, Platform, Store

MemoryT = TypeVar("MemoryT")
Consent = Callable[[Snapshot, Decision[MemoryT]], bool]


@dataclass(frozen=True, slots=True)
class Cycle(Generic[MemoryT]):
    """What one cycle saw, decided and did; enough to make the decision again.

    Attributes:
        snapshot: What was seen.
        decision: What was decided.
        report: What came of the plan; None when it was not carried out.
    """

    snapshot: Snapshot
    decision: Decision[MemoryT]
    report: Report | None = None


def run_cycle(  # noqa: PLR0913 - all it needs is handed in
    platform: Platform,
    policy: Policy[MemoryT],
    memory: MemoryT,
    *,
    consent: Consent[MemoryT],
    clock: Clock,
    store: Store,
    run: str,
    watcher: Watcher,
    brake: Brake,
    poll: float = 1.0,
) -> Cycle[MemoryT]:
    """Observe, decide and, if there is consent, carry out the plan.

    A dry run is a cycle without consent.

    Args:
        platform: The cluster.
        policy: What decides.
        memory: What the policy remembers.
        consent: Asked with what was seen and decided, if there is a plan.
        clock: The time.
        store: Where it is recorded.
        run: What this cycle is called; no other is called the same.
        watcher: Who is told what happens.
        brake: How the operator stops it.
        poll: Seconds between two looks.

    Raises:
        PlatformError: The cluster cannot be seen in the beginning.
        StoreError: The record could not be kept.
    """
    snapshot = platform.observe()
    decision = policy.decide(snapshot, memory)
    if not decision.plan.steps or not consent(snapshot, decision):
        return Cycle(snapshot, decision)
    report = execute(
        decision.plan,
        platform,
        clock=clock,
        store=store,
        limits=policy.limits,
        run=run,
        watcher=watcher,
        brake=brake,
        poll=poll,
    )
    return Cycle(snapshot, decision, report)
