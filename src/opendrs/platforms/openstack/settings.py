"""Settings of an OpenStack cloud."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from opendrs.config.platform_kinds import PlatformKind, on_demand
from opendrs.errors import InvalidSettingError
from opendrs.model import Seconds

MAX_DURATION = 86_400.0  # seconds


class BlockMigration(StrEnum):
    """Migration of disks that are not on shared storage."""

    AUTO = "auto"
    """Nova copies them if they are not shared."""
    NEVER = "never"
    """Nova refuses to migrate such servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStackSettings:
    """Settings of an OpenStack cloud and of its migrations.

    Attributes:
        cloud: Name of the cloud in clouds.yaml.
        clouds_file: The file clouds.yaml; None for the search path of openstacksdk.
        region: Region; None for that in clouds.yaml.
        zones: Availability zones that are managed; empty for all.
        block_migration: Migration of disks that are not on shared storage.
        force_complete_after: Seconds after which a migration in progress is forced to
            complete: Nova pauses the server, or switches to post-copy. None for never.
        timeout: Seconds in which a request must be answered.

    Raises:
        InvalidSettingError: A value is invalid; with all errors.
    """

    cloud: str
    clouds_file: Path | None = None
    region: str | None = None
    zones: tuple[str, ...] = ()
    block_migration: BlockMigration = BlockMigration.AUTO
    force_complete_after: Seconds | None = None
    timeout: Seconds = 30.0

    def __post_init__(self) -> None:
        if problems := tuple(_problems(self)):
            raise InvalidSettingError(*problems)


def _problems(settings: OpenStackSettings) -> Iterator[str]:
    if not settings.cloud:
        yield "cloud: expected the name of a cloud in clouds.yaml, got none"
    for name in ("timeout", "force_complete_after"):
        seconds = getattr(settings, name)
        if seconds is not None and not 0 < seconds <= MAX_DURATION:
            yield (
                f"{name}: expected seconds above 0 and up to {MAX_DURATION:.0f}, "
                f"got {seconds:g}"
            )


KIND = PlatformKind(
    settings_type=OpenStackSettings,
    create=on_demand("opendrs.platforms.openstack.platform:OpenStackPlatform"),
    require_library=on_demand("opendrs.platforms.openstack.connection:load_library"),
    check_online=on_demand("opendrs.platforms.openstack.setup:check_online"),
    ask=on_demand("opendrs.platforms.openstack.setup:ask"),
)
