"""Read-only platform for a snapshot or a history in a file."""

from opendrs.platforms.snapshot_file.platform import KIND as KIND
from opendrs.platforms.snapshot_file.platform import (
    SnapshotFilePlatform as SnapshotFilePlatform,
)
from opendrs.platforms.snapshot_file.platform import (
    SnapshotFileSettings as SnapshotFileSettings,
)
