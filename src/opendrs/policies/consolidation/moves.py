"""What a decision of consolidation comes to."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.policies.consolidation.detection import Tallies
from opendrs.policies.consolidation.histories import Floats, Truths
from opendrs.policies.consolidation.packing import Packing, Shift


@dataclass(frozen=True, slots=True)
class Moves:
    """What was decided.

    Attributes:
        relief: Who leaves overloaded hosts, in this order.
        emptying: Who leaves each host that is emptied, in the order they are
            emptied in.
        overloaded: Which hosts were found overloaded; shape (hosts,).
        tallies: What the detector remembers.
        packing: Who is where once all is done.
        risk: Part of the time for which each host was to lack CPU before; None
            where hosts were judged by another detector.
    """

    relief: list[Shift]
    emptying: list[list[Shift]]
    overloaded: Truths
    tallies: Tallies
    packing: Packing
    risk: Floats | None = None
