"""File formats of OpenDRS, and their detection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from opendrs.errors import InvalidFileError


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """Description of a file format for error messages.

    Attributes:
        name: Name with article.
        usage: Commands that accept the format.
    """

    name: str
    usage: str


class FileFormat(Enum):
    """The file formats that operators write."""

    SNAPSHOT = FormatDescription("a snapshot", "use opendrs plan, show or check")
    CONFIGURATION = FormatDescription(
        "a configuration", "use opendrs run or agent, or --config of the others"
    )
    SCENARIO = FormatDescription("a scenario", "use opendrs simulate")
    SWEEP = FormatDescription("a sweep", "use opendrs sweep")
    DRILL = FormatDescription("a drill", "use opendrs drill")


_FORMAT_PREFIXES: Mapping[str, FileFormat] = {
    "opendrs-snapshot/": FileFormat.SNAPSHOT,
    "opendrs-scenario/": FileFormat.SCENARIO,
    "opendrs-sweep/": FileFormat.SWEEP,
    "opendrs-drill/": FileFormat.DRILL,
}
_CONFIGURATION_TABLES = frozenset({"agent", "controller", "platform", "api", "store"})


def detect_format(document: object) -> FileFormat | None:
    """Return the format of *document*; None if it cannot be determined."""
    if not isinstance(document, Mapping):
        return None
    declared = document.get("format")
    if isinstance(declared, str):
        for prefix, file_format in _FORMAT_PREFIXES.items():
            if declared.startswith(prefix):
                return file_format
        return None
    return FileFormat.CONFIGURATION if _CONFIGURATION_TABLES & document.keys() else None


def require_format(document: object, source: str, expected: FileFormat) -> None:
    """Check that *document* does not have another format than *expected*.

    Args:
        document: Plain values, as parsed.
        source: Origin of the document, for error messages.
        expected: The expected format.

    Raises:
        InvalidFileError: The document has another format.
    """
    detected = detect_format(document)
    if detected not in (None, expected):
        raise InvalidFileError(
            f"{source}: expected {expected.value.name}, got {detected.value.name}; "
            f"{detected.value.usage}"
        )
