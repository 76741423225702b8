"""What all events have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, for the log and for whoever counts."""

    @property
    def name(self) -> str:
        """Return what kind of event it is, in words joined by hyphens."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", type(self).__name__).lower()

    def details(self) -> dict[str, object]:
        """Return the values of its fields by their names."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
