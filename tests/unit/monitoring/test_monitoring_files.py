"""Alert rules for Prometheus and the dashboard for Grafana: docs/monitoring."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from opendrs.monitoring.declarations import METRICS, MetricType

FOLDER = Path(__file__).parents[3] / "docs/monitoring"
ALERTS, TESTS = FOLDER / "opendrs-alerts.yml", FOLDER / "opendrs-alerts-test.yml"
DASHBOARD = FOLDER / "opendrs-dashboard.json"
PROMTOOL = shutil.which("promtool")
_METRIC = re.compile(r"\bopendrs_\w+")

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian package prometheus)"
)


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> list[str]:
    """Return the expressions of all panels, with a value for the variable."""
    return [
        target["expr"].replace("$job", "opendrs")
        for panel in panels()
        for target in panel["targets"]
    ]


def known_names() -> set[str]:
    """Return the names of all series of the controller."""
    names = {metric.name for metric in METRICS}
    for metric in METRICS:
        if metric.type is MetricType.HISTOGRAM:
            names |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def promtool(*arguments: str, folder: Path) -> None:
    """Run promtool, which must succeed."""
    done = subprocess.run(  # noqa: S603 - the program of Prometheus
        [str(PROMTOOL), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_alert_rules_are_valid() -> None:
    promtool("check", "rules", ALERTS.name, folder=FOLDER)


@needs_promtool
def test_alerts_fire_as_their_tests_expect() -> None:
    promtool("test", "rules", TESTS.name, folder=FOLDER)


def test_each_alert_is_tested_firing_and_silent() -> None:
    firing: set[str] = set()
    silent: set[str] = set()
    for case in yaml.safe_load(TESTS.read_text())["tests"]:
        for test in case["alert_rule_test"]:
            chosen = firing if test.get("exp_alerts") else silent
            chosen.add(test["alertname"])

    assert firing == silent == {each["alert"] for each in alerts()}


def test_alerts_name_existing_metrics() -> None:
    names = {name for each in alerts() for name in _METRIC.findall(each["expr"])}

    assert names <= known_names()
    assert len(names) > 5


def test_dashboard_names_existing_metrics_and_shows_all() -> None:
    names = {name for each in expressions() for name in _METRIC.findall(each)}

    assert names <= known_names()
    shown = {name.removesuffix("_bucket") for name in names}
    hidden = {metric.name for metric in METRICS} - shown
    assert hidden == {"opendrs_build_info"}  # of the variable


@needs_promtool
def test_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(expressions())
    ]
    (tmp_path / "rules.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]})
    )

    promtool("check", "rules", "rules.yml", folder=tmp_path)


def test_panels_have_numbers_and_places_of_their_own() -> None:
    found = panels()

    assert len({each["id"] for each in found}) == len(found)
    cells = [
        (x, y)
        for each in found
        for place in [each["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24  # columns of Grafana
