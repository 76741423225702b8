"""Power draw of nodes by the used fraction of their CPU.

Source:
    SPECpower_ssj2008 results of the servers, as tabulated by Beloglazov and Buyya
    (CCPE 2012) and in CloudSim 3.0.3; https://www.spec.org/power_ssj2008/results/.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from opendrs.policies.consolidation.history import Floats, Integers

DECILES = 10


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Power at 0, 10, ..., 100 % load, with linear interpolation.

    Attributes:
        server: Server model that was measured.
        watts: The eleven values.

    Raises:
        ValueError: There are not eleven values, or one is negative.
    """

    server: str
    watts: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.watts) != DECILES + 1 or not all(w >= 0 for w in self.watts):
            raise ValueError(
                f"power curve {self.server}: expected {DECILES + 1} values of at least"
                f" 0 W, got {self.watts}"
            )

    def at(self, load: float) -> float:
        """Return the watts at *load*, in [0, 1]; larger values count as 1."""
        position = min(max(load, 0.0), 1.0) * DECILES
        below = math.floor(position)
        above = min(below + 1, DECILES)
        step = (self.watts[above] - self.watts[below]) / DECILES
        return self.watts[below] + step * (load - below / DECILES) * 100


def power_draw(watts: Floats, curve: Integers, load: Floats) -> Floats:
    """Return the power draw of nodes in watts.

    Args:
        watts: One row of eleven values per curve.
        curve: Row of each node's curve; shape (nodes,).
        load: Used fraction of the CPU, in [0, 1]; shape (nodes,).
    """
    below = np.minimum((load * DECILES).astype(np.int64), DECILES)
    above = np.minimum(below + 1, DECILES)
    low = watts[curve, below]
    step = (watts[curve, above] - low) / DECILES
    draw: Floats = low + step * (load - below / DECILES) * 100
    return draw


_MEASURED = (
    (
        "HP ProLiant ML110 G3 (Pentium D 930)",
        (105, 112, 118, 125, 131, 137, 147, 153, 157, 164, 169),
    ),
    (
        "HP ProLiant ML110 G4 (Xeon 3040)",
        (86, 89.4, 92.6, 96, 99.5, 102, 106, 108, 112, 114, 117),
    ),
    (
        "HP ProLiant ML110 G5 (Xeon 3075)",
        (93.7, 97, 101, 105, 110, 116, 121, 125, 129, 133, 135),
    ),
    (
        "IBM System x3250 (Xeon X3470)",
        (41.6, 46.7, 52.3, 57.9, 65.4, 73, 80.7, 89.5, 99.6, 105, 113),
    ),
    (
        "IBM System x3250 (Xeon X3480)",
        (42.3, 46.7, 49.7, 55.4, 61.8, 69.3, 76.1, 87, 96.1, 106, 113),
    ),
    (
        "IBM System x3550 (Xeon X5670)",
        (66, 107, 120, 131, 143, 156, 173, 191, 211, 229, 247),
    ),
    (
        "IBM System x3550 (Xeon X5675)",
        (58.4, 98, 109, 118, 128, 140, 153, 170, 189, 205, 222),
    ),
)
SPECPOWER = MappingProxyType(
    {
        key: PowerCurve(server, tuple(map(float, watts)))
        for key, (server, watts) in zip(
            (
                "hp-ml110-g3",
                "hp-ml110-g4",
                "hp-ml110-g5",
                "ibm-x3250-x3470",
                "ibm-x3250-x3480",
                "ibm-x3550-x5670",
                "ibm-x3550-x5675",
            ),
            _MEASURED,
            strict=True,
        )
    }
)
