"""Reload of the configuration: changes that need a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.cli.platforms import PLATFORMS
from opendrs.cli.reload import ConfigurationReloader
from opendrs.config.settings import Settings
from opendrs.config.settings_reading import read_settings
from opendrs.controller.events import LogEventCode
from opendrs.controller.loop import Reconfiguration
from support.certificates import CertificateFiles


class Built(Exception):  # noqa: N818 - no error
    """The configuration was accepted: a controller would be built from it."""


def build(settings: Settings) -> Reconfiguration:
    raise Built(settings.agent_interval)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


def document(interval: float, served: CertificateFiles | None) -> dict[str, Any]:
    """Return a configuration with agents if *served* has their certificates."""
    api = {}
    if served is not None:
        settings = served.settings
        api["api"] = {
            "certificate": str(settings.certificate),
            "key": str(settings.key),
            "tokens": str(settings.tokens),
            "listen": settings.listen,
        }
    return {
        "controller": {"interval": interval},
        "policy": {"name": "consolidate"},
        **api,
    }


def reload_with(
    config: Path, before: dict[str, Any], after: dict[str, Any]
) -> Reconfiguration | None:
    """Read *before*, then reload *after*."""
    config.write_text(tomli_w.dumps(before))
    settings = read_settings(config, PLATFORMS)
    reloader = ConfigurationReloader(config, settings, build)
    config.write_text(tomli_w.dumps(after))
    reloader.request()
    return reloader.reconfigure()


def test_changed_interval_of_served_agents_rejects_the_configuration(
    tmp_path: Path, certificates: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = (document(interval, certificates) for interval in (60, 90))

    reloaded = reload_with(tmp_path / "opendrs.toml", before, after)

    assert reloaded is None
    [rejected] = caplog.records
    assert rejected.__dict__["event"] == LogEventCode.CONFIGURATION_REJECTED
    [problem] = rejected.__dict__["about"]["problems"]
    assert problem.startswith("interval: changed while agents are served")


def test_changed_interval_without_agents_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(Built, match="90"):
        reload_with(tmp_path / "opendrs.toml", document(60, None), document(90, None))
