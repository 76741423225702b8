"""Controller on a simulated cluster, with observers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from opendrs.controller.consent import ConsentApproval
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.loop import Controller, LoopSettings, WakeupEvent
from opendrs.controller.observers import ControllerObserver, ControllerObservers
from opendrs.model import Snapshot
from opendrs.policies import Balance, Policy
from support.builders import cluster
from support.simulated_cluster import SHORT_LIMITS, SimulatedCluster

LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"one": ("a", 0.2), "two": ("a", 0.2), "three": ("a", 0.2)},
)
INTERVAL = 300.0  # seconds


class MonitoredController:
    """Controller whose events *observers* receive.

    Args:
        observers: The observers.
        origin: The cluster in the beginning.
        policy: The policy; None for balance.
    """

    def __init__(
        self,
        *observers: ControllerObserver,
        origin: Snapshot = LOPSIDED,
        policy: Policy[Any] | None = None,
        simulation: SimulatedCluster | None = None,
    ) -> None:
        self.simulation = simulation or SimulatedCluster(origin)
        self.observers = ControllerObservers(observers)
        self.controller = Controller(
            LoopSettings(
                interval=INTERVAL,
                batch_window=10,
                observe=self.simulation.platform.observe,
                require_alive=lambda: None,
                observer=self.observers,
            ),
            replace(self.simulation.context(), observer=self.observers),
            PolicyDecisionSource(
                policy or Balance(limits=SHORT_LIMITS), self.simulation.store
            ),
            WakeupEvent(),
            ConsentApproval(lambda _: True),
        )
        self.observers.lease_acquired(self.simulation.store)
        self.observers.configured("balance", INTERVAL)
