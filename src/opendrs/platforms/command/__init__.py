"""Platform that consists of two programs of the operator."""

from opendrs.platforms.command.platform import KIND as KIND
from opendrs.platforms.command.platform import CommandPlatform as CommandPlatform
from opendrs.platforms.command.settings import (
    CommandPlatformSettings as CommandPlatformSettings,
)
