"""Checks of a cloud that connect to it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from opendrs.config.platform_kinds import OnlineCheck
from opendrs.platforms.openstack import KIND
from support.nova_double import CloudServer, NovaDouble, served

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openstack") is None,
    reason="openstacksdk is not installed",
)

NOVA = "os_compute_api:"


def failed_checks(cloud: NovaDouble, directory: Path) -> list[OnlineCheck]:
    assert KIND.check_online is not None
    with served(cloud, directory) as double:
        checks = list(KIND.check_online("prod", double.settings))
    return [each for each in checks if not each.ok]


@pytest.fixture
def cloud() -> NovaDouble:
    return NovaDouble(("h1", "h2"), CloudServer("a", "h1"))


def test_checks_succeed_and_start_nothing(cloud: NovaDouble, tmp_path: Path) -> None:
    assert failed_checks(cloud, tmp_path) == []
    assert cloud.migrations == []


@pytest.mark.parametrize(
    ("request_", "rule", "service"),
    [
        ("GET /os-hypervisors/detail", f"{NOVA}os-hypervisors:list-detail", "nova"),
        ("GET /os-services", f"{NOVA}os-services:list", "nova"),
        ("GET /os-aggregates", f"{NOVA}os-aggregates:index", "nova"),
        ("GET /os-server-groups", f"{NOVA}os-server-groups:index", "nova"),
        ("GET /os-migrations", f"{NOVA}os-migrations:index", "nova"),
        ("POST /action", f"{NOVA}os-migrate-server:migrate_live:host", "nova"),
        ("GET /migrations", f"{NOVA}servers:migrations:index", "nova"),
        ("DELETE /migrations/0", f"{NOVA}servers:migrations:delete", "nova"),
        ("GET /usages", "placement:resource_providers:usages", "placement"),
        ("GET /traits", "placement:resource_providers:traits:list", "placement"),
        (
            "GET /inventories",
            "placement:resource_providers:inventories:list",
            "placement",
        ),
    ],
)
def test_missing_permission_is_named_with_the_command_that_grants_it(
    cloud: NovaDouble, tmp_path: Path, request_: str, rule: str, service: str
) -> None:
    cloud.denied = {request_: rule}

    (check,) = failed_checks(cloud, tmp_path)

    assert rule in check.detail
    assert check.remedy.startswith(
        "openstack role add --user USER --project PROJECT admin; or,"
    )
    assert f"/etc/{service}/policy.yaml" in check.remedy
    assert cloud.migrations == []
