"""Actions, steps and plans."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.errors import ModelError
from opendrs.model.identifiers import GuestId, NodeId, StepId


@dataclass(frozen=True, slots=True, order=True)
class LiveMigration:
    """Live migration of one guest from *source* to *target*."""

    guest: GuestId
    source: NodeId
    target: NodeId


@dataclass(frozen=True, slots=True, order=True)
class ColdMigration:
    """Cold migration of one guest: stop it on *source*, start it on *target*."""

    guest: GuestId
    source: NodeId
    target: NodeId


@dataclass(frozen=True, slots=True, order=True)
class Relocation:
    """Relocation of a stopped guest from *source* to *target*; it stays stopped."""

    guest: GuestId
    source: NodeId
    target: NodeId


@dataclass(frozen=True, slots=True, order=True)
class DiskMove:
    """Move of one disk of a guest to another storage; the guest stays on its node.

    Attributes:
        guest: The guest.
        node: Its node.
        disk: Name of the disk, as in `Disk.name`.
        source_storage: Storage that the disk is on.
        target_storage: Storage that it is moved to, which the node can use as well.
    """

    guest: GuestId
    node: NodeId
    disk: str
    source_storage: str
    target_storage: str

    @property
    def source(self) -> NodeId:
        """Return the node of the guest before the move."""
        return self.node

    @property
    def target(self) -> NodeId:
        """Return the node of the guest after the move: the same."""
        return self.node


@dataclass(frozen=True, slots=True, order=True)
class PowerOn:
    """Power-on of a node."""

    node: NodeId


@dataclass(frozen=True, slots=True, order=True)
class PowerOff:
    """Power-off of a node without guests."""

    node: NodeId


Migration = LiveMigration | ColdMigration | Relocation
# What copies data of a guest.
Transfer = LiveMigration | ColdMigration | Relocation | DiskMove
Action = LiveMigration | ColdMigration | Relocation | DiskMove | PowerOn | PowerOff


def path_of(action: Transfer) -> tuple[str, str, str]:
    """Return what *action* moves, from where, and to where, for the operator.

    These are the guest and its nodes, or the guest with its disk and the storages.
    """
    if isinstance(action, DiskMove):
        moved = f"{action.guest} ({action.disk})"
        return moved, action.source_storage, action.target_storage
    return action.guest, action.source, action.target


@dataclass(frozen=True, slots=True)
class Step:
    """Action of a plan with the steps it depends on.

    Attributes:
        id: Name, unique in the plan.
        action: The action.
        depends_on: Steps that must be done before this step may start.
        detail: Why this guest and this node were chosen, for the operator.
    """

    id: StepId
    action: Action
    depends_on: tuple[StepId, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in a safe order; an empty plan changes nothing.

    Steps without dependencies between them may run in parallel. Guests of a strict
    affinity rule start together.

    Raises:
        ModelError: Two steps have the same id, or a step depends on one that does not
            precede it.
    """

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        step_ids: set[StepId] = set()
        for step in self.steps:
            if step.id in step_ids:
                raise ModelError(f"step {step.id}: duplicate id")
            if missing := set(step.depends_on) - step_ids:
                raise ModelError(
                    f"step {step.id}: depends on {min(missing)}, which does not "
                    "precede it"
                )
            step_ids.add(step.id)


EMPTY_PLAN = Plan()
