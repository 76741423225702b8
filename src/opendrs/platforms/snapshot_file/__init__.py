"""A snapshot or a history in a file as a read-only platform."""

from opendrs.platforms.snapshot_file.platform import (
    SnapshotFilePlatform as SnapshotFilePlatform,
)
from opendrs.platforms.snapshot_file.platform import (
    SnapshotFileSettings as SnapshotFileSettings,
)
