"""Who is shown a performance: a person at a screen, or a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from opendrs.cli.cluster import print_nodes, title
from opendrs.cli.deeds import deed
from opendrs.cli.performance import Performance
from opendrs.cli.progress import Reporter, record_document
from opendrs.cli.proposal import print_decision, print_loads, print_measures
from opendrs.cli.repair import MOST_RULES, RepairCommand, rule_report
from opendrs.cli.screen import console, print_json, visible
from opendrs.cli.summary import (
    PlanSummary,
    cluster_load,
    decision_document,
    print_change,
    print_summary,
    summarize,
)
from opendrs.cli.timing import print_schedule
from opendrs.controller import Brake, SilentWatcher, Watcher
from opendrs.model import Snapshot, first_few
from opendrs.ports import Outcome, StepRecord
from opendrs.rules import violation_change
from opendrs.scoring import schedule


class ScreenAudience:
    """A person; who reads tables and watches bars.

    Args:
        repair: The command that repairs broken rules.
        everything: Whether to show all steps, nodes and notes, however many.
        cluster: Whether to show the nodes before the plan.
        brief: Whether to show only summaries: no steps, nodes and notes.
    """

    def __init__(
        self,
        repair: RepairCommand,
        *,
        everything: bool = False,
        cluster: bool = False,
        brief: bool = False,
    ) -> None:
        self._screen = console()
        self._repair = repair
        self._everything = everything
        self._cluster = cluster
        self._brief = brief
        self._summary: PlanSummary | None = None

    def interrupted(self, records: Sequence[StepRecord]) -> None:
        """Say that an earlier run is followed to its end first."""
        count = len(records)
        steps = "one step" if count == 1 else f"{count} steps"
        self._screen.print(
            f"An earlier run was interrupted with {steps} under way; following "
            "to the end what it started."
        )

    def decided(self, performance: Performance) -> None:
        """Show the cluster, if wanted, and the plan."""
        task, before = performance.task, performance.before
        self._summary = summary = _summary(performance, self._repair)
        if self._brief:
            print_summary(
                self._screen, summary, None if self._everything else MOST_RULES
            )
            return
        if self._cluster:
            self._screen.print(title(before, task.source.platform.name))
            self._screen.print()
            print_nodes(self._screen, before, everything=self._everything)
            self._screen.print()
        print_decision(self._screen, summary, before, everything=self._everything)
        print_schedule(self._screen, summary.schedule, task.policy.limits)

    def repeat_summary(self) -> None:
        """Show the summary once more, so that it is on the screen with a question."""
        if self._summary is not None:
            self._screen.print()
            print_summary(self._screen, self._summary, most_rules=0)

    def watcher(self, brake: Brake) -> AbstractContextManager[Watcher]:
        """Return bars on a terminal, lines elsewhere."""
        self._screen.print()
        return Reporter(console(narrowest=1), brake)

    def finished(self, performance: Performance) -> None:
        """Show what was done, what was not and why, and the nodes."""
        report, after = performance.report, performance.after
        self._screen.print()
        if report is None:
            self._screen.print("There is nothing to do.")
            return
        if after is None:
            self._screen.print("The cluster cannot be seen now.")
        else:
            self._show_change(performance, after)
        self._screen.print()
        self._screen.print(f"Result: {report.summary}.")
        for line in _undone(report.records):
            self._screen.print(line)

    def _show_change(self, performance: Performance, after: Snapshot) -> None:
        screen, before = self._screen, performance.before
        if not self._brief:
            print_loads(screen, before, after, everything=self._everything)
        if self._everything:
            print_measures(screen, performance.decision.before, performance.measures)
        if not self._brief:
            screen.print()
        rules = violation_change(before, after)
        print_change(screen, cluster_load(before), cluster_load(after), rules)


def _undone(records: Iterable[StepRecord]) -> Iterator[str]:
    """Yield what was not done and why; what has one reason, in one line."""
    alike: dict[tuple[str, str], list[StepRecord]] = {}
    for record in records:
        if record.outcome not in (None, Outcome.DONE):
            alike.setdefault((record.outcome, record.detail), []).append(record)
    for (outcome, why), those in alike.items():
        names = first_few([record.step for record in those])
        what = f": {deed(those[0].action)}" if len(those) == 1 else ""
        yield visible(f"  {outcome} {names}{what}: {why}")


def _summary(performance: Performance, repair: RepairCommand) -> PlanSummary:
    """Return the figures of the plan of *performance*."""
    decision, policy = performance.decision, performance.task.policy
    before = performance.before
    rules = rule_report(before, decision.plan, policy, repair)
    timing = schedule(decision.plan, before, policy.limits)
    return summarize(decision, before, timing, rules)


class JsonAudience:
    """A program, which reads one JSON object at the end.

    Args:
        repair: The command that repairs broken rules.
    """

    def __init__(self, repair: RepairCommand) -> None:
        self._repair = repair

    def interrupted(self, records: Sequence[StepRecord]) -> None:
        """Say nothing: the records are in the object."""

    def decided(self, performance: Performance) -> None:
        """Say nothing: the plan is in the object."""

    def watcher(self, brake: Brake) -> AbstractContextManager[Watcher]:
        """Return a watcher that says nothing."""
        del brake
        return nullcontext(SilentWatcher())

    def finished(self, performance: Performance) -> None:
        """Print the plan, and the records of what was done."""
        records = performance.report.records if performance.report else ()
        print_json(
            {
                "resumed": [record_document(each) for each in performance.resumed],
                "plan": decision_document(
                    _summary(performance, self._repair), performance.before
                ),
                "records": [record_document(each) for each in records],
                "measures": dict(performance.measures),
            }
        )
