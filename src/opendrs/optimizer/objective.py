"""Objective: the ordered table of what is minimized, with priorities and weights.

A problem has costs (`opendrs.optimizer.evaluation.COSTS`): weighted amounts whose sum
is minimized. A program states its objective as a table of terms. Each term has one
weight, and is encoded in one or more costs of the problem; a cost may serve several
terms.

Lexicographic priorities are approximated by weights: a term of a more important goal
weighs `PRIORITY_FACTOR` times as much as one of the next goal.
"""

from __future__ import annotations

from dataclasses import dataclass

PRIORITY_FACTOR = 100.0  # weight of a goal relative to the next one


@dataclass(frozen=True, slots=True)
class Term:
    """Term of an objective.

    Attributes:
        name: Name, unique in the objective.
        priority: Rank of the goal that it serves, from 0, the most important; None if
            that is not a goal of the program.
        weight: Cost of one unit.
        unit: Amount that has the weight.
        costs: Costs of the problem that contain it, by the names of `COSTS`.
    """

    name: str
    priority: int | None
    weight: float
    unit: str
    costs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Objective:
    """Ordered table of the terms to minimize.

    Attributes:
        terms: The terms.
    """

    terms: tuple[Term, ...]

    def weight(self, name: str) -> float:
        """Return the weight of the term *name*.

        Raises:
            KeyError: There is no such term.
        """
        for term in self.terms:
            if term.name == name:
                return term.weight
        raise KeyError(name)


def priority_weight(priority: int | None, count: int) -> float:
    """Return the weight of a priority: 1 for the last, PRIORITY_FACTOR times the next.

    Args:
        priority: Rank from 0, the most important; None has the weight 0.
        count: Number of priorities.
    """
    return 0.0 if priority is None else float(PRIORITY_FACTOR ** (count - 1 - priority))
