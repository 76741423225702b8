"""Policies, their settings and the progress of a backtest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from opendrs.cli.console import printable
from opendrs.cli.controller_policies import scheduled_policy
from opendrs.cli.progress import counting_bars
from opendrs.config.binding import unknown_name
from opendrs.config.controller_settings import MAX_INTERVAL
from opendrs.config.policy_loading import parse_assignments
from opendrs.config.settings import Settings
from opendrs.errors import ConfigurationError, DiagnosticCode, InvalidSettingError
from opendrs.policies import Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.backtest import BacktestSettings, PolicyWindows

PolicySettings = Mapping[str, Mapping[str, object]]


def parse_changes(
    names: tuple[str, ...], assignments: tuple[str, ...]
) -> dict[str, dict[str, object]]:
    """Return the settings of the options `--set`, by policy.

    Raises:
        InvalidSettingError: A setting names no policy, or one that is not run.
    """
    changes: dict[str, dict[str, object]] = {name: {} for name in names}
    if assignments and not names:
        raise InvalidSettingError(
            "--set: requires --policy; settings of a schedule are in [[schedule]]"
        )
    for key, value in parse_assignments(assignments).items():
        policy, dot, setting = key.partition(".")
        if not dot and len(names) == 1:
            policy, setting = names[0], key
        elif not dot:
            raise InvalidSettingError(
                f"--set: {key}: expected POLICY.KEY=VALUE with several policies, such "
                f"as {names[0]}.{key}"
            )
        if policy not in changes:
            raise InvalidSettingError(
                f"--set: {key}: {unknown_name('policy', policy, names)}"
            )
        changes[policy][setting] = value
    return changes


def load_policies(
    names: tuple[str, ...],
    settings: Settings,
    changes: PolicySettings,
    interval: float | None = None,
) -> dict[str, Policy[Any]]:
    """Return the policies with their settings.

    Args:
        names: Names of the policies.
        settings: The configuration.
        changes: Settings that override the configured ones.
        interval: Seconds between two decisions, as `consolidate` assumes them unless
            it is set; None if unknown.
    """
    policies = {}
    for name in names:
        values = dict(changes[name])
        is_set = "interval" in {**settings.policy_settings.get(name, {}), **values}
        if name == Consolidate.name and interval is not None and not is_set:
            values["interval"] = interval
        policies[name] = settings.load_policy(name, values)
    return policies


def scheduled_policies(
    settings: Settings, every: float, interval: float
) -> PolicyWindows:
    """Return the policies of the schedule.

    Args:
        settings: The configuration.
        every: Least seconds between two decisions of an entry.
        interval: Seconds between two snapshots. `consolidate` assumes that as its
            interval if that of its entry is shorter.

    Raises:
        ConfigurationError: There is no schedule.
    """
    if not settings.schedule:
        raise ConfigurationError(
            "schedule: expected tables [[schedule]] in the configuration, got none",
            code=DiagnosticCode.INCONSISTENT,
        )
    shortest = max(every, interval)
    entries = [
        replace(each, interval=min(max(each.interval, shortest), MAX_INTERVAL))
        for each in settings.schedule
    ]
    return PolicyWindows(
        entries=[(each, scheduled_policy(settings, each)) for each in entries],
        interval=settings.controller.interval,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """Policies of a backtest, as chosen by the options of the command.

    Attributes:
        settings: The configuration.
        names: Names of the policies.
        changes: Settings that override the configured ones.
        with_schedule: Run the policies of the schedule, too.
        every: Least seconds between two decisions.
        seed: Seed of dirty rates that are not recorded.
    """

    settings: Settings
    names: tuple[str, ...]
    changes: PolicySettings
    with_schedule: bool
    every: float
    seed: int

    def backtest_settings(self, interval: float | None = None) -> BacktestSettings:
        """Return the settings of the backtest.

        Args:
            interval: Seconds between two snapshots; None before the record is read.

        Raises:
            ConfigurationError: A setting is invalid, or there is no schedule.
        """
        least = None if interval is None else max(self.every, interval)
        schedule = None
        if self.with_schedule:
            schedule = scheduled_policies(self.settings, self.every, interval or 0.0)
        return BacktestSettings(
            policies=load_policies(self.names, self.settings, self.changes, least),
            limits=self.settings.limits,
            schedule=schedule,
            every=self.every,
            seed=self.seed,
        )


@contextmanager
def row_progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a function that shows the progress of each row on a terminal."""
    with counting_bars() as bars:
        if bars is None:
            yield None
            return
        tasks: dict[str, Any] = {}

        def show(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(printable(name), total=total)
            bars.update(tasks[name], completed=done)

        yield show
