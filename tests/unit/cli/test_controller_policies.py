"""Decision sources of the controller that are built from the configuration."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import tomli_w

from opendrs.cli.controller_policies import configured_schedule
from opendrs.cli.platforms import PLATFORMS
from opendrs.config.settings_reading import read_settings
from opendrs.controller.events import LogEventCode
from opendrs.simulation import SimulatedClock
from opendrs.store import SqliteStore
from support.builders import NOON, cluster
from support.certificates import CertificateFiles

SNAPSHOT = cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.4)})


def test_unresponsive_agents_are_logged_once_for_all_entries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "opendrs")
    api = CertificateFiles(tmp_path).settings
    entry = {"policy": "consolidate", "interval": 60}
    document = {
        "api": {
            "certificate": str(api.certificate),
            "key": str(api.key),
            "tokens": str(api.tokens),
            "listen": api.listen,
        },
        "schedule": [{**entry, "name": "day"}, {**entry, "name": "night"}],
    }
    config = tmp_path / "opendrs.toml"
    config.write_text(tomli_w.dumps(document))
    settings = read_settings(config, PLATFORMS)
    with SqliteStore(tmp_path / "store.sqlite") as store:
        schedule = configured_schedule(settings, store, SimulatedClock(NOON))
        assert schedule is not None

        decided = []
        for _ in range(2):
            schedule.start_cycle()
            decided += [each.schedule for each in schedule.evaluations(SNAPSHOT)]

    events = [getattr(record, "event", "") for record in caplog.records]
    assert decided == ["day", "night"]
    assert events.count(LogEventCode.AGENTS_UNRESPONSIVE) == 1
