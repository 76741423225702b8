"""The dashboard in a real browser, over a real server, store and controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from support.browser import DESKTOP, PHONE, DashboardPage, chromium, dashboard_page
from support.dashboard_lab import PLATFORM, TIMEOUT, DashboardLab, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
SCREENS = (
    "overview",
    "plans",
    "reasons",
    "nodes",
    "nodes/node03",
    "guests",
    "guests/vm:103",
    "rules",
    "rules?rule=web-apart",
    "history",
    "history?view=moves",
    "what-if",
    "jobs",
    "consolidation",
    "control",
    "settings",
    "tokens",
    "audit",
    "no-such-screen",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def lab(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DashboardLab]:
    """Return a lab that the tests only read."""
    assert browser
    with DashboardLab(tmp_path_factory.mktemp("lab")) as started:
        yield started


@pytest.fixture(scope="module")
def admin(lab: DashboardLab) -> str:
    return lab.token("admin")


@pytest.fixture
def own_lab(browser: Browser, tmp_path: Path) -> Iterator[DashboardLab]:
    """Return a lab that the test changes."""
    assert browser
    with DashboardLab(tmp_path, seconds=4.0) as started:
        yield started


def test_operator_approves_a_part_and_finds_it_in_the_history(
    browser: Browser, own_lab: DashboardLab
) -> None:
    with dashboard_page(browser, own_lab.address) as dashboard:
        dashboard.sign_in(own_lab.token("admin"))
        _see_the_imbalance(dashboard)
        guest = _approve_all_but_the_first(dashboard)
        _watch_it_run(dashboard)
        _find_it_in_the_history(dashboard, guest)
        _slide_back(dashboard)
        _replay_with_another_policy(dashboard)
        _see_the_reason_of_a_guest(dashboard)
        _ask_what_if(dashboard)
        _drain_a_node(dashboard)
        dashboard.show("audit")
        audit = dashboard.page.get_by_role("table")
        audit.get_by_text("approve", exact=True).wait_for()
        audit.get_by_text("drain", exact=True).wait_for()


def _see_the_imbalance(dashboard: DashboardPage) -> None:
    page = dashboard.page
    page.get_by_role("region", name="Status").get_by_role(
        "link", name="node03"
    ).wait_for()
    page.get_by_role("link", name="Open plan").wait_for()
    page.locator(".steps button").first.click()
    dashboard.write_screenshot("dashboard-overview", after=20)
    page.get_by_role("link", name="Open plan").click()
    page.get_by_role("heading", name="Plan ").wait_for()


def _approve_all_but_the_first(dashboard: DashboardPage) -> str:
    page = dashboard.page
    boxes = page.get_by_role("checkbox")
    boxes.first.wait_for()
    number = boxes.count()
    assert number > 2
    page.locator(".step .row-button").filter(has_text="vm:114").click()
    details = page.locator(".step-details")
    details.get_by_role("heading", name="Excluded nodes").wait_for()
    details.get_by_text("fast-disks").first.wait_for()
    dashboard.write_screenshot("dashboard-plan")
    guest = page.locator(".step strong").nth(number - 1).inner_text()
    boxes.first.click()
    chosen = page.locator("input[type=checkbox]:checked").count()
    assert 0 < chosen < number
    page.get_by_role("button", name=f"Approve {chosen} step").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").wait_for(state="detached")
    return guest


def _watch_it_run(dashboard: DashboardPage) -> None:
    page = dashboard.page
    running = page.locator(".step-outcome").filter(has_text="running")
    running.filter(has_text="%").first.wait_for()
    page.locator(".step-details").filter(has_text="transferred").wait_for()
    page.locator("h1").filter(has_text="partly done").wait_for()
    page.locator(".step-outcome").filter(has_text="predicted").first.wait_for()


def _find_it_in_the_history(dashboard: DashboardPage, guest: str) -> None:
    dashboard.show("plans?state=done")
    plan = dashboard.page.get_by_role("table").get_by_role("link").first.inner_text()
    dashboard.show("history?view=moves")
    move = dashboard.panel("Moves, the newest first").get_by_role("row")
    move = move.filter(has=dashboard.page.get_by_role("link", name=guest))
    assert move.get_by_role("link", name=plan).count() == 1
    assert "improves balance" in move.inner_text()
    assert "anna" in move.inner_text()


def _slide_back(dashboard: DashboardPage) -> None:
    page = dashboard.page
    dashboard.show("history")
    slider = page.get_by_role("slider", name="Cycle")
    slider.press("Home")
    page.get_by_text("improves balance").first.wait_for()
    page.get_by_text("1 of ").wait_for()
    steps = dashboard.panel("The decision").get_by_role("button")
    steps.nth(4).wait_for()  # those of the first plan
    steps.first.click()
    steps.first.and_(page.locator("[aria-pressed=true]")).wait_for()
    dashboard.write_screenshot("dashboard-history")


def _replay_with_another_policy(dashboard: DashboardPage) -> None:
    replay = dashboard.panel("Replay with another policy")
    replay.get_by_label("Policy").select_option("threshold-rebalance")
    replay.get_by_role("button", name="Replay").click()
    replay.get_by_role("heading", name="After the plan").wait_for()


def _ask_what_if(dashboard: DashboardPage) -> None:
    page = dashboard.page
    dashboard.show("what-if?kind=fail&node=node03")
    page.get_by_role("button", name="Ask").click()
    page.get_by_role("heading", name="Guests that change their node").wait_for()
    dashboard.show("what-if?kind=place")
    page.get_by_role("button", name="Find a node").click()
    page.get_by_role("heading", name="Nodes, the best first").wait_for()
    dashboard.show("what-if?kind=add")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("Every guest keeps its node").wait_for()
    answer = page.locator(".answer")
    answer.get_by_text("node01+1").wait_for()
    # The new nodes are dispensable, and have no page.
    assert answer.get_by_role("link").filter(has_text="+").count() == 0
    dashboard.show("consolidation")
    page.get_by_role("button", name="Find dispensable nodes").click()
    page.get_by_text("The cluster could do without").wait_for()
    dashboard.show("what-if?kind=fail&node=no-such-node")
    page.get_by_role("button", name="Ask").click()
    page.get_by_role("alert").wait_for()


def _see_the_reason_of_a_guest(dashboard: DashboardPage) -> None:
    dashboard.show("guests/vm:103")
    explanation = dashboard.panel("Explanation")
    explanation.get_by_text("cannot be migrated", exact=True).wait_for()
    explanation.get_by_text("What would have to change").wait_for()
    dashboard.show("reasons?code=pinned")
    dashboard.page.get_by_role("table").get_by_role("link", name="vm:102").wait_for()
    dashboard.write_screenshot("dashboard-reasons")


def _drain_a_node(dashboard: DashboardPage) -> None:
    page = dashboard.page
    dashboard.show("nodes/node06")
    page.get_by_role("link", name="Preview a drain").click()
    page.get_by_role("button", name="Preview the drain").click()
    page.get_by_role("heading", name="Targets afterwards").wait_for()
    page.get_by_text("of 6 guests would leave").wait_for()
    dashboard.write_screenshot("dashboard-drain")
    page.get_by_role("button", name="Drain", exact=True).click()
    dialog = page.get_by_role("dialog")
    assert "of 6 guests can leave" in dialog.inner_text()  # is not computed again
    dialog.get_by_role("button", name="Back").click()
    dashboard.show("nodes/node06")
    page.get_by_role("button", name="Drain", exact=True).click()
    dialog.get_by_text("of 6 guests can leave").wait_for()  # before anything is done
    dialog.get_by_label("Reason").fill("new memory")
    dialog.get_by_role("button", name="Drain node06").click()
    page.get_by_role("button", name="End the drain").wait_for()
    dashboard.show("control")
    dashboard.panel("Drained nodes").get_by_text("new memory").wait_for()
    dashboard.show("overview")
    draining = dashboard.panel("Exceptions").get_by_role("listitem")
    draining = draining.filter(has_text="node draining")
    draining.get_by_text("guests leave").wait_for()
    assert draining.count() == 1
    page.get_by_text("drained", exact=True).wait_for()  # in the legend of the map
    dashboard.show("nodes/node06")
    page.get_by_role("button", name="End the drain").click()
    dialog.get_by_role("button", name="End the drain of node06").click()
    dialog.wait_for(state="detached")
    dashboard.show("overview")
    draining.wait_for(state="detached")


def test_waiting_plan_stays_open_and_the_next_cycle_is_shown(
    browser: Browser, lab: DashboardLab, admin: str
) -> None:
    with dashboard_page(browser, lab.address) as dashboard:
        page = dashboard.page
        dashboard.sign_in(admin)
        plan = _plan(dashboard)
        status = page.get_by_role("region", name="Status")
        status.get_by_text("is still valid").wait_for()
        known = _runs(lab)

        eventually(lambda: len(_runs(lab) - known) > 3, "cycles with other loads")

        assert _plan(dashboard) == plan
        states = [each["state"] for each in _plans(lab)]
        assert states == ["proposed"]
        events = dashboard.panel("Recent events")
        events.get_by_role("link", name=f"See plan {plan}").first.wait_for()
        assert events.get_by_text("opendrs approve").count() == 0
        for screen in ("guests/vm:114", "nodes/node03"):
            dashboard.show(screen)
            planned = dashboard.panel("Planned").get_by_role("listitem")
            planned = planned.filter(has_text="vm:114")
            planned.get_by_role("link", name=plan).wait_for()
        dashboard.show("guests/vm:114")
        explanation = dashboard.panel("Explanation")
        explanation.get_by_text("in plan", exact=True).wait_for()


def _plans(lab: DashboardLab) -> list[dict[str, Any]]:
    """Return all plans."""
    found: Any = lab.command("plans", PLATFORM)
    return list(found)


def _runs(lab: DashboardLab) -> set[str]:
    """Return the runs of the newest cycles."""
    found: Any = lab.command("history", PLATFORM, "--limit", "50")
    return {each["run"] for each in found}


def test_age_of_the_loads_is_shown_while_a_plan_runs(
    browser: Browser, own_lab: DashboardLab
) -> None:
    with dashboard_page(browser, own_lab.address) as dashboard:
        page = dashboard.page
        dashboard.sign_in(own_lab.token("operator"))
        plan = _plan(dashboard)
        dashboard.panel("Nodes (12)").get_by_text("observed").wait_for()

        own_lab.command("approve", PLATFORM, plan)

        age = page.locator(".observed-old").filter(has_text="is running")
        age.get_by_role("link", name=plan).wait_for()
        status = page.get_by_role("region", name="Status")
        status.get_by_text("has ended").wait_for()
        for screen in ("nodes", "guests", "nodes/node03", "guests/vm:103"):
            dashboard.show(screen)
            assert age.count() == 1, screen


def test_list_scrolls_with_the_page_and_sorting_begins_at_the_top(
    browser: Browser, lab: DashboardLab, admin: str
) -> None:
    with dashboard_page(browser, lab.address) as dashboard:
        page = dashboard.page
        dashboard.sign_in(admin)
        dashboard.show("guests")
        table = page.get_by_role("table", name="Guests")
        height = "e => [e.scrollHeight - e.clientHeight, e.clientHeight]"
        hidden, shown = table.evaluate(height)
        assert hidden <= 0 < shown - page.viewport_size["height"]  # type: ignore[index]
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        table.locator("[aria-rowindex='81']").wait_for()

        page.get_by_role("button", name="Guest", exact=True).click()

        first = table.locator("[aria-rowindex='2']")
        first.get_by_role("link", name="vm:101").wait_for()
        box = first.bounding_box()
        assert box is not None
        assert box["y"] > 0


def test_node_page_has_the_guests_that_cause_its_load(
    browser: Browser, lab: DashboardLab, admin: str
) -> None:
    with dashboard_page(browser, lab.address) as dashboard:
        page = dashboard.page
        dashboard.sign_in(admin)
        dashboard.show("nodes")
        page.get_by_role("columnheader", name="Worst").and_(
            page.locator("[aria-sort=descending]")
        ).wait_for()
        page.locator("[aria-rowindex='2']").get_by_role(
            "link", name="node03"
        ).wait_for()
        dashboard.show("overview")
        tile = page.locator(".map-focus").bounding_box()
        assert tile is not None

        page.mouse.click(tile["x"] + 20, tile["y"] + 20)

        page.get_by_role("heading", name="Node node01").wait_for()
        dashboard.show("nodes/node03")
        guests = dashboard.panel("Guests (14)")
        page.get_by_text("The most loaded resource is").wait_for()
        rows = guests.locator(".table-body .table-row")
        rows.nth(13).wait_for()
        shares = [_percent(text) for text in rows.all_inner_texts()]  # at one time
        assert len(shares) == 14
        assert shares == sorted(shares, reverse=True)
        assert shares[0] > 0


def _percent(row: str) -> int:
    """Return the first percentage in the text of a row."""
    return next(int(each.rstrip("%")) for each in row.split() if each.endswith("%"))


def test_admin_creates_a_token_sees_it_once_and_revokes_it(
    browser: Browser, lab: DashboardLab, admin: str
) -> None:
    with dashboard_page(browser, lab.address) as dashboard:
        page = dashboard.page
        dashboard.sign_in(admin)
        dashboard.show("tokens")
        page.get_by_role("button", name="Create a token").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("grafana")
        dialog.get_by_role("button", name="Create").click()
        secret = page.locator(".secret").inner_text()
        headers = {"Authorization": f"Bearer {secret}"}
        plans = f"{lab.address}/api/v1/plans"
        assert httpx2.get(plans, headers=headers, timeout=TIMEOUT).status_code == 200
        page.get_by_role("button", name="Hide it").click()
        assert secret not in page.content()
        row = page.get_by_role("table").get_by_role("row").filter(has_text="grafana")

        row.get_by_role("button", name="Revoke").click()
        dialog.get_by_role("button", name="Revoke").click()

        row.get_by_text("revoked").wait_for()
        assert httpx2.get(plans, headers=headers, timeout=TIMEOUT).status_code == 401


def test_drill_and_backtest_are_listed_with_their_results(
    browser: Browser, lab: DashboardLab
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    with dashboard_page(browser, lab.address) as dashboard:
        page = dashboard.page
        page.set_default_timeout(600_000)  # the process of the jobs starts
        dashboard.sign_in(lab.token("viewer"))
        dashboard.show("jobs")
        page.get_by_label("Node that fails").select_option("node03")
        page.get_by_role("button", name="Start the drill").click()
        page.get_by_role("heading", name="Failures").wait_for()
        page.get_by_label("threshold-rebalance").check()
        page.get_by_label("Decisions").select_option("every hour")
        page.get_by_role("button", name="Start the backtest").click()
        answer = dashboard.panel("Result: backtest")
        answer.get_by_role("cell", name="threshold-rebalance").wait_for()
        answer.get_by_role("cell", name="(nothing moved)").wait_for()
        answer.get_by_role("columnheader", name="Regret").wait_for()
        jobs = dashboard.panel("Jobs").get_by_role("row")
        jobs.filter(has_text="backtest").get_by_text("done").wait_for()
        violations = axe.run(page).response["violations"]
        jobs.filter(has_text="drill").get_by_role("button", name="Result").click()
        dashboard.panel("Result: drill").get_by_role("link", name="node03").wait_for()

    assert violations == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_screen_is_accessible_and_fits(
    browser: Browser, lab: DashboardLab, admin: str, size: tuple[int, int], theme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    dark = theme == "dark"
    with dashboard_page(browser, lab.address, size=size, dark=dark) as dashboard:
        dashboard.sign_in(admin)
        found = {}
        for screen in (*SCREENS, f"plans/{_plan(dashboard)}"):
            dashboard.show(screen)
            violations = axe.run(dashboard.page).response["violations"]
            found[screen] = [
                (each["id"], [node["target"] for node in each["nodes"]])
                for each in violations
            ]
            if dashboard.overflows():
                found[screen].append(("wider than the screen", []))
            if size == PHONE and screen == "overview" and not dark:
                dashboard.write_screenshot("dashboard-phone")
            if size == DESKTOP and screen == "overview" and dark:
                dashboard.write_screenshot("dashboard-dark")

        assert {screen: each for screen, each in found.items() if each} == {}


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_recent_events_are_above_the_map_on_a_phone(
    browser: Browser, lab: DashboardLab, admin: str, size: tuple[int, int]
) -> None:
    with dashboard_page(browser, lab.address, size=size) as dashboard:
        dashboard.sign_in(admin)
        tops = [
            dashboard.page.get_by_role("heading", name=name).bounding_box()
            for name in ("Recent events", "Nodes (")
        ]

    recent, nodes = (box["y"] for box in tops if box is not None)
    assert (recent < nodes) == (size == PHONE)


def _plan(dashboard: DashboardPage) -> str:
    """Return the id of the waiting plan."""
    link = dashboard.page.get_by_role("link", name="Open plan")
    return str(link.get_attribute("href")).rpartition("/")[2]


def test_sign_in_page_is_accessible(browser: Browser, lab: DashboardLab) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    with dashboard_page(browser, lab.address) as dashboard:
        dashboard.page.goto(lab.address)
        dashboard.page.get_by_label("Token").fill("odrs_wrong")
        dashboard.page.get_by_role("button", name="Sign in").click()
        dashboard.page.get_by_role("alert").wait_for()
        violations = axe.run(dashboard.page).response["violations"]
        dashboard.forget_errors()  # the rejected token

    assert violations == []


def test_keyboard_alone_opens_a_plan_and_rejects_it(
    browser: Browser, own_lab: DashboardLab
) -> None:
    with dashboard_page(browser, own_lab.address) as dashboard:
        page, keyboard = dashboard.page, dashboard.page.keyboard
        page.goto(own_lab.address)
        page.get_by_label("Token").wait_for()
        _tab_to(dashboard, "Token")
        keyboard.type(own_lab.token("operator"))
        keyboard.press("Enter")
        page.get_by_role("link", name="Open plan").wait_for()
        dashboard.forget_errors()
        _tab_to(dashboard, "node01, CPU")
        keyboard.press("ArrowRight")
        keyboard.press("ArrowRight")
        eventually(
            lambda: _focused(dashboard).startswith("node03"), "node03 has the focus"
        )
        keyboard.press("Enter")
        page.get_by_role("heading", name="Node node03").wait_for()
        page.go_back()
        page.get_by_role("link", name="Open plan").wait_for()
        _tab_to(dashboard, "Open plan")
        keyboard.press("Enter")
        page.get_by_role("button", name="Reject").wait_for()
        _tab_to(dashboard, "Reject")
        keyboard.press("Enter")
        _tab_to(dashboard, "because")
        keyboard.type("maintenance tonight")
        keyboard.press("Enter")
        page.locator("h1").filter(has_text="rejected").wait_for()


def _focused(dashboard: DashboardPage) -> str:
    """Return the name of the element with the focus."""
    return str(
        dashboard.page.evaluate(
            "(e => e.getAttribute('aria-label') || e.textContent || e.name)"
            "(document.activeElement)"
        )
    )


def _tab_to(dashboard: DashboardPage, name: str, most: int = 80) -> None:
    """Press Tab until the focus is on the element with *name*."""
    for _ in range(most):
        dashboard.page.keyboard.press("Tab")
        focused = dashboard.page.evaluate(
            "(e => [e.getAttribute('aria-label'), e.textContent, e.name].join(' '))"
            "(document.activeElement)"
        )
        if name.casefold() in str(focused).casefold():
            return
    pytest.fail(f"Tab does not lead to {name}")


def test_failures_to_tolerate_are_stated_with_the_worst_of_them(
    browser: Browser, tmp_path: Path
) -> None:
    # Guests use more than 10 % of the memory of each node: none has room for others.
    limits = {"tolerated_failures": 1, "memory_headroom": 0.9}
    lab = DashboardLab(tmp_path, limits=limits)
    with lab, dashboard_page(browser, lab.address) as dashboard:
        dashboard.sign_in(lab.token("viewer"))
        dashboard.show("rules")
        page = dashboard.page

        page.get_by_role("heading", name="Failures to tolerate").wait_for()
        page.get_by_text("if any node fails, all guests restart").wait_for()
        page.get_by_text("12 of 12 failures are not tolerated").wait_for()
        page.get_by_text("not tolerated", exact=True).wait_for()
        page.get_by_text("no node for").first.wait_for()
        assert page.get_by_text("Failure of node").count() == 10
        page.get_by_text("and 2 more").wait_for()


def test_viewer_sees_no_actions(browser: Browser, lab: DashboardLab) -> None:
    with dashboard_page(browser, lab.address) as dashboard:
        dashboard.sign_in(lab.token("viewer"))
        plan = _plan(dashboard)
        names = []
        for screen in (f"plans/{plan}", "nodes/node03", "control"):
            dashboard.show(screen)
            buttons = dashboard.page.locator("main button")
            names += [each.strip() for each in buttons.all_inner_texts()]

    actions = ("Approve", "Reject", "Drain", "Set ", "Pause")
    assert [name for name in names if name.startswith(actions)] == []


def test_lost_connection_is_shown_and_ends_without_a_reload(
    browser: Browser, own_lab: DashboardLab
) -> None:
    with dashboard_page(browser, own_lab.address) as dashboard:
        page = dashboard.page
        dashboard.sign_in(own_lab.token("viewer"))
        page.get_by_text("live", exact=True).wait_for()
        own_lab.kill("serve")
        page.get_by_text("Connection lost.").wait_for()
        own_lab.command("mode", "lab", "observe")
        own_lab.start_server()
        page.get_by_text("Connection lost.").wait_for(state="detached")
        page.get_by_role("region", name="Status").get_by_text("observe").wait_for()
        dashboard.forget_errors()  # the requests that failed


def test_dead_controller_is_shown_with_its_age(
    browser: Browser, own_lab: DashboardLab
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with dashboard_page(browser, own_lab.address) as dashboard:
        page = dashboard.page
        dashboard.sign_in(own_lab.token("viewer"))
        own_lab.kill("run")
        warning = page.get_by_role("region", name="Warnings")
        warning.get_by_text("The last cycle ended").wait_for()
        assert axe.run(page).response["violations"] == []
        own_lab.start_controller()
        warning.get_by_text("The last cycle ended").wait_for(state="detached")


def test_changed_plan_cannot_be_approved(
    browser: Browser, own_lab: DashboardLab
) -> None:
    with dashboard_page(browser, own_lab.address) as dashboard:
        page = dashboard.page
        dashboard.sign_in(own_lab.token("operator"))
        page.get_by_role("link", name="Open plan").click()
        page.get_by_role("button", name="Approve").click()
        plan = page.url.rpartition("/")[2]
        own_lab.command("reject", "lab", plan, "--because", "not now")
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        page.get_by_role("dialog").get_by_role("alert").wait_for()
        page.keyboard.press("Escape")
        eventually(
            lambda: "rejected" in page.locator("h1").inner_text(), "the new state"
        )
        dashboard.forget_errors()  # the response 409 or 412
