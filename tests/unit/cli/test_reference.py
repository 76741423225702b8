"""The reference names every setting, with its default."""

from dataclasses import MISSING, fields
from enum import StrEnum
from pathlib import Path

import pytest

from opendrs.model import Limits
from opendrs.platforms.file import FileSettings
from opendrs.platforms.file.wire import FIELDS
from opendrs.platforms.libvirt import LibvirtSettings
from opendrs.policies import (
    AutoRebalance,
    Balance,
    Consolidate,
    PressureRelief,
    ThresholdRebalance,
)

REFERENCE = Path(__file__).parents[3] / "docs/reference"
CONFIGURATION = (REFERENCE / "configuration.md").read_text()


def section(title: str) -> str:
    return CONFIGURATION.split(f"## {title}\n")[1].split("\n## ")[0]


def written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, StrEnum):
        return default.value
    if isinstance(default, float) and default.is_integer() and default != 1.0:
        return str(int(default))
    return str(default)


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (Limits, "`[limits]`"),
        (Balance, "`[policy.balance]`"),
        (AutoRebalance, "`[policy.auto-rebalance]`"),
        (Consolidate, "`[policy.consolidate]`"),
        (PressureRelief, "`[policy.pressure]`"),
        (ThresholdRebalance, "`[policy.threshold-rebalance]`"),
    ],
)
def test_every_setting_is_in_the_reference_with_its_default(
    kind: type[
        Limits
        | Balance
        | AutoRebalance
        | Consolidate
        | PressureRelief
        | ThresholdRebalance
    ],
    title: str,
) -> None:
    for field in fields(kind):
        if field.name != "limits":
            assert f"| `{field.name}` | {written(field.default)} |" in section(title)


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (LibvirtSettings, "`[platform.NAME]` of kind `libvirt`"),
        (FileSettings, "`[platform.NAME]` of kind `file`"),
    ],
)
def test_every_setting_of_a_platform_is_in_the_reference(
    kind: type[LibvirtSettings | FileSettings], title: str
) -> None:
    for field in fields(kind):
        required = field.default is MISSING and field.default_factory is MISSING
        assert f"| `{field.name}` |" in section(title)
        if required and kind is LibvirtSettings:
            assert f"| `{field.name}` | required |" in section(title)


def test_every_field_of_a_snapshot_is_in_the_reference() -> None:
    text = (REFERENCE / "snapshot-file.md").read_text()

    assert [field for field in sorted(FIELDS) if f"`{field}`" not in text] == []
