"""The mode of the controller: which plans, and which steps, start without approval.

An operator sets the mode and pauses the controller beside a running one: the commands
write entries that the controller reads in each cycle and before each step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.config.settings import Settings
from opendrs.controller.scheduling import calendar_of, describe_entry
from opendrs.model import (
    Guest,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    StepId,
    decoding,
    require_type,
    time_as_text,
    time_from_text,
)
from opendrs.policies import DecisionReason

OPERATOR_ENTRIES = "operator/"
MODE_KEY = "operator/mode"
PAUSE_KEY = "operator/pause"
BREAKER_KEY = "operator/breaker"
RESET_KEY = "operator/breaker-reset"
API_BREAKER_KEY = "operator/api-breaker"
REPAIR_REASONS = frozenset(
    {
        DecisionReason.DRAINS_NODES.value,
        DecisionReason.REPAIRS_RULES.value,
        DecisionReason.RETURNS_GUESTS.value,
    }
)
Entries = Mapping[str, Mapping[str, object]]
MODE_TEXTS: Mapping[Mode, str] = {
    Mode.OBSERVE: "records its decisions, executes no plans",
    Mode.ADVISE: "proposes plans, executes approved plans",
    Mode.AUTOMATIC: "executes its plans",
}


class ModeSource(StrEnum):
    """Origin of the effective mode. The values are stable."""

    CONFIGURATION = "configuration"
    """The table `[controller]`."""
    OPERATOR = "operator"
    """The command `opendrs mode`."""
    POLICY = "policy"
    """The setting `policy_modes`."""
    SCHEDULE = "schedule"
    """The entry of the schedule: its mode, or it is not open."""
    REPAIR = "repair"
    """The setting `repair`, for plans that repair violated strict rules."""
    BREAKER = "breaker"
    """The circuit breaker is open."""
    API_BREAKER = "api-breaker"
    """The circuit breaker for the API of the platform is open."""
    PAUSE = "pause"
    """The command `opendrs pause`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveMode:
    """The mode that applies now, and why.

    Attributes:
        mode: The mode.
        source: What determines it.
        detail: The cause as a phrase, such as `set by ada: maintenance`.
    """

    mode: Mode
    source: ModeSource
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChange:
    """Mode that an operator has set; the value of the entry `MODE_KEY`."""

    mode: Mode
    user: str
    at: datetime

    def entry(self) -> dict[str, object]:
        """Return the value of the entry."""
        at = time_as_text(self.at)
        return {"mode": self.mode.value, "user": self.user, "at": at}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Pause that an operator has requested; the value of the entry `PAUSE_KEY`."""

    until: datetime
    because: str
    user: str
    at: datetime

    def entry(self) -> dict[str, object]:
        """Return the value of the entry."""
        return {
            "until": time_as_text(self.until),
            "because": self.because,
            "user": self.user,
            "at": time_as_text(self.at),
        }


def overall_mode(settings: Settings, entries: Entries, now: datetime) -> EffectiveMode:
    """Return the mode that applies now to all policies of the controller.

    Args:
        settings: The configuration.
        entries: The entries of the store that operators set, by key.
        now: The time.

    Raises:
        StoreError: An entry cannot be read.
    """
    policies = settings.policy_names
    return effective_mode(settings.controller, entries, now, policy=policies)


def effective_mode(  # noqa: PLR0913 - all that determines the mode
    settings: ControllerSettings,
    entries: Entries,
    now: datetime,
    *,
    policy: str,
    reason: str = "",
    schedule: ScheduleSettings | None = None,
) -> EffectiveMode:
    """Return the mode that applies to a plan now.

    The mode that an operator has set replaces the configured one. `policy_modes` and
    the schedule only restrict it. In mode advise, a repair may be automatic. An open
    circuit breaker allows at most advise. A pause, and an open circuit breaker for the
    API of the platform, allow nothing.

    Args:
        settings: The configuration.
        entries: The entries of the store that operators set, by key.
        now: The time.
        policy: Name of the policy that decides.
        reason: Code of the reason of the decision; empty if there is none.
        schedule: Entry of the schedule that the plan was decided for; None without.

    Raises:
        StoreError: An entry cannot be read.
    """
    suspended = _suspended_mode(entries, now)
    if suspended is not None:
        return suspended
    effective = platform_mode(settings, entries)
    allowed = settings.policy_modes.get(policy, Mode.AUTOMATIC)
    if allowed.level < effective.mode.level:
        detail = f"the policy {policy} is configured with mode {allowed}"
        effective = EffectiveMode(mode=allowed, source=ModeSource.POLICY, detail=detail)
    effective = _scheduled_mode(effective, schedule, now)
    if BREAKER_KEY in entries and effective.mode is not Mode.OBSERVE:
        return EffectiveMode(
            mode=Mode.ADVISE,
            source=ModeSource.BREAKER,
            detail="the circuit breaker is open",
        )
    if (
        effective.mode is Mode.ADVISE
        and settings.repair is Mode.AUTOMATIC
        and reason in REPAIR_REASONS
    ):
        return EffectiveMode(
            mode=Mode.AUTOMATIC,
            source=ModeSource.REPAIR,
            detail="repairs are configured with mode automatic",
        )
    return effective


def _suspended_mode(entries: Entries, now: datetime) -> EffectiveMode | None:
    """Return the mode of a pause or an open API circuit breaker; None without."""
    paused = current_pause(entries, now)
    if paused is not None:
        return EffectiveMode(
            mode=Mode.OBSERVE,
            source=ModeSource.PAUSE,
            detail=f"paused by {paused.user} until "
            f"{paused.until:%Y-%m-%d %H:%M} UTC: {paused.because}",
        )
    if open_api_breaker(entries) is not None:
        return EffectiveMode(
            mode=Mode.OBSERVE,
            source=ModeSource.API_BREAKER,
            detail="the API circuit breaker is open",
        )
    return None


def _scheduled_mode(
    effective: EffectiveMode, schedule: ScheduleSettings | None, now: datetime
) -> EffectiveMode:
    """Return the stricter one of *effective* and what *schedule* allows now."""
    if schedule is None:
        return effective
    allowed, state = schedule.mode, f"is configured with mode {schedule.mode}"
    if not calendar_of(schedule).is_open(now):
        allowed, state = Mode.OBSERVE, f"is {describe_entry(schedule, now)}"
    if effective.mode.level <= allowed.level:
        return effective
    detail = f"the schedule {schedule.name} {state}"
    return EffectiveMode(mode=allowed, source=ModeSource.SCHEDULE, detail=detail)


def platform_mode(settings: ControllerSettings, entries: Entries) -> EffectiveMode:
    """Return the mode that is configured, or that an operator has set instead.

    Raises:
        StoreError: The entry cannot be read.
    """
    change = mode_change(entries)
    if change is None:
        is_default = settings.mode is ControllerSettings().mode
        return EffectiveMode(
            mode=settings.mode,
            source=ModeSource.CONFIGURATION,
            detail="default" if is_default else "configured",
        )
    return EffectiveMode(
        mode=change.mode, source=ModeSource.OPERATOR, detail=f"set by {change.user}"
    )


def mode_change(entries: Entries) -> ModeChange | None:
    """Return the mode that an operator has set, or None.

    Raises:
        StoreError: The entry cannot be read.
    """
    entry = entries.get(MODE_KEY)
    if entry is None:
        return None
    with decoding("the mode of an operator", entry):
        require_type(str, entry.values())
        return ModeChange(
            mode=Mode(str(entry["mode"])),
            user=str(entry["user"]),
            at=time_from_text(str(entry["at"])),
        )


def current_pause(entries: Entries, now: datetime) -> Pause | None:
    """Return the pause that has not ended at *now*, or None.

    Raises:
        StoreError: The entry cannot be read.
    """
    entry = entries.get(PAUSE_KEY)
    if entry is None:
        return None
    with decoding("a pause", entry):
        require_type(str, entry.values())
        pause = Pause(
            until=time_from_text(str(entry["until"])),
            because=str(entry["because"]),
            user=str(entry["user"]),
            at=time_from_text(str(entry["at"])),
        )
    return pause if now < pause.until else None


def open_api_breaker(entries: Entries) -> Mapping[str, object] | None:
    """Return the entry of the API circuit breaker if it is open, otherwise None."""
    entry = entries.get(API_BREAKER_KEY)
    return None if entry is None or "closed_at" in entry else entry


def unattended_steps(
    steps: Sequence[Step],
    groups: Collection[Collection[StepId]],
    snapshot: Snapshot,
    settings: ControllerSettings,
    mode: EffectiveMode,
) -> tuple[Step, ...]:
    """Return the *steps* that need no approval in *mode*.

    Omitted are the steps that need an approval by themselves, and the steps that depend
    on an omitted one or must start together with it. What remains is safe: it is the
    beginning of one of the orders in which the plan may be executed. In mode advise,
    all steps need an approval but those of automatic guests; while the circuit breaker
    is open, these as well.

    Args:
        steps: The steps of a plan, in its order.
        groups: Steps that must start together.
        snapshot: A snapshot, for the tags; a guest that it lacks needs an approval.
        settings: The configuration.
        mode: The mode that applies to the plan.
    """
    if mode.mode is Mode.OBSERVE or mode.source is ModeSource.BREAKER:
        return ()
    omitted = {
        step.id
        for step in steps
        if _needs_approval(step, snapshot, settings, mode.mode)
    }
    size = -1
    while size != len(omitted):
        size = len(omitted)
        omitted |= {step.id for step in steps if omitted.intersection(step.depends_on)}
        for group in groups:
            if omitted.intersection(group):
                omitted |= set(group)
    return tuple(step for step in steps if step.id not in omitted)


def _needs_approval(
    step: Step, snapshot: Snapshot, settings: ControllerSettings, mode: Mode
) -> bool:
    if isinstance(step.action, PowerOn | PowerOff):
        return mode is not Mode.AUTOMATIC
    guest = snapshot.guests.get(step.action.guest)
    if guest is None or _is_listed(guest, settings.advise_guests, settings.advise_tags):
        return True
    return mode is not Mode.AUTOMATIC and not _is_listed(
        guest, settings.automatic_guests, settings.automatic_tags
    )


def _is_listed(guest: Guest, guests: Collection[str], tags: Collection[str]) -> bool:
    return guest.id in guests or not guest.tags.isdisjoint(tags)


def mode_exceptions(settings: ControllerSettings, mode: EffectiveMode) -> Iterator[str]:
    """Yield what *settings* treat unlike other plans and steps in *mode*."""
    advised = bool(settings.advise_tags or settings.advise_guests)
    if mode.mode is Mode.AUTOMATIC and advised:
        yield "steps of guests in advise_tags and advise_guests need an approval"
    if mode.mode is not Mode.ADVISE or mode.source is ModeSource.BREAKER:
        return
    if settings.repair is Mode.AUTOMATIC:
        yield "repairs of strict rules, drains and returns start without approval"
    if settings.automatic_tags or settings.automatic_guests:
        exempt = ", unless in advise_tags or advise_guests" if advised else ""
        yield (
            "steps of guests in automatic_tags and automatic_guests start without "
            f"approval{exempt}"
        )


def with_prerequisites(
    steps: Sequence[Step],
    groups: Collection[Collection[StepId]],
    chosen: Collection[StepId],
) -> tuple[StepId, ...]:
    """Return the *chosen* steps with all that they depend on, in the order of the plan.

    Args:
        steps: The steps of a plan.
        groups: Steps that must start together.
        chosen: Ids of steps of the plan.
    """
    included = set(chosen)
    size = -1
    while size != len(included):
        size = len(included)
        for step in steps:
            if step.id in included:
                included |= set(step.depends_on)
        for group in groups:
            if included.intersection(group):
                included |= set(group)
    return tuple(step.id for step in steps if step.id in included)
