"""Pages of the dashboard in a headless Chromium, with what it reports as errors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page

DESKTOP, PHONE = (1440, 900), (390, 844)
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
_CHROMIUM = shutil.which("chromium")
_WAITING = 240_000  # milliseconds, on a busy machine


@contextmanager
def chromium(*options: str) -> Iterator[Browser]:
    """Start Chromium; skip the test where it, or Playwright, is absent."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if _CHROMIUM is None:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=_CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", *options],
            timeout=_WAITING,
        )
        yield browser
        browser.close()


@dataclass
class DashboardPage:
    """A page of the dashboard, and the errors that the browser reported.

    Attributes:
        page: The page.
        address: Address of the server.
        errors: Errors and warnings of the console, and uncaught exceptions.
    """

    page: Page
    address: str
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(_WAITING)
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{self.page.url}: {message.text}")

    def sign_in(self, token: str) -> None:
        """Open the page and enter *token*."""
        self.page.goto(self.address)
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("heading", name="Overview").wait_for(state="attached")
        self.forget_errors()  # the missing session was a 401

    def forget_errors(self) -> None:
        """Forget the errors until now: they were expected."""
        self.errors.clear()

    def show(self, screen: str) -> None:
        """Show a screen, and wait until its documents are loaded."""
        self.page.goto(f"{self.address}/#/{screen}")
        self.page.locator("main h1").wait_for(state="attached")
        loading = self.page.locator("main .empty").filter(has_text="Loading")
        loading.first.wait_for(state="detached")

    def panel(self, title: str) -> Locator:
        """Return the panel with *title*."""
        return self.page.get_by_role("region", name=title)

    def overflows(self) -> bool:
        """Return True if the page is wider than the screen."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > window.innerWidth"
            )
        )

    def write_screenshot(self, name: str, after: float = 0.5) -> None:
        """Write docs/images/NAME.png if OPENDRS_ACCEPT is screenshots or all.

        Args:
            name: Name of the file.
            after: Seconds to wait before.
        """
        if os.environ.get("OPENDRS_ACCEPT") in ("screenshots", "all"):
            self.page.wait_for_timeout(1000 * after)
            self.page.screenshot(path=IMAGES / f"{name}.png")


@contextmanager
def dashboard_page(
    browser: Browser,
    address: str,
    *,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
) -> Iterator[DashboardPage]:
    """Open a page; at its end, the console must have no errors."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    page = DashboardPage(context.new_page(), address)
    yield page
    context.close()
    assert page.errors == [], page.errors
