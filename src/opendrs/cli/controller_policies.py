"""Policies of the controller: the configured one, or those of the schedule."""

from __future__ import annotations

from typing import Any

from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.config.settings import Settings
from opendrs.controller.agent_requests import AgentLog, RequestBatch
from opendrs.controller.cycle import DecisionSource, PolicyDecisionSource
from opendrs.controller.policy_schedule import PolicySchedule, ScheduledPolicy
from opendrs.policies import Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.ports import Clock
from opendrs.store import DatabaseRequestStore, DatabaseStore


def configured_policy(settings: Settings) -> Policy[Any]:
    """Return the configured policy; `consolidate` also receives the cycle interval."""
    changes = _cycle_interval(settings.policy, settings.controller.interval)
    return settings.load_policy(changes=changes)


def scheduled_policy(settings: Settings, entry: ScheduleSettings) -> Policy[Any]:
    """Return the policy of *entry*; `consolidate` also receives its interval."""
    changes = _cycle_interval(entry.policy, entry.interval)
    return settings.load_policy(entry.policy, {**entry.settings, **changes})


def _cycle_interval(policy: str, interval: float) -> dict[str, object]:
    return {"interval": interval} if policy == Consolidate.name else {}


def configured_schedule(
    settings: Settings, store: DatabaseStore, clock: Clock
) -> PolicySchedule | None:
    """Return the schedule; None if one policy decides in each cycle.

    Raises:
        StoreError: The store cannot be read.
    """
    if not settings.schedule:
        return None
    agent_log = AgentLog()
    entries = [
        _scheduled(settings, each, store, clock, agent_log)
        for each in settings.schedule
    ]
    interval = settings.controller.interval
    return PolicySchedule(entries, interval, settings.limits, store, clock)


def _scheduled(
    settings: Settings,
    entry: ScheduleSettings,
    store: DatabaseStore,
    clock: Clock,
    agent_log: AgentLog,
) -> ScheduledPolicy:
    """Return *entry* with its decision source."""
    policy = scheduled_policy(settings, entry)
    source = source_of_decisions(
        policy, settings, store, clock, schedule=entry.name, agent_log=agent_log
    )
    if isinstance(source, RequestBatch):
        return ScheduledPolicy(entry, source, source.has_requests)
    return ScheduledPolicy(entry, source)


def source_of_decisions(  # noqa: PLR0913 - each a dependency of a decision
    policy: Policy[Any],
    settings: Settings,
    store: DatabaseStore,
    clock: Clock,
    *,
    schedule: str = "",
    agent_log: AgentLog | None = None,
) -> DecisionSource:
    """Return the source of the decisions of *policy*.

    With agents, `consolidate` decides on their requests.

    Args:
        policy: The policy.
        settings: The configuration.
        store: The store.
        clock: The time.
        schedule: Name of the entry of the schedule with *policy*, or empty.
        agent_log: Log of the agents that several sources share.
    """
    if settings.api is None or not isinstance(policy, Consolidate):
        return PolicyDecisionSource(policy, store, schedule)
    limits = settings.api.staleness_limits(settings.agent_interval)
    requests = DatabaseRequestStore(store)
    return RequestBatch(
        policy, requests, store, clock, limits, schedule=schedule, agent_log=agent_log
    )


def describe_cycles(settings: Settings) -> str:
    """Return as a phrase which policies decide, and how often."""
    if not settings.schedule:
        interval = settings.controller.interval
        return f"policy {settings.policy}, one cycle every {interval:g} s"
    entries = (
        f"{each.name} (policy {each.policy}, every {each.interval:g} s)"
        for each in settings.schedule
    )
    return f"schedule {', '.join(entries)}"
