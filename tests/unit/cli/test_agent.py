"""opendrs agent, at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

from opendrs.cli.main import run
from opendrs.config import write_snapshot
from support.builders import cluster


@pytest.fixture
def config(tmp_path: Path) -> dict[str, dict[str, object]]:
    """Return a configuration in which only the controller is not there."""
    (tmp_path / "token").write_text("7f2a")
    write_snapshot(cluster({"a": 0.5}, {"vm": ("a", 0.4)}), tmp_path / "host.json")
    return {
        "agent": {
            "node": "a",
            "controller": "https://localhost:1",
            "token_file": "token",
            "timeout": 0.2,
        },
        "platform": {"here": {"kind": "file", "path": "host.json"}},
        "store": {"path": "agent.sqlite"},
    }


def once(config: dict[str, dict[str, object]], directory: Path) -> int:
    path = directory / "agent.toml"
    path.write_text(tomli_w.dumps(config))
    return run(["agent", str(path), "--once"])


def test_agent_with_unreachable_controller_keeps_the_sample(
    config: dict[str, dict[str, object]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert once(config, tmp_path) == 3
    assert "https://localhost:1 unreachable" in caplog.text
    assert (tmp_path / "agent.sqlite").stat().st_size > 0


def test_agent_without_agent_settings_is_rejected(
    config: dict[str, dict[str, object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del config["agent"]

    assert once(config, tmp_path) == 2
    assert "agent.toml: agent: section missing" in capsys.readouterr().err


@pytest.mark.parametrize("names", [[], ["here", "there"]])
def test_agent_manages_one_host(
    config: dict[str, dict[str, object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    names: list[str],
) -> None:
    host = config["platform"]["here"]
    config["platform"] = dict.fromkeys(names, host)

    assert once(config, tmp_path) == 2
    assert "platform: expected one (this host)" in capsys.readouterr().err


def test_agent_on_another_host_is_rejected(
    config: dict[str, dict[str, object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config["agent"]["node"] = "b"

    assert once(config, tmp_path) == 2
    assert "agent.node: b: unknown node of here; known: a" in capsys.readouterr().err


def test_agent_with_missing_token_fails_before_it_writes(
    config: dict[str, dict[str, object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "token").unlink()

    assert once(config, tmp_path) == 2
    printed = capsys.readouterr().err
    assert f"agent.token_file: {tmp_path / 'token'}: No such file" in printed
    assert not (tmp_path / "agent.sqlite").exists()
