"""The dashboard with a large cluster: first map, redraw, memory, size of an update.

    PYTHONPATH=tests python benchmarks/runners/dashboard.py --size 1000x20

A real controller observes a simulated cluster, `opendrs serve` serves its store, and
Chromium without a screen (software rendering) shows the overview. The first map is
measured from the start of the navigation; a redraw from a click until the frame after
it. Memory is that of the JavaScript heap after a collection, and the private memory of
the process of the tab.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

from support.browser import chromium, dashboard_page
from support.dashboard_lab import DashboardLab

LOADS, REDRAWS, UPDATES = 5, 20, 3
_FIRST_MAP = """async () => {
  for (;;) {
    const [drawn] = performance.getEntriesByName("map-drawing");
    if (drawn) return drawn.startTime + drawn.duration;
    await new Promise(requestAnimationFrame);
  }
}"""
_REDRAW = """async () => {
  const buttons = [...document.querySelectorAll(".choice button")]
    .filter((each) => ["CPU", "Memory"].includes(each.textContent));
  const chosen = buttons.find((each) => each.ariaPressed !== "true") ?? buttons[0];
  const start = performance.now();
  chosen.click();
  await new Promise(requestAnimationFrame);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return [performance.now() - start,
          performance.getEntriesByName("map-drawing")[0].duration];
}"""


def main() -> None:
    """Measure and print one line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="1000x20", help="nodes x guests of each node")
    nodes, guests = map(int, parser.parse_args().size.split("x"))
    with tempfile.TemporaryDirectory() as place:
        lab = DashboardLab(
            Path(place), nodes=nodes, guests=guests, mode="observe", interval=10.0
        )
        with lab, chromium("--js-flags=--expose-gc") as browser:
            token = lab.token("viewer")
            sizes = list(_update_sizes(lab.address, token))
            with dashboard_page(browser, lab.address) as dashboard:
                dashboard.sign_in(token)
                figures = _measure(dashboard.page)
    print(f"{nodes:,} nodes, {nodes * guests:,} guests")
    print(f"largest update: {max(sizes) / 1000:.1f} kB")
    for name, value in figures.items():
        print(f"{name}: {value}")


def _measure(page: Any) -> dict[str, str]:  # noqa: ANN401 - of playwright
    first = []
    for _ in range(LOADS):
        page.reload()
        first.append(page.evaluate(_FIRST_MAP))
    redraws = [page.evaluate(_REDRAW) for _ in range(REDRAWS)]
    page.evaluate("window.location.hash = '#/guests'")
    page.locator(".table-body a").first.wait_for()
    page.evaluate("window.location.hash = '#/overview'")
    page.wait_for_timeout(30_000)  # some updates
    page.evaluate("window.gc()")
    session = page.context.new_cdp_session(page)
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    return {
        "first map": f"{statistics.median(first):.0f} ms (max {max(first):.0f})",
        "redraw until the next frame": _spread([each[0] for each in redraws]),
        "drawing of the map": _spread([each[1] for each in redraws]),
        "JavaScript heap": f"{heap / 1e6:.1f} MB",
        "private memory of the tab": f"{max(_tabs()) / 1e6:.0f} MB",
    }


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ms (max {max(values):.0f})"


def _tabs() -> Iterator[int]:
    """Yield the private bytes of each renderer of this process's Chromium."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" not in (entry / "cmdline").read_bytes():
                continue
            lines = (entry / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        yield 1024 * sum(
            int(line.split()[1]) for line in lines if line.startswith("Private_")
        )


def _update_sizes(address: str, token: str) -> Iterator[int]:
    """Yield the bytes of some messages with changed loads."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    count = 0
    with (
        httpx2.Client(timeout=90.0) as client,
        client.stream("GET", f"{address}/api/v1/events", headers=headers) as stream,
    ):
        for line in stream.iter_lines():
            if line.startswith("data: ") and '"delta":{' in line:
                yield len(line)
                count += 1
                if count == UPDATES:
                    return


if __name__ == "__main__":
    main()
