"""A decision within a time: the best so far when it is over, or when one is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from opendrs.cli.progress import progress_bars
from opendrs.config.policy_loading import parse_assignments
from opendrs.config.settings import Settings
from opendrs.errors import ConfigurationError
from opendrs.model import Limits, Snapshot
from opendrs.policies import Decision, Policy
from opendrs.policies.optimize import Optimize

SLICES = 40  # in which the work is done, about
MAX_SLICE = 2.0  # seconds of one of them: Ctrl-C may have to wait for it, or loses it
FIRST_ITERATIONS = 20_000  # moves that are looked at to learn how long that takes
MAX_ITERATIONS = 10**8  # at once, where they seem to take no time


def choose_policy(
    settings: Settings,
    name: str | None,
    assignments: Sequence[str],
    budget: str | None,
    time_limit: float | None,
) -> Policy[Any]:
    """Return the policy that the options of a command ask for.

    Args:
        settings: What is configured.
        name: The policy; None for the configured one.
        assignments: Its settings.
        budget: How much it may move; None unless that is said.
        time_limit: How long it may search; None unless that is said.

    Raises:
        ConfigurationError: There is none, it takes no budget or time, or its budget
            is said twice.
    """
    changes = parse_assignments(assignments)
    if budget is None:
        policy = settings.load_policy(name, changes)
    else:
        chosen = settings.policy if name is None else name
        if chosen != Optimize.name:
            raise ConfigurationError(
                f"--budget: {chosen} takes none; --policy optimize does"
            )
        if "budget" in changes:
            raise ConfigurationError("--budget: --set budget=… says it already")
        policy = settings.load_policy(name, {**changes, "budget": budget})
    if time_limit is not None:
        require_time_limit_support(policy)
    return policy


@dataclass(frozen=True, slots=True)
class TimeLimitedPolicy:
    """The policy `optimize` that searches for so many seconds.

    Attributes:
        policy: What it is otherwise.
        time_limit: For how long it searches.
    """

    name: ClassVar[str] = Optimize.name
    policy: Optimize
    time_limit: float

    @property
    def limits(self) -> Limits:
        """Return what the operator allows."""
        return self.policy.limits

    def initial_memory(self) -> None:
        """Return None: each decision stands by itself."""

    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the best that is found in that time, or until Ctrl-C."""
        del memory
        return decide_within(self.policy, snapshot, self.time_limit)


def require_time_limit_support(policy: Policy[Any]) -> None:
    """Check that *policy* becomes better with time.

    Raises:
        ConfigurationError: It does not.
    """
    if not isinstance(policy, Optimize):
        raise ConfigurationError(
            f"--time-limit: {policy.name} takes as long as it takes; optimize can be given "
            "a time"
        )


def decide_within(
    policy: Policy[Any], snapshot: Snapshot, time_limit: float
) -> Decision[Any]:
    """Return the best that *policy* finds in so many seconds, or until Ctrl-C.

    Making a plan of what was found takes its own time after that.

    Raises:
        ConfigurationError: The policy does not become better with time.
    """
    require_time_limit_support(policy)
    assert isinstance(policy, Optimize)  # noqa: S101 - for the type checker
    started_at = monotonic()
    with _time_bar(policy.name) as bar:
        run = policy.start_run(snapshot)
        if isinstance(run, Decision):
            return run
        iterations, elapsed = FIRST_ITERATIONS, 0.0
        slice_time = min(time_limit / SLICES, MAX_SLICE)
        try:
            while elapsed < 1 and not run.exhausted:
                before = monotonic()
                target_share = (before - started_at + slice_time) / time_limit
                run.improve(iterations, min(1.0, max(target_share, elapsed + 1e-6)))
                duration = max(monotonic() - before, 1e-4)
                iterations = min(
                    MAX_ITERATIONS,
                    max(FIRST_ITERATIONS, int(iterations * slice_time / duration)),
                )
                elapsed = (monotonic() - started_at) / time_limit
                bar(elapsed)
        except KeyboardInterrupt:
            pass  # who stops it wants what there is
    return run.decision()


@contextmanager
def _time_bar(policy: str) -> Iterator[Callable[[float], None]]:
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
        task = bars.add_task(f"planning with {policy}", total=1.0)
        yield lambda elapsed: bars.update(task, completed=min(elapsed, 1.0))
