"""The file formats of OpenDRS, and which one a document has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from opendrs.errors import InvalidFileError


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """A form of files.

    Attributes:
        name: What a file of it is, in words.
        usage: What it is for.
    """

    name: str
    usage: str


class FileFormat(Enum):
    """The forms of files that operators write, and mistake for one another."""

    SNAPSHOT = FormatDescription("a snapshot", "opendrs plan, show and check take it")
    CONFIGURATION = FormatDescription(
        "a configuration", "opendrs run and agent take it, the others with --config"
    )
    SCENARIO = FormatDescription("a scenario", "opendrs simulate takes it")
    SWEEP = FormatDescription("a sweep", "opendrs sweep takes it")
    DRILL = FormatDescription("a drill", "opendrs drill takes it")


_FORMAT_PREFIXES: Mapping[str, FileFormat] = {
    "opendrs-snapshot/": FileFormat.SNAPSHOT,
    "opendrs-scenario/": FileFormat.SCENARIO,
    "opendrs-sweep/": FileFormat.SWEEP,
    "opendrs-drill/": FileFormat.DRILL,
}
_CONFIGURATION_TABLES = frozenset({"agent", "controller", "platform", "api", "store"})


def detect_format(document: object) -> FileFormat | None:
    """Return what the plain values of *document* are; None if that cannot be told."""
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
    """Check that *document* is not of another form than it should be.

    Args:
        document: Plain values, as parsed.
        source: Where they come from, to begin the complaint with.
        expected: What it should be.

    Raises:
        InvalidFileError: It is of another one; all its fields would be wrong.
    """
    detected = detect_format(document)
    if detected not in (None, expected):
        raise InvalidFileError(
            f"{source} is {detected.value.name}, not {expected.value.name}: "
            f"{detected.value.usage}"
        )
