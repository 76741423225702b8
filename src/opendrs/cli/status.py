"""The command `opendrs status`: the controller of a platform, and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from opendrs.cli.breaker import breaker_text
from opendrs.cli.configuration import load_valid_store_settings
from opendrs.cli.console import console, print_indented, print_json, printable
from opendrs.cli.formatting import describe_action, format_bytes, format_duration
from opendrs.cli.mode import following_mode_text
from opendrs.cli.options import JSON, config_option, format_option
from opendrs.cli.plans import step_count
from opendrs.cli.platform_store import open_to_read
from opendrs.cli.schedule_status import EntryStatus, by_next_due, schedule_status
from opendrs.controller import SystemClock
from opendrs.controller.drained_nodes import drained_nodes
from opendrs.controller.modes import (
    BREAKER_KEY,
    MODE_TEXTS,
    OPERATOR_ENTRIES,
    EffectiveMode,
    mode_exceptions,
    open_api_breaker,
    overall_mode,
)
from opendrs.controller.status import (
    ControllerProcess,
    LastCycle,
    cycle_starts,
    is_recent,
    is_running,
    recorded_cycle,
    recorded_process,
    recorded_progress,
)
from opendrs.controller.step_serialization import action_document, plain
from opendrs.model import NodeId, format_count, format_timestamp
from opendrs.ports import (
    OPEN_PLAN_STATES,
    LeaseHolder,
    PlanRecord,
    PlanState,
    StepRecord,
)
from opendrs.store import DatabasePlanStore

NOT_RUNNING = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus:
    """Status of the controller of a platform.

    Attributes:
        platform: Name of the platform.
        now: Time of the query.
        holder: Process that holds the lease; None if none does.
        process: The controller that last held the lease; None if there was none.
        cycle: The last cycle; None if there was none.
        mode: The mode that applies now.
        following_mode: The mode after a pause and the open circuit breaker, as text;
            empty without these.
        exceptions: Plans and steps that the configuration treats unlike the mode.
        breaker: Entry of the circuit breaker in the store; None while it is closed.
        api_breaker: The same for the API circuit breaker.
        drained: Nodes that operators drain.
        plans: Plans that have not ended, the oldest first.
        open_steps: Steps without an outcome.
        migration_timeout: Seconds after which they are aborted; None if unknown,
            because the limits in the configuration are invalid now.
        progress: Progress of running migrations, as recorded, by step.
        schedule: Entries of the schedule, in the order of the file.
    """

    platform: str
    now: datetime
    holder: LeaseHolder | None
    process: ControllerProcess | None
    cycle: LastCycle | None
    mode: EffectiveMode
    following_mode: str
    exceptions: tuple[str, ...]
    breaker: Mapping[str, object] | None
    api_breaker: Mapping[str, object] | None
    drained: tuple[NodeId, ...]
    plans: tuple[PlanRecord, ...]
    open_steps: tuple[StepRecord, ...]
    migration_timeout: float | None
    progress: Mapping[str, Mapping[str, Any]]
    schedule: tuple[EntryStatus, ...] = ()

    @property
    def is_running(self) -> bool:
        """Return True if the holder of the lease is a controller."""
        return is_running(self.holder, self.process)

    @property
    def cycle_age(self) -> float | None:
        """Return the seconds since the end of the last cycle; None if there is none."""
        if self.cycle is None:
            return None
        return max(0.0, (self.now - self.cycle.ended_at).total_seconds())

    @property
    def is_recent(self) -> bool:
        """Return True if the last cycle did not fail and ended within three intervals.

        A controller that is executing a plan is in a cycle, which may take hours.
        """
        return is_recent(self.process, self.cycle, self.now, self.open_steps)

    def timeout_at(self, record: StepRecord) -> datetime | None:
        """Return when a step without an outcome is aborted; None if unknown.

        A controller that was started meanwhile gives it the full time again.
        """
        if self.migration_timeout is None:
            return None
        since = record.intended_at
        if self.process is not None and self.is_running:
            since = max(since, self.process.started_at)
        return since + timedelta(seconds=self.migration_timeout)


@click.command(name="status")
@click.argument("platform", metavar="PLATFORM")
@config_option
@format_option
def command(*, platform: str, config: Path | None, output_format: str) -> int:
    """Show the controller of PLATFORM, its mode, its last cycle and its plans.

    It shows the process that controls the platform, its machine, policy and interval;
    the mode, a pause, an open circuit breaker, the mode after these, and drained nodes;
    the decision of the last cycle with its age; the plans that are proposed, approved
    or running, and the steps that have not ended, with their progress and timeout. With
    [[schedule]], it shows when each entry is due, the next one first. With a PostgreSQL
    database, the command works on every machine that reaches it; with an SQLite file,
    on the machine of the controller. Nothing is changed.

    \b
      opendrs status lab
      opendrs status lab --format json
      opendrs status lab > /dev/null || echo "no controller works for lab"

    Exit status: 0 = a controller runs, and its last cycle did not fail and ended at
    most three intervals ago (or earlier, if steps are in progress now); 1 = otherwise;
    2 = invalid input; 3 = the database cannot be read.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings, invalid = load_valid_store_settings(config, platform)
    limits = None if "limits" in invalid else settings.limits
    controller, now = settings.controller, SystemClock().now()
    with open_to_read(platform, settings) as store:
        entries, open_steps = store.load_all(OPERATOR_ENTRIES), store.unfinished()
        mode = overall_mode(settings, entries, now)
        status = ControllerStatus(
            platform=platform,
            now=now,
            holder=store.lease_holder(),
            process=recorded_process(store),
            cycle=recorded_cycle(store),
            mode=mode,
            following_mode=following_mode_text(platform, controller, entries, now),
            exceptions=tuple(mode_exceptions(controller, mode)),
            breaker=entries.get(BREAKER_KEY),
            api_breaker=open_api_breaker(entries),
            drained=tuple(each.node for each in drained_nodes(store)),
            plans=tuple(DatabasePlanStore(store).plans(OPEN_PLAN_STATES)),
            open_steps=open_steps,
            migration_timeout=None if limits is None else limits.migration_timeout,
            progress={each["step"]: each for each in recorded_progress(store)},
            schedule=schedule_status(
                settings,
                cycle_starts(store),
                entries,
                now,
                is_executing=bool(open_steps),
            ),
        )
    if output_format == JSON:
        print_json(_document(status))
    else:
        _print(status)
    return 0 if status.is_running and status.is_recent else NOT_RUNNING


