"""Execution of the commands and the configuration in the how-to about schedules."""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from opendrs.cli.configuration import load_settings
from opendrs.cli.controller_policies import scheduled_policy
from opendrs.controller.scheduling import calendar_of
from support.howto_pages import HowToPage
from support.persistent_cluster import configure_persistent_platform
from support.terminal import RunOpendrs

PAGE = HowToPage("schedule.md")
NOT_RUNNING = 1


@pytest.fixture(autouse=True)
def _configuration(
    opendrs: RunOpendrs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del opendrs  # only its directory is needed
    config = tmp_path / "opendrs.toml"
    configure_persistent_platform(monkeypatch, config, tmp_path / "record.sqlite")
    config.write_text("\n".join([config.read_text(), *PAGE.blocks("toml")]))


def test_commands_of_the_page_succeed(opendrs: RunOpendrs) -> None:
    statuses: dict[str, int] = {}

    def run(command: str) -> None:
        words = shlex.split(command)[1:]
        statuses[words[0]] = opendrs(*words).status

    PAGE.run({"opendrs": run})

    assert statuses == {"check": 0, "status": NOT_RUNNING, "mode": 0}


def test_configuration_of_the_page_is_open_as_described(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "opendrs.toml")

    def open_at(time: str) -> list[str]:
        at = datetime.fromisoformat(time).replace(tzinfo=ZoneInfo("Europe/Berlin"))
        entries = settings.schedule
        return [each.name for each in entries if calendar_of(each).is_open(at)]

    assert open_at("2026-11-23T12:00") == ["repair", "day", "power-on"]
    assert open_at("2026-11-23T20:00") == ["repair", "power-on"]
    assert open_at("2026-11-28T05:59") == ["repair", "night"]
    assert open_at("2026-11-29T12:00") == ["repair", "night"]
    assert open_at("2026-11-30T05:59") == ["repair"]
    assert open_at("2026-12-26T12:00") == ["repair"]


def test_policies_of_the_page_have_their_settings(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "opendrs.toml")

    policies = {
        each.name: scheduled_policy(settings, each) for each in settings.schedule
    }

    assert policies["night"].max_drained_nodes == 2  # type: ignore[attr-defined]
    assert policies["power-on"].underload_threshold == 0  # type: ignore[attr-defined]
    assert policies["night"].interval == 300  # type: ignore[attr-defined]
