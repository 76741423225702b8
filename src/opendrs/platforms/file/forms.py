"""What a file is, where another one was expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from opendrs.errors import InvalidFileError


@dataclass(frozen=True, slots=True)
class Form:
    """A form of files.

    Attributes:
        name: What a file of it is, in words.
        use: What it is for.
    """

    name: str
    use: str


class FileForm(Enum):
    """The forms of files that operators write, and mistake for one another."""

    SNAPSHOT = Form("a snapshot", "opendrs plan, show and check take it")
    CONFIGURATION = Form(
        "a configuration", "opendrs run and agent take it, the others with --config"
    )
    SCENARIO = Form("a scenario", "opendrs simulate takes it")
    SWEEP = Form("a sweep", "opendrs sweep takes it")
    DRILL = Form("a drill", "opendrs drill takes it")


_BEGINNINGS: Mapping[str, FileForm] = {
    "opendrs-snapshot/": FileForm.SNAPSHOT,
    "opendrs-scenario/": FileForm.SCENARIO,
    "opendrs-sweep/": FileForm.SWEEP,
    "opendrs-drill/": FileForm.DRILL,
}
_OF_CONFIGURATIONS = frozenset({"agent", "controller", "platform", "requests", "store"})


def form_of(document: object) -> FileForm | None:
    """Return what the plain values of *document* are; None if that cannot be told."""
    if not isinstance(document, Mapping):
        return None
    said = document.get("format")
    if isinstance(said, str):
        for beginning, form in _BEGINNINGS.items():
            if said.startswith(beginning):
                return form
        return None
    return FileForm.CONFIGURATION if _OF_CONFIGURATIONS & document.keys() else None


def require_form(document: object, source: str, wanted: FileForm) -> None:
    """Check that *document* is not of another form than it should be.

    Args:
        document: Plain values, as parsed.
        source: Where they come from, to begin the complaint with.
        wanted: What it should be.

    Raises:
        InvalidFileError: It is of another one; all its fields would be wrong.
    """
    found = form_of(document)
    if found not in (None, wanted):
        raise InvalidFileError(
            f"{source} is {found.value.name}, not {wanted.value.name}: "
            f"{found.value.use}"
        )
