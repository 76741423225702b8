"""Agents and a schedule: requests are decided on by the entry of `consolidate`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opendrs.cli.controller_policies import configured_schedule
from opendrs.config.controller_settings import ControllerSettings
from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.config.settings import ApiSettings, Settings
from opendrs.controller.loop import Controller, LoopSettings
from opendrs.controller.replay import replay
from opendrs.model import LoadState
from opendrs.ports import RequestState
from support.agent_cluster import INTERVAL, AgentCluster
from support.builders import cluster
from support.simulated_cluster import SHORT_LIMITS

HOUR = 3600.0
CROWDED = cluster(
    {"h1": 0.95, "h2": 0.2, "h3": 0.2},
    {
        "vm1": ("h1", 0.3),
        "vm2": ("h1", 0.3),
        "vm3": ("h1", 0.3),
        "vm4": ("h2", 0.1),
        "vm5": ("h3", 0.1),
    },
)
REPAIR = ScheduleSettings(policy="repair", interval=HOUR)
OPEN = ScheduleSettings(policy="consolidate", name="agents", interval=INTERVAL)
# The simulation starts at 12:00.
LATER = ScheduleSettings(
    policy="consolidate", name="agents", interval=INTERVAL, windows=("13:00-18:00",)
)


class StoppedError(Exception):
    """The time has passed for which a controller is to run."""


class ScheduledAgents(AgentCluster):
    """A cluster with agents, whose controller has a schedule."""

    def use(self, *entries: ScheduleSettings) -> None:
        """Replace the controller by one with the schedule *entries*."""
        settings = Settings(
            policy_settings={"consolidate": {"detector": "last-n-average"}},
            limits=SHORT_LIMITS,
            controller=ControllerSettings(interval=6 * HOUR),
            schedule=entries,
            api=ApiSettings(certificate=Path("c"), key=Path("k"), tokens=Path("t")),
        )
        clock = self.simulation.clock
        schedule = configured_schedule(settings, self.store, clock)
        assert schedule is not None
        self.controller = Controller(
            LoopSettings(
                interval=settings.controller.interval,
                batch_window=10,
                observe=self.simulation.simulated_platform.observe,
                require_alive=self._check_time,
                schedule=schedule,
            ),
            self.simulation.context(),
            schedule,
            self.wakeup_event,
            self.approval,
        )

    def run_for(self, seconds: float) -> None:
        """Run the loop until *seconds* have passed."""
        self._end = self.simulation.elapsed + seconds
        with pytest.raises(StoppedError):
            self.controller.run_forever()

    def _check_time(self) -> None:
        if self.simulation.elapsed >= self._end:
            raise StoppedError

    def cycles(self) -> list[tuple[str, str]]:
        """Return the entry and the policy of each recorded cycle."""
        decisions: list[Any] = [
            each.document["decision"] for each in self.store.cycles()
        ]
        return [(each.get("schedule", ""), each["policy"]) for each in decisions]


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[ScheduledAgents]:
    with ScheduledAgents(tmp_path, CROWDED) as opened:
        opened.submit("h2")
        opened.submit("h3")
        yield opened


def test_entry_of_consolidate_decides_on_requests(agents: ScheduledAgents) -> None:
    request = agents.submit("h1", LoadState.OVERLOADED, ["vm2"])
    agents.use(REPAIR, OPEN)

    agents.run_for(60)

    assert agents.cycles() == [("repair", "repair"), ("agents", "consolidate")]
    assert agents.get_status(request).state is RequestState.DONE
    assert agents.simulation.node_of("vm2") != "h1"


def test_request_starts_a_cycle_of_its_entry_after_the_batch_window(
    agents: ScheduledAgents,
) -> None:
    agents.use(REPAIR, OPEN)
    agents.run_for(60)
    before = len(agents.cycles())
    request = agents.submit("h1", LoadState.OVERLOADED, ["vm2"])

    agents.run_for(9)
    within_batch_window = agents.get_status(request).state
    agents.run_for(30)

    assert within_batch_window is RequestState.QUEUED
    assert agents.cycles()[before:] == [("agents", "consolidate")]
    assert agents.get_status(request).state is RequestState.DONE


def test_request_waits_while_its_entry_is_closed(agents: ScheduledAgents) -> None:
    agents.use(REPAIR, LATER)
    agents.run_for(HOUR - INTERVAL)
    while_closed = {policy for _, policy in agents.cycles()}
    for node in ("h2", "h3"):
        agents.submit(node)
    request = agents.submit("h1", LoadState.OVERLOADED, ["vm2"])

    agents.run_for(INTERVAL - 60)
    before_opening = agents.get_status(request).state
    agents.run_for(2 * INTERVAL)

    assert while_closed <= {"repair", "drain"}
    assert before_opening is RequestState.QUEUED
    assert agents.get_status(request).state is RequestState.DONE
    assert ("agents", "consolidate") in agents.cycles()


def test_decision_on_requests_of_an_entry_is_replayed(agents: ScheduledAgents) -> None:
    agents.submit("h1", LoadState.OVERLOADED, ["vm2"])
    agents.use(OPEN)
    agents.run_for(60)

    (cycle,) = agents.store.cycles()

    assert replay(cycle).is_same
