"""Settings of an OpenStack cloud."""

from __future__ import annotations

from typing import Any

import pytest

from opendrs.errors import InvalidSettingError
from opendrs.platforms.openstack.settings import OpenStackSettings


def test_cloud_alone_is_enough() -> None:
    settings = OpenStackSettings(cloud="prod")

    assert settings.block_migration == "auto"
    assert settings.force_complete_after is None


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"cloud": ""}, ["cloud"]),
        ({"cloud": "c", "timeout": 0.0}, ["timeout"]),
        (
            {"cloud": "c", "timeout": float("inf"), "force_complete_after": -1.0},
            ["timeout", "force_complete_after"],
        ),
        (
            {"cloud": "c", "force_complete_after": float("nan")},
            ["force_complete_after"],
        ),
    ],
)
def test_invalid_settings_are_all_reported(
    values: dict[str, Any], fields: list[str]
) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        OpenStackSettings(**values)

    assert [m.partition(":")[0] for m in caught.value.messages] == fields