def _print(status: ControllerStatus) -> None:
    screen, process, cycle = console(), status.process, status.cycle
    screen.print(f"{printable(status.platform)}: {printable(_headline(status))}")
    if process is not None and status.is_running:
        cycles = f"one cycle every {process.interval:g} s"
        if status.schedule:
            cycles = "cycles by the schedule"
        screen.print(
            f"policy {process.policy}, {cycles}; since "
            f"{_time_text(process.started_at)}; opendrs {process.version}"
        )
    _print_mode(status)
    if cycle is None or status.cycle_age is None:
        screen.print("last cycle: none")
    else:
        outline = format_count(cycle.steps, "step") if cycle.steps else "no steps"
        policy = f"{printable(cycle.policy)}: " if cycle.policy else ""
        late = "" if status.is_recent else " (late or failed)"
        screen.print(
            f"last cycle: {format_duration(status.cycle_age)} ago{late}: "
            f"{policy}{printable(cycle.reason)}: {outline}: {printable(cycle.detail)}"
        )
    if status.schedule:
        screen.print("schedule:")
    for entry in by_next_due(status.schedule):
        print_indented(screen, printable(entry.line))
    screen.print(f"plans: {len(status.plans) or 'none'}")
    for plan in status.plans:
        print_indented(screen, printable(_plan_text(plan)))
    screen.print(f"unfinished steps: {len(status.open_steps) or 'none'}")
    for record in status.open_steps:
        print_indented(screen, _step_text(status, record))


