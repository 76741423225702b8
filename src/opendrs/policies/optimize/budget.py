"""How much may be moved."""

from __future__ import annotations

import math
from dataclasses import dataclass

from opendrs.model import BYTES, GIB, SECONDS, parse_amount

MINUTE = 60  # seconds
KNEE, UNLIMITED = "knee", "unlimited"
_DIMENSIONS = (
    ("gib", BYTES, GIB),
    ("minutes", {**SECONDS, "minutes": MINUTE}, MINUTE),
    ("migrations", {"migration": 1, "migrations": 1}, 1),
)
"""What may be limited, with its units and the size of what is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may be moved at most.

    Attributes:
        gib: The memory that may be transferred, in GiB.
        migrations: The guests that may be moved.
        minutes: How long the plan may take, as far as that can be told.
        knee: Whether less is moved where more would bring little.
    """

    gib: float = math.inf
    migrations: float = math.inf
    minutes: float = math.inf
    knee: bool = False

    @property
    def is_zero(self) -> bool:
        """Whether it lets nothing move."""
        return min(self.gib, self.migrations, self.minutes) <= 0

    def __str__(self) -> str:
        parts = [
            *([f"{self.gib:g} GiB"] if math.isfinite(self.gib) else []),
            *(
                [f"{self.migrations:g} migrations"]
                if math.isfinite(self.migrations)
                else []
            ),
            *([f"{self.minutes:g} min"] if math.isfinite(self.minutes) else []),
        ]
        return ", ".join(parts) or (KNEE if self.knee else UNLIMITED)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Return the budget that *text* names.

        `knee`, `unlimited`, or amounts in MiB, GiB, TiB, migrations, s, min, h or d, such as
        `500 GiB`, `40 migrations` or `30 min`; several are separated by commas, and all of
        them bind.

        Raises:
            ValueError: It names none.
        """
        word = text.strip().lower()
        if word == KNEE:
            return cls(knee=True)
        if word == UNLIMITED:
            return cls()
        limits = {"gib": math.inf, "migrations": math.inf, "minutes": math.inf}
        for part in word.split(","):
            name, amount = _amount(part.strip(), text)
            limits[name] = min(amount, limits[name])
        return cls(
            gib=limits["gib"],
            migrations=limits["migrations"],
            minutes=limits["minutes"],
        )


def _amount(part: str, text: str) -> tuple[str, float]:
    for name, units, one in _DIMENSIONS:
        found = parse_amount(part, units)
        if found is None:
            continue
        if math.isinf(found):
            raise ValueError(f"budget {text!r}: {part} is too large a number")
        if name == "migrations" and not found.is_integer():
            raise ValueError(
                f"budget {text!r}: {found:g} is no whole number of migrations"
            )
        return name, found / one
    raise ValueError(
        f"budget must be {KNEE}, {UNLIMITED}, or amounts such as 500 GiB, "
        f"40 migrations or 30 min (MiB, GiB, TiB, migrations, s, min, h, d), not {text!r}"
    )
