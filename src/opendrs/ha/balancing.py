"""Moving services so that the load becomes more even."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opendrs.ha import events
from opendrs.ha.accounting import DYNAMIC, STATIC
from opendrs.ha.documents import Motion, ServiceStatus
from opendrs.ha.identifiers import VIRTUAL_MACHINE, ServiceId, kind_of
from opendrs.ha.improvement import Movable, best_move
from opendrs.ha.requests import queue_motion
from opendrs.ha.round import Round
from opendrs.ha.rules.rule import Services
from opendrs.ha.states import MOVING, ServiceState, Task
from opendrs.ha.usage import LoadUsage, UsageUnknownError
from opendrs.scoring import imbalance_after

NOBODY: Services = frozenset()
Bundle = Sequence[ServiceId]


def resource_bundles(
    services: Mapping[ServiceId, ServiceStatus],
    together: Mapping[ServiceId, Services],
) -> dict[ServiceId, Bundle]:
    """Return what can be moved as one, by the first of each bundle.

    A bundle is a service that has started and those it must be together with.
    There is none while one of them moves, or while they are apart.

    Args:
        services: Where each service stands.
        together: The services each must be together with.
    """
    bundles: dict[ServiceId, Bundle] = {}
    for service, status in sorted(services.items()):
        if status.state is not ServiceState.STARTED:
            continue
        friends = [f for f in together.get(service, NOBODY) if f in services]
        if any(services[friend].state in MOVING for friend in friends):
            continue
        members = sorted(
            member
            for member in {service, *friends}
            if services[member].state is ServiceState.STARTED
        )
        if len({services[member].node for member in members}) == 1:
            bundles[members[0]] = members
    return bundles


def balance(round_: Round) -> None:
    """Move one bundle if the load has been uneven for long enough."""
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
        _improve(round_, round_.usage, imbalance)


def _is_moving(status: ServiceStatus) -> bool:
    return status.state in MOVING or isinstance(status.order, Motion)


def _improve(round_: Round, usage: LoadUsage, before: float) -> None:
    try:
        bundles = list(_movables(round_, usage))
    except UsageUnknownError as why:
        round_.turn.say(events.MovesUnscored(str(why)))
        return
    move = best_move(usage, bundles, round_.scheduling.method)
    if move is None:
        return
    after = imbalance_after(usage.loads(), move, usage.form)
    if (before - after) / before < round_.scheduling.margin:
        return
    task = Task.MIGRATE if kind_of(move.unit) == VIRTUAL_MACHINE else Task.RELOCATE
    told = events.Rebalanced(task, move.unit, move.target, before, after)
    round_.turn.say(told)
    queue_motion(round_, Motion(task, move.target), move.unit)


def _movables(round_: Round, usage: LoadUsage) -> Iterator[Movable]:
    """Yield the bundles that may go anywhere, in order of their leaders.

    Raises:
        UsageUnknownError: A service that may move is not counted.
    """
    bundles = resource_bundles(round_.services, round_.rules.together)
    for leader, members in sorted(bundles.items()):
        _, preferred = round_.selector.choices(leader)
        separate = round_.selector.company(leader).separate
        here = round_.services[leader].node
        bundle = Movable(members, here, preferred, separate)
        if bundle.has_target:
            _require_counted(usage, leader, members)
            yield bundle


def _require_counted(usage: LoadUsage, leader: ServiceId, members: Bundle) -> None:
    for service in members:
        if not usage.counts(service):
            who = "leader" if service == leader else "resource"
            raise UsageUnknownError(
                f"{who} '{service}' is not present in the cluster usage"
            )