def _print_mode(status: ControllerStatus) -> None:
    """Print all that determines what the controller may start."""
    screen, mode = console(), status.mode
    screen.print(
        f"mode {mode.mode} ({printable(mode.detail)}): {MODE_TEXTS[mode.mode]}"
    )
    if status.following_mode:
        print_indented(screen, printable(status.following_mode))
    for exception in status.exceptions:
        print_indented(screen, exception)
    if status.breaker is not None:
        screen.print(printable(breaker_text(status.breaker, status.platform)))
    if status.api_breaker is not None:
        screen.print(printable(breaker_text(status.api_breaker, None)))
    if status.drained:
        screen.print(f"drained nodes: {printable(', '.join(status.drained))}")


def _step_text(status: ControllerStatus, record: StepRecord) -> str:
    """Return a step that has not ended, with its progress and its timeout."""
    action = f"{printable(record.step)}: {describe_action(record.action)}"
    timeout = status.timeout_at(record)
    until = "unknown: [limits] is invalid" if timeout is None else _time_text(timeout)
    texts = [
        f"{action}, since {_time_text(record.intended_at)}",
        _progress_text(status.progress.get(record.step, {})),
        f"timeout {until}",
    ]
    return ", ".join(filter(None, texts))


def _progress_text(progress: Mapping[str, Any]) -> str:
    """Return what remains to be transferred, and the rates; empty if unknown."""
    total, remaining = progress.get("total"), progress.get("remaining")
    texts = []
    if total and remaining is not None:
        texts.append(f"{max(0, total - remaining) / total:.0%} transferred")
    if remaining is not None:
        texts.append(f"{format_bytes(remaining)} left")
    for name, key in (("bandwidth", "bandwidth"), ("dirty rate", "dirty_rate")):
        if progress.get(key) is not None:
            texts.append(f"{name} {format_bytes(progress[key])}/s")
    return ", ".join(texts)


def _time_text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _plan_text(plan: PlanRecord) -> str:
    waits = plan.state is not PlanState.RUNNING
    expires = f", expires {_time_text(plan.expires_at)}" if waits else ""
    steps = "step" if len(plan.steps) == 1 else "steps"
    return f"{plan.id} {plan.state}: {plan.policy}, {step_count(plan)} {steps}{expires}"


def _plan_document(plan: PlanRecord) -> dict[str, object]:
    return {
        "id": plan.id,
        "state": plan.state,
        "policy": plan.policy,
        "steps": len(plan.steps),
        "expires_at": format_timestamp(plan.expires_at),
    }


def _step_document(status: ControllerStatus, record: StepRecord) -> dict[str, object]:
    timeout = status.timeout_at(record)
    return {
        "run": record.run,
        "id": record.step,
        **action_document(record.action),
        "since": format_timestamp(record.intended_at),
        "timeout_at": None if timeout is None else format_timestamp(timeout),
        "progress": _progress_document(status.progress.get(record.step)),
    }


def _progress_document(
    progress: Mapping[str, Any] | None,
) -> Mapping[str, Any] | None:
    if progress is None:
        return None
    return {name: value for name, value in progress.items() if name != "step"}


def _headline(status: ControllerStatus) -> str:
    if status.holder is None:
        return "no controller is running"
    where = f"process {status.holder.pid} on {status.holder.host}"
    if status.is_running:
        return f"controller running: {where}"
    return f"no controller is running; {where} uses the store"


def _document(status: ControllerStatus) -> dict[str, object]:
    process, cycle = status.process, status.cycle
    document = {
        "platform": status.platform,
        "running": status.is_running,
        "recent": status.is_recent,
        "holder": None if status.holder is None else asdict(status.holder),
        "controller": None
        if process is None
        else {**asdict(process), "started_at": format_timestamp(process.started_at)},
        "last_cycle": None
        if cycle is None
        else {
            **asdict(cycle),
            "ended_at": format_timestamp(cycle.ended_at),
            "age": status.cycle_age,
        },
        "mode": {**asdict(status.mode), "following": status.following_mode or None},
        "breaker": status.breaker,
        "api_breaker": status.api_breaker,
        "drained_nodes": status.drained,
        "plans": [_plan_document(plan) for plan in status.plans],
        "schedule": [entry.document for entry in status.schedule],
        "open_steps": [_step_document(status, each) for each in status.open_steps],
    }
    return dict(plain(document))
