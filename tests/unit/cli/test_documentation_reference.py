"""The reference names every setting, with its default."""

from dataclasses import MISSING, fields
from enum import StrEnum
from pathlib import Path

import pytest

from opendrs.api.openapi import STATUS_RESPONSES, SUBMIT_RESPONSES
from opendrs.config import api_schema
from opendrs.config.controller_settings import ControllerSettings
from opendrs.config.monitoring_settings import MetricsSettings
from opendrs.config.notification_settings import EmailSettings, WebhookSettings
from opendrs.config.oidc_settings import OidcSettings
from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.config.settings import AgentSettings, ApiSettings
from opendrs.config.snapshot_schema import FIELDS
from opendrs.model import Limits, LoadState
from opendrs.platforms.command import CommandPlatformSettings
from opendrs.platforms.incus import IncusSettings
from opendrs.platforms.libvirt import LibvirtSettings
from opendrs.platforms.openstack.settings import OpenStackSettings
from opendrs.platforms.prometheus import PrometheusSettings
from opendrs.platforms.proxmox import ProxmoxSettings
from opendrs.platforms.snapshot_file import SnapshotFileSettings
from opendrs.policies import AutoRebalance, Balance
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.pressure import PressureRelief
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from opendrs.ports import Outcome, RequestState

REFERENCE = Path(__file__).parents[3] / "docs/reference"
CONFIGURATION = (REFERENCE / "configuration.md").read_text()


def reference_section(title: str) -> str:
    return CONFIGURATION.split(f"## {title}\n")[1].split("\n## ")[0]


def default_text(default: object) -> str:
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
        (MetricsSettings, "`[metrics]`"),
        (Limits, "`[limits]`"),
        (Balance, "`[policy.balance]`"),
        (AutoRebalance, "`[policy.auto-rebalance]`"),
        (Consolidate, "`[policy.consolidate]`"),
        (Optimize, "`[policy.optimize]`"),
        (Repair, "`[policy.repair]`"),
        (PressureRelief, "`[policy.pressure]`"),
        (ThresholdRebalance, "`[policy.threshold-rebalance]`"),
    ],
)
def test_every_setting_is_in_the_reference_with_its_default(
    kind: type[
        ControllerSettings
        | MetricsSettings
        | Limits
        | Balance
        | AutoRebalance
        | Consolidate
        | Optimize
        | PressureRelief
        | Repair
        | ThresholdRebalance
    ],
    title: str,
) -> None:
    for field in fields(kind):
        if field.name != "limits":
            default = (
                field.default
                if field.default_factory is MISSING
                else field.default_factory()
            )
            assert f"| `{field.name}` | {default_text(default)} |" in reference_section(
                title
            )


def test_every_setting_of_openid_connect_is_in_the_reference() -> None:
    section = reference_section("`[web.oidc]`")
    for field in fields(OidcSettings):
        assert f"`{field.name}`" in section


def test_every_setting_of_a_schedule_is_in_the_reference_with_its_default() -> None:
    section = reference_section("`[[schedule]]`")
    texts = {"policy": "required", "name": "that of the policy"}
    for field in fields(ScheduleSettings):
        default = (
            field.default
            if field.default_factory is MISSING
            else field.default_factory()
        )
        text = texts.get(field.name, default_text(default))
        assert f"| `{field.name}` | {text} |" in section


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (LibvirtSettings, "`[platform.NAME]` of kind `libvirt`"),
        (OpenStackSettings, "`[platform.NAME]` of kind `openstack`"),
        (IncusSettings, "`[platform.NAME]` of kind `incus`"),
        (SnapshotFileSettings, "`[platform.NAME]` of kind `file`"),
        (CommandPlatformSettings, "`[platform.NAME]` of kind `command`"),
        (ProxmoxSettings, "`[platform.NAME]` of kind `proxmox`"),
        (PrometheusSettings, "`[platform.NAME.load]`"),
    ],
)
def test_every_setting_of_a_platform_is_in_the_reference(
    kind: type[
        LibvirtSettings
        | IncusSettings
        | OpenStackSettings
        | SnapshotFileSettings
        | CommandPlatformSettings
        | ProxmoxSettings
        | PrometheusSettings
    ],
    title: str,
) -> None:
    for field in fields(kind):
        required = field.default is MISSING and field.default_factory is MISSING
        assert f"`{field.name}`" in reference_section(title)
        if required and kind is not SnapshotFileSettings:
            assert f"| `{field.name}` | required |" in reference_section(title)


@pytest.mark.parametrize(
    ("kind", "title"),
    [(AgentSettings, "`[agent]`"), (ApiSettings, "`[api]`")],
)
def test_every_setting_of_the_distributed_form_is_in_the_reference(
    kind: type[AgentSettings | ApiSettings], title: str
) -> None:
    for field in fields(kind):
        assert f"| `{field.name}` |" in reference_section(title)
        if field.default is MISSING:
            assert f"| `{field.name}` | required |" in reference_section(title)
        elif field.default is not None:
            assert (
                f"| `{field.name}` | {default_text(field.default)} |"
                in reference_section(title)
            )


@pytest.mark.parametrize("kind", [WebhookSettings, EmailSettings])
def test_every_setting_of_notifications_is_in_the_reference(
    kind: type[WebhookSettings | EmailSettings],
) -> None:
    section = reference_section("`[[notifications]]`")

    assert [f.name for f in fields(kind) if f"`{f.name}`" not in section] == []


def test_every_field_of_a_snapshot_is_in_the_reference() -> None:
    text = (REFERENCE / "snapshot-file.md").read_text()

    assert [field for field in sorted(FIELDS) if f"`{field}`" not in text] == []


def test_every_code_of_the_api_is_in_the_reference() -> None:
    text = (REFERENCE / "requests.md").read_text()
    paths = ["/requests/ID", "/guests/GUEST/samples", "/health", "/openapi.json"]
    models = (
        api_schema.RequestBody,
        api_schema.UsageSamples,
        api_schema.RequestStatus,
        api_schema.StepOutcome,
        api_schema.ReceivedProblem,
    )
    fields = [name for model in models for name in model.model_fields]
    words = [*paths, *fields, *RequestState, *LoadState, *Outcome]
    statuses = [str(status) for status in (*SUBMIT_RESPONSES, *STATUS_RESPONSES)]

    assert [word for word in (*words, *statuses) if word not in text] == []
