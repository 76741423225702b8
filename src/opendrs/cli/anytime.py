"""A decision within a time: the best so far when it is over, or when one is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from opendrs.cli.live import progress_bars
from opendrs.controller.selection import parse_assignments
from opendrs.controller.settings import Settings
from opendrs.errors import ConfigurationError
from opendrs.model import Limits, Snapshot
from opendrs.policies import Decision, Optimize, Policy

PORTIONS = 40  # in which the work is done, about
LONGEST = 2.0  # seconds of one of them: Ctrl-C may have to wait for it, or loses it
FIRST = 20_000  # moves that are looked at to learn how long that takes
MOST = 10**8  # at once, where they seem to take no time


def chosen_policy(
    settings: Settings,
    name: str | None,
    assignments: Sequence[str],
    budget: str | None,
    seconds: float | None,
) -> Policy[Any]:
    """Return the policy that the options of a command ask for.

    Args:
        settings: What is configured.
        name: The policy; None for the configured one.
        assignments: Its settings.
        budget: How much it may move; None unless that is said.
        seconds: How long it may search; None unless that is said.

    Raises:
        ConfigurationError: There is none, it takes no budget or time, or its budget
            is said twice.
    """
    changes = parse_assignments(assignments)
    if budget is None:
        policy = settings.chosen_policy(name, changes)
    else:
        chosen = settings.policy if name is None else name
        if chosen != Optimize.name:
            raise ConfigurationError(
                f"--budget: {chosen} takes none; --policy optimize does"
            )
        if "budget" in changes:
            raise ConfigurationError("--budget: --set budget=… says it already")
        policy = settings.chosen_policy(name, {**changes, "budget": budget})
    if seconds is not None:
        require_time(policy)
    return policy


@dataclass(frozen=True, slots=True)
class Within:
    """The policy `optimize` that searches for so many seconds.

    Attributes:
        policy: What it is otherwise.
        seconds: For how long it searches.
    """

    name: ClassVar[str] = Optimize.name
    policy: Optimize
    seconds: float

    @property
    def limits(self) -> Limits:
        """Return what the operator allows."""
        return self.policy.limits

    def initial_memory(self) -> None:
        """Return None: each decision stands by itself."""

    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the best that is found in that time, or until Ctrl-C."""
        del memory
        return decided_within(self.policy, snapshot, self.seconds)


def require_time(policy: Policy[Any]) -> None:
    """Check that *policy* becomes better with time.

    Raises:
        ConfigurationError: It does not.
    """
    if not isinstance(policy, Optimize):
        raise ConfigurationError(
            f"--time: {policy.name} takes as long as it takes; optimize can be given "
            "a time"
        )


def decided_within(
    policy: Policy[Any], snapshot: Snapshot, seconds: float
) -> Decision[Any]:
    """Return the best that *policy* finds in so many seconds, or until Ctrl-C.

    Making a plan of what was found takes its own time after that.

    Raises:
        ConfigurationError: The policy does not become better with time.
    """
    require_time(policy)
    assert isinstance(policy, Optimize)  # noqa: S101 - for the type checker
    begun = monotonic()
    with _shown(policy.name) as bar:
        work = policy.work(snapshot)
        if isinstance(work, Decision):
            return work
        iterations, gone = FIRST, 0.0
        portion = min(seconds / PORTIONS, LONGEST)
        try:
            while gone < 1 and not work.exhausted:
                before = monotonic()
                share = (before - begun + portion) / seconds
                work.improve(iterations, min(1.0, max(share, gone + 1e-6)))
                took = max(monotonic() - before, 1e-4)
                iterations = min(MOST, max(FIRST, int(iterations * portion / took)))
                gone = (monotonic() - begun) / seconds
                bar(gone)
        except KeyboardInterrupt:
            pass  # who stops it wants what there is
    return work.decision()


@contextmanager
def _shown(whom: str) -> Iterator[Callable[[float], None]]:
    """Give what shows on a terminal how much of the time is gone."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
    )
    with progress_bars(*columns) as bars:
        if bars is None:
            yield lambda _: None
            return
        task = bars.add_task(f"planning with {whom}", total=1.0)
        yield lambda gone: bars.update(task, completed=min(gone, 1.0))
