"""Picking up what a process that was killed has left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from opendrs.controller.band import Band
from opendrs.controller.in_flight import InFlight
from opendrs.controller.means import Means
from opendrs.controller.pursuit import Pursuit
from opendrs.controller.units import binding, units
from opendrs.errors import PlatformError
from opendrs.model import PowerOff, PowerOn, Step
from opendrs.ports import Platform, StepRecord


def resume(means: Means) -> tuple[StepRecord, ...]:
    """Follow what an earlier process has started to its end; start nothing.

    Args:
        means: With what; of the brake only the second pull counts here.

    Returns:
        The records that had no outcome, each with its outcome now.

    Raises:
        StoreError: The record could not be kept.
    """
    pursuits = [
        Pursuit(Step(record.step, record.action), record, means)
        for record in means.store.unfinished()
    ]
    in_flight = InFlight(means.store)
    actions = [pursuit.step.action for pursuit in pursuits]
    in_flight.follow(a for a in actions if not isinstance(a, PowerOn | PowerOff))
    _follow(pursuits, _bands(pursuits, means.platform), means)
    for pursuit in pursuits:
        in_flight.end(pursuit.record)
    return tuple(pursuit.record for pursuit in pursuits)


def _follow(pursuits: Sequence[Pursuit], bands: Sequence[Band], means: Means) -> None:
    while running := [pursuit for pursuit in pursuits if pursuit.running]:
        for pursuit in running:
            pursuit.look()
        for band in bands:
            band.hold_together()
        if any(pursuit.running for pursuit in running):
            means.clock.sleep(means.poll)


def _bands(pursuits: Sequence[Pursuit], platform: Platform) -> list[Band]:
    """Return who was started together, as far as the rules can be seen."""
    if len(pursuits) < 2:
        return []
    try:
        rules = platform.observe().rules
    except PlatformError:
        return []
    runs = groupby(
        sorted(pursuits, key=lambda one: one.record.run), lambda one: one.record.run
    )
    found: list[Band] = []
    for _, run in runs:
        of_step = {pursuit.step: pursuit for pursuit in run}
        for unit in units(tuple(of_step), rules):
            if len(unit) > 1:
                members = [of_step[step] for step in unit]
                found.append(Band(members, binding(unit, rules)))
    return found
