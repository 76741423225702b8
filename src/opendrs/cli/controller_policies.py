"""Policies of the controller: the configured one, or those of the schedule."""

from __future__ import annotations

from typing import Any

from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.config.settings import Settings
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.policy_schedule import PolicySchedule, ScheduledPolicy
from opendrs.policies import Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.ports import Clock, Store


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
    settings: Settings, store: Store, clock: Clock
) -> PolicySchedule | None:
    """Return the schedule; None if one policy decides in each cycle.

    Raises:
        StoreError: The store cannot be read.
    """
    if not settings.schedule:
        return None
    entries = [
        ScheduledPolicy(
            entry,
            PolicyDecisionSource(scheduled_policy(settings, entry), store, entry.name),
        )
        for entry in settings.schedule
    ]
    interval = settings.controller.interval
    return PolicySchedule(entries, interval, settings.limits, store, clock)


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
