"""Policies, their settings and the progress of a backtest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opendrs.cli.console import printable
from opendrs.cli.progress import counting_bars
from opendrs.config.binding import unknown_name
from opendrs.config.policy_loading import parse_assignments
from opendrs.config.settings import Settings
from opendrs.errors import InvalidSettingError
from opendrs.policies import Policy
from opendrs.policies.consolidation import Consolidate

PolicySettings = Mapping[str, Mapping[str, object]]


def parse_changes(
    names: tuple[str, ...], assignments: tuple[str, ...]
) -> dict[str, dict[str, object]]:
    """Return the settings of the options `--set`, by policy.

    Raises:
        InvalidSettingError: A setting names no policy, or one that is not run.
    """
    changes: dict[str, dict[str, object]] = {name: {} for name in names}
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
