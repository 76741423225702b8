"""Budget of a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from opendrs.model import BYTES, GIB, SECONDS, format_count, parse_amount

MINUTE = 60  # seconds
KNEE, UNLIMITED = "knee", "unlimited"
_DIMENSIONS = (
    ("gib", BYTES, GIB),
    ("minutes", {**SECONDS, "minutes": MINUTE}, MINUTE),
    ("migrations", {"migration": 1, "migrations": 1}, 1),
)
"""Limited amounts, with their units and the size of the counted unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Most that a plan may transfer or migrate.

    Attributes:
        gib: Memory that may be transferred, in GiB.
        migrations: Number of migrations.
        minutes: Estimated duration of the plan.
        knee: True to stop at the point of diminishing returns.
    """

    gib: float = math.inf
    migrations: float = math.inf
    minutes: float = math.inf
    knee: bool = False

    @property
    def is_zero(self) -> bool:
        """True if no migration is allowed."""
        return min(self.gib, self.migrations, self.minutes) <= 0

    @property
    def limits_transfer(self) -> bool:
        """True if the memory or the number of migrations is limited."""
        return math.isfinite(min(self.gib, self.migrations))

    @property
    def limits_time(self) -> bool:
        """True if the duration of the plan is limited."""
        return math.isfinite(self.minutes)

    @property
    def smaller(self) -> Budget | None:
        """The budget whose amounts are the next smaller powers of two.

        All budgets of one kind that are larger than a power of two lead to it. None if
        no amount is limited or one is at most 1.
        """
        amounts = self.gib, self.migrations
        limited = [each for each in amounts if math.isfinite(each)]
        if not limited or min(limited) <= 1:
            return None
        gib, migrations = map(_smaller_power_of_two, amounts)
        return replace(self, gib=gib, migrations=migrations)

    def __str__(self) -> str:
        parts = [
            *([f"{self.gib:g} GiB"] if math.isfinite(self.gib) else []),
            *(
                [format_count(int(self.migrations), "migration")]
                if math.isfinite(self.migrations)
                else []
            ),
            *([f"{self.minutes:g} min"] if self.limits_time else []),
        ]
        return ", ".join(parts) or (KNEE if self.knee else UNLIMITED)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Return the budget described by *text*.

        It is `knee`, `unlimited`, or amounts in MiB, GiB, TiB, migrations, s, min, h or
        d, such as `500 GiB`, `40 migrations` or `30 min`. Several amounts are separated
        by commas; all of them bind.

        Raises:
            ValueError: The text is no budget.
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


def _smaller_power_of_two(amount: float) -> float:
    """Return the largest power of two below *amount*, which is above 1; inf for inf."""
    return (
        2.0 ** (math.ceil(math.log2(amount)) - 1) if math.isfinite(amount) else amount
    )


def _amount(part: str, text: str) -> tuple[str, float]:
    for name, units, one in _DIMENSIONS:
        found = parse_amount(part, units)
        if found is None:
            continue
        if math.isinf(found):
            raise ValueError(f"budget: number too large: {part!r} in {text!r}")
        if name == "migrations" and not found.is_integer():
            raise ValueError(
                f"budget: expected a whole number of migrations, "
                f"got {found:g} in {text!r}"
            )
        return name, found / one
    raise ValueError(
        f"budget: expected {KNEE}, {UNLIMITED}, or amounts such as 500 GiB, "
        "40 migrations or 30 min (MiB, GiB, TiB, migrations, s, min, h, d), "
        f"got {text!r}"
    )
