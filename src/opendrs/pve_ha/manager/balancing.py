"""Migration of services to reduce the imbalance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opendrs.metrics import imbalance_after
from opendrs.pve_ha import log_events
from opendrs.pve_ha.config.rules.rule import ServiceSet
from opendrs.pve_ha.manager.best_move import MovableBundle, best_move
from opendrs.pve_ha.manager.crm_commands import queue_motion
from opendrs.pve_ha.manager.manager_round import ManagerRound
from opendrs.pve_ha.manager.node_usage import LoadUsage, UsageUnknownError
from opendrs.pve_ha.manager.service_usage import DYNAMIC, STATIC
from opendrs.pve_ha.states import (
    MOVING_STATES,
    VIRTUAL_MACHINE,
    ServiceCommand,
    ServiceId,
    ServiceState,
    service_type,
)
from opendrs.pve_ha.status_files import QueuedMotion, ServiceStatus

NO_SERVICES: ServiceSet = frozenset()
Bundle = Sequence[ServiceId]


def resource_bundles(
    services: Mapping[ServiceId, ServiceStatus],
    together: Mapping[ServiceId, ServiceSet],
) -> dict[ServiceId, Bundle]:
    """Return the services that can be moved as one, by the first of each bundle.

    A bundle consists of a started service and those with which it must share a node. It
    is left out while one of them migrates or while they are on different nodes.

    Args:
        services: Status of each service.
        together: Services with which each must share a node.
    """
    bundles: dict[ServiceId, Bundle] = {}
    for service, status in sorted(services.items()):
        if status.state is not ServiceState.STARTED:
            continue
        affine_services = [
            affine_service
            for affine_service in together.get(service, NO_SERVICES)
            if affine_service in services
        ]
        if any(
            services[affine_service].state in MOVING_STATES
            for affine_service in affine_services
        ):
            continue
        members = sorted(
            member
            for member in {service, *affine_services}
            if services[member].state is ServiceState.STARTED
        )
        if len({services[member].node for member in members}) == 1:
            bundles[members[0]] = members
    return bundles


def balance(round_: ManagerRound) -> None:
    """Move one bundle if the imbalance has lasted for the hold duration."""
    scheduling = round_.scheduling
    if not scheduling.auto_rebalance or scheduling.mode not in (STATIC, DYNAMIC):
        return
    if any(_is_moving(status) for status in round_.services.values()):
        return
    imbalance = round_.usage.imbalance()
    if imbalance <= scheduling.threshold:
        round_.imbalanced_rounds = 0
        return
    round_.imbalanced_rounds += 1
    if round_.imbalanced_rounds < scheduling.hold:
        return
    round_.imbalanced_rounds = 0
    if isinstance(round_.usage, LoadUsage):
        _queue_best_move(round_, round_.usage, imbalance)


def _is_moving(status: ServiceStatus) -> bool:
    return status.state in MOVING_STATES or isinstance(
        status.queued_command, QueuedMotion
    )


def _queue_best_move(round_: ManagerRound, usage: LoadUsage, before: float) -> None:
    try:
        bundles = list(_movable_bundles(round_, usage))
    except UsageUnknownError as error:
        round_.step.log(log_events.MoveScoringFailed(str(error)))
        return
    move = best_move(usage, bundles, round_.scheduling.method)
    if move is None:
        return
    after = imbalance_after(usage.loads(), move, usage.imbalance_metric)
    if (before - after) / before < round_.scheduling.margin:
        return
    command = (
        ServiceCommand.MIGRATE
        if service_type(move.group) == VIRTUAL_MACHINE
        else ServiceCommand.RELOCATE
    )
    event = log_events.RebalanceQueued(command, move.group, move.target, before, after)
    round_.step.log(event)
    queue_motion(round_, QueuedMotion(command, move.target), move.group)


def _movable_bundles(round_: ManagerRound, usage: LoadUsage) -> Iterator[MovableBundle]:
    """Yield the bundles that have a target, in order of their leaders.

    Raises:
        UsageUnknownError: A service of a bundle is not counted.
    """
    bundles = resource_bundles(round_.services, round_.rules.together)
    for leader, members in sorted(bundles.items()):
        _, preferred = round_.selector.allowed_nodes(leader)
        anti_affinity_nodes = round_.selector.affinity_context(
            leader
        ).anti_affinity_nodes
        current_node = round_.services[leader].node
        bundle = MovableBundle(members, current_node, preferred, anti_affinity_nodes)
        if bundle.has_target:
            _require_counted(usage, leader, members)
            yield bundle


def _require_counted(usage: LoadUsage, leader: ServiceId, members: Bundle) -> None:
    for service in members:
        if not usage.is_counted(service):
            role = "leader" if service == leader else "resource"
            raise UsageUnknownError(
                f"{role} '{service}' is not present in the cluster usage"
            )
