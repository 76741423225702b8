"""The list of platforms: what it names exists, and is imported only when it is used."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from opendrs.cli.platforms import PLATFORMS, connect_platform, kind_of
from opendrs.config import write_snapshot
from opendrs.config.platform_kinds import (
    PlatformConnection,
    PlatformExtension,
    PlatformKind,
)
from opendrs.platforms.snapshot_file import SnapshotFilePlatform, SnapshotFileSettings
from opendrs.power import PoweredPlatform, PowerSettings
from support.builders import cluster

PROGRAM = """
import sys
from opendrs.cli.main import run

run(sys.argv[1:])
print([name for name in sys.modules if name.startswith("opendrs.platforms.libvirt")])
"""


@pytest.mark.parametrize("name", PLATFORMS.kinds)
def test_kind_of_platform_is_importable_and_has_settings(name: str) -> None:
    kind = PLATFORMS.kinds[name]()

    assert isinstance(kind, PlatformKind)
    assert is_dataclass(kind.settings_type)


@pytest.mark.parametrize("name", PLATFORMS.extensions)
def test_extension_is_importable(name: str) -> None:
    assert isinstance(PLATFORMS.extensions[name](), PlatformExtension)


def test_connect_platform_applies_each_extension(tmp_path: Path) -> None:
    settings = SnapshotFileSettings(path=tmp_path / "cluster.json")
    plain = PlatformConnection(name="saved", kind="file", settings=settings)
    powered = PlatformConnection(
        name="saved",
        kind="file",
        settings=settings,
        extensions={"power": PowerSettings()},
    )

    assert kind_of(plain).read_only
    assert isinstance(connect_platform(plain), SnapshotFilePlatform)
    assert isinstance(connect_platform(powered), PoweredPlatform)


@pytest.mark.parametrize("command", ["plan", "check"])
def test_command_on_snapshot_file_imports_no_other_adapter(
    command: str, tmp_path: Path
) -> None:
    path = tmp_path / "cluster.json"
    write_snapshot(cluster(nodes={"a": 0.5}, guests={"v": ("a", 0.4)}), path)

    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", PROGRAM, command, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.endswith("\n[]\n")
