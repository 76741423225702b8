"""The reference names every setting, with its default."""

from dataclasses import MISSING, fields
from enum import StrEnum
from pathlib import Path

import pytest

from opendrs.controller.requests import wire
from opendrs.controller.requests.documentation import LOOK_UP_ANSWERS, TAKE_ANSWERS
from opendrs.controller.requests.settings import RequestSettings
from opendrs.controller.settings import AgentSettings, ControllerSettings
from opendrs.model import Limits
from opendrs.platforms.file import FileSettings
from opendrs.platforms.file.wire import FIELDS
from opendrs.platforms.libvirt import LibvirtSettings
from opendrs.policies import (
    AutoRebalance,
    Balance,
    Consolidate,
    Optimize,
    PressureRelief,
    ThresholdRebalance,
)
from opendrs.ports import Outcome, RequestState

REFERENCE = Path(__file__).parents[3] / "docs/reference"
CONFIGURATION = (REFERENCE / "configuration.md").read_text()


def section(title: str) -> str:
    return CONFIGURATION.split(f"## {title}\n")[1].split("\n## ")[0]


def written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, StrEnum):
        return default.value
    if isinstance(default, tuple) and default:
        return ", ".join(default)
    if isinstance(default, float) and default.is_integer() and default != 1.0:
        return str(int(default))
    return str(default)


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (ControllerSettings, "`[controller]`"),
        (Limits, "`[limits]`"),
        (Balance, "`[policy.balance]`"),
        (AutoRebalance, "`[policy.auto-rebalance]`"),
        (Consolidate, "`[policy.consolidate]`"),
        (Optimize, "`[policy.optimize]`"),
        (PressureRelief, "`[policy.pressure]`"),
        (ThresholdRebalance, "`[policy.threshold-rebalance]`"),
    ],
)
def test_every_setting_is_in_the_reference_with_its_default(
    kind: type[
        ControllerSettings
        | Limits
        | Balance
        | AutoRebalance
        | Consolidate
        | Optimize
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


@pytest.mark.parametrize(
    ("kind", "title"),
    [(AgentSettings, "`[agent]`"), (RequestSettings, "`[requests]`")],
)
def test_every_setting_of_the_distributed_form_is_in_the_reference(
    kind: type[AgentSettings | RequestSettings], title: str
) -> None:
    for field in fields(kind):
        assert f"| `{field.name}` |" in section(title)
        if field.default is MISSING:
            assert f"| `{field.name}` | required |" in section(title)
        elif field.default is not None:
            assert f"| `{field.name}` | {written(field.default)} |" in section(title)


def test_every_field_of_a_snapshot_is_in_the_reference() -> None:
    text = (REFERENCE / "snapshot-file.md").read_text()

    assert [field for field in sorted(FIELDS) if f"`{field}`" not in text] == []


def test_every_word_of_the_request_interface_is_in_the_reference() -> None:
    text = (REFERENCE / "requests.md").read_text()
    paths = [wire.REQUESTS, wire.HEALTH, wire.OPENAPI]
    models = (wire.Request, wire.Samples, wire.Standing, wire.StepOutcome, wire.Problem)
    fields = [name for model in models for name in model.model_fields]
    words = [*paths, *fields, *RequestState, *wire.Verdict, *Outcome]
    statuses = [str(status) for status in (*TAKE_ANSWERS, *LOOK_UP_ANSWERS)]

    assert [word for word in (*words, *statuses) if word not in text] == []
