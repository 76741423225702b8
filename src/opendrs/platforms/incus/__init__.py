"""Platform adapter for Incus clusters, versions 6.0 and 7.0."""

from opendrs.platforms.incus.kind import KIND as KIND
from opendrs.platforms.incus.platform import IncusPlatform as IncusPlatform
from opendrs.platforms.incus.settings import IncusSettings as IncusSettings
