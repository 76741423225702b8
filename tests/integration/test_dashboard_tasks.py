"""Five tasks of an operator, from the overview alone: the actions that each needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from opendrs.controller import SystemClock
from support.browser import DashboardPage, chromium, dashboard_page
from support.dashboard_lab import TIMEOUT, DashboardLab, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Operator:
    """A user of the dashboard whose clicks and entries are counted.

    Args:
        dashboard: The page, with an operator signed in.
    """

    def __init__(self, dashboard: DashboardPage) -> None:
        self.dashboard = dashboard
        self.actions = 0
        self._clock = SystemClock()

    def task(self, name: str) -> None:
        """Return to the overview and begin a task."""
        self.dashboard.show("overview")
        self.dashboard.panel("Nodes (12)").wait_for()
        self.actions, self._name = 0, name
        self._begin = self._clock.monotonic()

    def click(self, element: Locator) -> None:
        """Click an element."""
        element.click()
        self.actions += 1

    def find(self, words: str) -> None:
        """Find a node or a guest by its name: a shortcut, the name and Enter."""
        self.dashboard.page.keyboard.press("Control+k")
        self.dashboard.page.keyboard.type(words)
        self.dashboard.page.keyboard.press("Enter")
        self.actions += 1

    def ended(self) -> int:
        """Print the duration of the task, and return its number of actions."""
        seconds = self._clock.monotonic() - self._begin
        print(f"{self._name}: {self.actions} actions, {seconds:.1f} s")  # noqa: T201
        return self.actions


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def test_five_tasks_begin_at_the_overview_and_need_few_actions(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        DashboardLab(tmp_path) as lab,
        dashboard_page(browser, lab.address) as dashboard,
    ):
        dashboard.sign_in(lab.token("operator"))
        operator = Operator(dashboard)

        actions = {
            "which node is worst, and why": _see_the_worst_node(operator),
            "why a guest stays": _see_the_reason_of_a_guest(operator),
            "what the next cycle does": _see_the_next_cycle(operator),
            "what was done last night": _see_what_was_done(operator, lab),
            "empty a node": _empty_a_node(operator),
        }

    assert actions == {
        "which node is worst, and why": 1,
        "why a guest stays": 1,
        "what the next cycle does": 0,
        "what was done last night": 1,
        "empty a node": 5,
    }


def _see_the_worst_node(operator: Operator) -> int:
    page = operator.dashboard.page
    operator.task("which node is worst, and why")
    status = page.get_by_role("region", name="Status")
    operator.click(status.get_by_role("link", name="node03"))
    page.get_by_text("The most loaded resource is").wait_for()
    page.get_by_text("the largest being").wait_for()
    return operator.ended()


def _see_the_reason_of_a_guest(operator: Operator) -> int:
    operator.task("why a guest stays")
    operator.find("vm:103")
    explanation = operator.dashboard.panel("Explanation")
    explanation.get_by_text("not migratable: a local device").first.wait_for()
    explanation.get_by_text("What would have to change").wait_for()
    return operator.ended()


def _see_the_next_cycle(operator: Operator) -> int:
    operator.task("what the next cycle does")
    status = operator.dashboard.page.get_by_role("region", name="Status")
    status.get_by_text("is still valid").wait_for()
    return operator.ended()


def _see_what_was_done(operator: Operator, lab: DashboardLab) -> int:
    page = operator.dashboard.page
    plan = page.get_by_role("link", name="Open plan").get_attribute("href")
    assert plan is not None
    number = _execute(lab, plan.rpartition("/")[2])

    operator.task("what was done last night")
    operator.click(page.get_by_role("link", name="Moves of the last 24 hours"))
    moves = operator.dashboard.panel("Moves, the newest first")
    moves.get_by_text(f"{number} moves of 1 plan, {number} done.").wait_for()
    return operator.ended()


def _execute(lab: DashboardLab, plan: str) -> int:
    """Approve a plan, wait for its end, and return its number of steps."""
    headers = {"Authorization": f"Bearer {lab.token('operator')}"}
    url = f"{lab.address}/api/v1"
    with httpx2.Client(base_url=url, headers=headers, timeout=TIMEOUT) as api:
        found = api.get(f"/plans/{plan}")
        tag = {"If-Match": found.headers["ETag"]}
        api.put(f"/plans/{plan}/approval", json={}, headers=tag).raise_for_status()
        eventually(
            lambda: api.get(f"/plans/{plan}").json()["state"] == "done",
            "the plan is done",
        )
    return len(found.json()["steps"])


def _empty_a_node(operator: Operator) -> int:
    page = operator.dashboard.page
    operator.task("empty a node")
    operator.find("node06")
    operator.click(page.get_by_role("link", name="Preview a drain"))
    operator.click(page.get_by_role("button", name="Preview the drain"))
    page.get_by_role("heading", name="Targets afterwards").wait_for()
    operator.click(page.get_by_role("button", name="Drain", exact=True))
    dialog = page.get_by_role("dialog")
    operator.click(dialog.get_by_role("button", name="Drain"))
    page.get_by_role("heading", name="Node node06").wait_for()
    page.get_by_role("button", name="End the drain").wait_for()
    return operator.ended()
