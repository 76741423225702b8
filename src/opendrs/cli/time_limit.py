"""Decisions within a time limit: the best plan found until then, or until Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Any

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from opendrs.cli.progress import progress_bars
from opendrs.config.policy_loading import parse_assignments
from opendrs.config.settings import Settings
from opendrs.controller.cycle import Evaluation, PolicyDecisionSource
from opendrs.controller.node_inventory import record_nodes
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import Snapshot
from opendrs.optimizer import END_OF_SEARCH, Portion
from opendrs.policies import Decision, Policy
from opendrs.policies.optimize import Optimize
from opendrs.ports import Store

SLICES = 40  # approximate number of slices of the search
MAX_SLICE = 2.0  # seconds
FIRST_ITERATIONS = 20_000  # iterations of the first slice, to measure their speed
MAX_ITERATIONS = 10**8  # iterations of one slice


def choose_policy(
    settings: Settings,
    name: str | None,
    assignments: Sequence[str],
    budget: str | None,
    time_limit: float | None,
) -> Policy[Any]:
    """Return the policy that the options of a command select.

    Args:
        settings: The configuration.
        name: The value of `--policy`; None for the configured policy.
        assignments: The values of `--set`.
        budget: The value of `--budget`; None if not given.
        time_limit: The value of `--time-limit` in seconds; None if not given.

    Raises:
        ConfigurationError: There is no such policy, it has no budget or time limit,
            or the budget is given twice.
    """
    changes = parse_assignments(assignments)
    if budget is None:
        policy = settings.load_policy(name, changes)
    else:
        chosen = settings.policy if name is None else name
        if chosen != Optimize.name:
            raise ConfigurationError(
                f"--budget: {chosen} has no budget; use --policy optimize",
                code=DiagnosticCode.INCONSISTENT,
            )
        if "budget" in changes:
            raise ConfigurationError(
                "--budget: also given by --set budget; remove one",
                code=DiagnosticCode.INCONSISTENT,
            )
        policy = settings.load_policy(name, {**changes, "budget": budget})
    if time_limit is not None:
        require_time_limit_support(policy)
    return policy


class TimeLimitedDecisionSource(PolicyDecisionSource):
    """Decision source that evaluates the policy `optimize` with a time limit.

    Args:
        policy: The policy.
        store: Contains the node inventory.
        time_limit: Search time in seconds.
    """

    def __init__(self, policy: Optimize, store: Store, time_limit: float) -> None:
        super().__init__(policy, store)
        self._optimize = policy
        self._time_limit = time_limit

    def evaluations(self, snapshot: Snapshot) -> Iterator[Evaluation[None]]:
        """Yield the best decision found within the limit, or until Ctrl-C."""
        record_nodes(snapshot, self._store)
        with _time_bar(self._optimize.name) as bar:
            limit = TimeLimit(self._time_limit, bar)
            decision = self._optimize.decide_until(snapshot, limit)
        yield Evaluation(None, decision, tuple(limit.yielded))


def require_time_limit_support(policy: Policy[Any]) -> None:
    """Check that *policy* supports a time limit.

    Raises:
        ConfigurationError: It does not.
    """
    if not isinstance(policy, Optimize):
        raise ConfigurationError(
            f"--time-limit: {policy.name} has no time limit; use --policy optimize",
            code=DiagnosticCode.INCONSISTENT,
        )


def decide_within(
    policy: Policy[Any], snapshot: Snapshot, time_limit: float
) -> Decision[Any]:
    """Return the best decision found within *time_limit* seconds, or until Ctrl-C.

    The sequencing of the plan takes additional time.

    Raises:
        ConfigurationError: The policy does not support a time limit.
    """
    require_time_limit_support(policy)
    assert isinstance(policy, Optimize)  # noqa: S101 - for the type checker
    with _time_bar(policy.name) as bar:
        return policy.decide_until(snapshot, TimeLimit(time_limit, bar))


class TimeLimit:
    """Stopping criterion: a time since the construction, or Ctrl-C during a search.

    Both take effect after the current slice. A second Ctrl-C interrupts the program.
    Several searches share the time. Each has a slice, unless Ctrl-C ended one before.

    Args:
        seconds: Time in seconds.
        show_elapsed: Called with the elapsed fraction of the time after each slice.

    Attributes:
        yielded: The slices of the searches so far. `END_OF_SEARCH` follows those of a
            search that the time or Ctrl-C ended.
    """

    def __init__(self, seconds: float, show_elapsed: Callable[[float], None]) -> None:
        self._seconds = seconds
        self._show_elapsed = show_elapsed
        self._started_at = monotonic()
        self._is_interrupted = False
        self.yielded: list[Portion] = []

    def portions(self, size: int) -> Generator[Portion]:
        """Yield slices of similar duration until the time has elapsed."""
        del size  # the search uses the whole time
        iterations, elapsed = FIRST_ITERATIONS, 0.0
        slice_time = min(self._seconds / SLICES, MAX_SLICE)
        with self._noted_interrupt() as is_interrupted:
            while elapsed < 1 and not is_interrupted():
                before = monotonic()
                target = (before - self._started_at + slice_time) / self._seconds
                portion = Portion(iterations, min(1.0, max(target, elapsed + 1e-6)))
                self.yielded.append(portion)
                yield portion
                duration = max(monotonic() - before, 1e-4)
                iterations = min(
                    MAX_ITERATIONS,
                    max(FIRST_ITERATIONS, int(iterations * slice_time / duration)),
                )
                elapsed = (monotonic() - self._started_at) / self._seconds
                self._show_elapsed(elapsed)
        self.yielded.append(END_OF_SEARCH)

    @contextmanager
    def _noted_interrupt(self) -> Iterator[Callable[[], bool]]:
        """Yield a function that returns True after Ctrl-C, also in a former search."""
        with _note_interrupt() as is_interrupted:
            try:
                yield lambda: self._is_interrupted or is_interrupted()
            finally:
                self._is_interrupted |= is_interrupted()


@contextmanager
def _note_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after Ctrl-C; the second one interrupts."""
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _time_bar(policy: str) -> Iterator[Callable[[float], None]]:
    """Yield a function that shows the elapsed fraction of the time on a terminal."""
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
