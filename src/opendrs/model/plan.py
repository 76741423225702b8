"""What a policy proposes."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.errors import ModelError
from opendrs.model.identifiers import GuestId, NodeId, StepId


@dataclass(frozen=True, slots=True, order=True)
class LiveMigration:
    """The live migration of one guest from *source* to *target*."""

    guest: GuestId
    source: NodeId
    target: NodeId


@dataclass(frozen=True, slots=True, order=True)
class ColdMigration:
    """Stopping one guest on *source* and starting it on *target*."""

    guest: GuestId
    source: NodeId
    target: NodeId


@dataclass(frozen=True, slots=True, order=True)
class PowerOn:
    """Waking a node."""

    node: NodeId


@dataclass(frozen=True, slots=True, order=True)
class PowerOff:
    """Putting an empty node to sleep."""

    node: NodeId


Migration = LiveMigration | ColdMigration
Action = LiveMigration | ColdMigration | PowerOn | PowerOff


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a plan.

    Attributes:
        id: Its name, unique in the plan.
        action: What to do.
        depends_on: The steps that must be done before this one may start.
        detail: Why this guest and why that node, in words for the operator.
    """

    id: StepId
    action: Action
    depends_on: tuple[StepId, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order that is safe; an empty plan changes nothing.

    Steps with nothing between them may run together. Guests that a strict
    affinity rule keeps together are started together.

    Raises:
        ModelError: Two steps have one name, or a step waits for one that does
            not stand before it.
    """

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        step_ids: set[StepId] = set()
        for step in self.steps:
            if step.id in step_ids:
                raise ModelError(f"two steps are called {step.id}")
            if missing := set(step.depends_on) - step_ids:
                raise ModelError(
                    f"{step.id} waits for {min(missing)}, which is not before it"
                )
            step_ids.add(step.id)


EMPTY_PLAN = Plan()
