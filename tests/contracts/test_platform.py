"""What every platform keeps to, the simulated as the real one.

Each platform sets the same stage: a guest on a source, a target, and a guest
whose migration takes as long as is wished.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

import pytest

from builders import cluster, guest_ids
from integration.lab import MIB, Lab
from opendrs.errors import PlatformError
from opendrs.model import Guest, GuestId, GuestState, Migration, NodeId, Pin
from opendrs.platforms.power import Powered
from opendrs.ports import Platform, TaskId, TaskState
from opendrs.sim.clock import SimulatedClock
from opendrs.sim.platform import SimulatedPlatform

SOURCE, TARGET, THIRD = NodeId("h1"), NodeId("h2"), NodeId("h3")
QUICK, SLOW = GuestId("quick"), GuestId("slow")
RULES = (Pin(guests=guest_ids("quick"), name="for the test"),)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Nodes h1, h2 and h3, and on h1 two guests, one of them slow to move.

    Attributes:
        platform: The platform under test; it knows `RULES`.
        again: The same cluster, as another process gets to know it.
        wait: Lets so many seconds pass.
        prepare: Waits until the slow guest is slow.
        hurry: Lets the migration of the slow guest come to its end.
    """

    platform: Platform
    again: Callable[[], Platform]
    wait: Callable[[float], object]
    prepare: Callable[[], object]
    hurry: Callable[[], object]

    def where(self, guest: GuestId) -> Guest:
        return self.platform.observe().guests[guest]

    def ended(self, task: TaskId) -> TaskState:
        for _ in range(400):
            state = self.platform.status(task).state
            if state is not TaskState.RUNNING:
                return state
            self.wait(0.1)
        pytest.fail(f"{task} does not end")

    def begun(self, move: Migration) -> TaskId:
        """Start the *move* of the slow guest and return when it can be seen."""
        self.prepare()
        task = self.platform.start(move)
        for _ in range(100):
            if self.where(move.guest).migrating_to is not None:
                return task
            self.wait(0.1)
        pytest.fail(f"{task} does not begin")


def simulated(_: pytest.FixtureRequest) -> Stage:
    return _simulated(lambda platform: platform)


def powered(_: pytest.FixtureRequest) -> Stage:
    return _simulated(lambda platform: Powered(platform, lambda _: None))


def _simulated(around: Callable[[Platform], Platform]) -> Stage:
    clock = SimulatedClock()
    origin = cluster(
        nodes={"h1": 0.5, "h2": 0.1, "h3": 0.1},
        guests={"quick": ("h1", 0.01), "slow": ("h1", 0.4)},
        rules=RULES,
    )
    world = SimulatedPlatform(origin, clock)
    return Stage(
        platform=around(world),
        again=lambda: around(world),  # its world is in this process alone
        wait=clock.sleep,
        prepare=lambda: None,
        hurry=lambda: clock.sleep(600),
    )


def libvirt(request: pytest.FixtureRequest) -> Stage:
    lab: Lab = request.getfixturevalue("lab")
    lab.vm(1, QUICK, duty=5)
    lab.vm(1, SLOW, dirty=4000, memory=32)

    def platform() -> Platform:
        return lab.platform(bandwidth=MIB, sample=0.1, rules=RULES)

    return Stage(
        platform=platform(),
        again=platform,
        wait=Event().wait,
        prepare=lambda: lab.fill(SLOW),
        hurry=lambda: lab.hurry(1, SLOW),
    )


@pytest.fixture(
    params=[
        simulated,
        powered,
        pytest.param(libvirt, marks=[pytest.mark.lab, pytest.mark.shared]),
    ]
)
def stage(request: pytest.FixtureRequest) -> Stage:
    setting: Callable[[pytest.FixtureRequest], Stage] = request.param
    return setting(request)


def move(guest: GuestId, source: NodeId = SOURCE, target: NodeId = TARGET) -> Migration:
    return Migration(guest, source, target)


def test_shows_nodes_guests_and_the_rules_in_force(stage: Stage) -> None:
    seen = stage.platform.observe()

    assert stage.platform.name
    assert seen.taken_at.utcoffset() is not None
    assert {SOURCE, TARGET, THIRD} == set(seen.nodes)
    assert all(node.online and node.capacity for node in seen.nodes.values())
    assert {QUICK, SLOW} == set(seen.guests)
    assert {guest.node for guest in seen.guests.values()} == {SOURCE}
    assert {guest.state for guest in seen.guests.values()} == {GuestState.RUNNING}
    assert seen.rules == RULES


def test_a_migration_brings_the_guest_to_its_target(stage: Stage) -> None:
    task = stage.platform.start(move(QUICK))

    assert stage.ended(task) is TaskState.DONE
    assert stage.where(QUICK).node == TARGET
    assert stage.where(QUICK).migrating_to is None
    assert stage.where(QUICK).state is GuestState.RUNNING


def test_a_guest_on_the_move_is_on_both_nodes(stage: Stage) -> None:
    task = stage.begun(move(SLOW))
    seen, status = stage.where(SLOW), stage.platform.status(task)
    stage.hurry()

    assert (seen.node, seen.migrating_to) == (SOURCE, TARGET)
    assert seen.state is GuestState.RUNNING
    assert status.state is TaskState.RUNNING
    assert stage.ended(task) is TaskState.DONE


def test_a_task_is_found_again_by_its_action(stage: Stage) -> None:
    before = stage.platform.find(move(SLOW))
    task = stage.begun(move(SLOW))
    during = stage.again().find(move(SLOW))
    stage.hurry()
    stage.ended(task)
    after = stage.again().find(move(SLOW))

    assert {before, task, during} == {after}


def test_finding_starts_nothing(stage: Stage) -> None:
    stage.platform.find(move(QUICK))
    stage.wait(1)

    assert stage.where(QUICK).node == SOURCE
    assert stage.where(QUICK).migrating_to is None


def test_another_process_can_follow_a_task_to_its_end(stage: Stage) -> None:
    task = stage.begun(move(SLOW))
    follower = stage.again()
    going = follower.status(task).state
    stage.hurry()
    stage.ended(task)

    assert going is TaskState.RUNNING
    assert follower.status(task).state is TaskState.DONE


def test_an_aborted_migration_leaves_the_guest_where_it_was(stage: Stage) -> None:
    task = stage.begun(move(SLOW))

    stage.platform.abort(task)

    assert stage.ended(task) is TaskState.FAILED
    assert stage.platform.status(task).detail
    assert stage.where(SLOW).node == SOURCE
    assert stage.where(SLOW).state is GuestState.RUNNING


def test_aborting_what_is_done_changes_nothing(stage: Stage) -> None:
    task = stage.platform.start(move(QUICK))
    stage.ended(task)

    stage.platform.abort(task)

    assert stage.platform.status(task).state is TaskState.DONE
    assert stage.where(QUICK).node == TARGET


def test_a_guest_that_has_left_the_source_is_not_moved_from_there(stage: Stage) -> None:
    stage.ended(stage.platform.start(move(QUICK)))

    with pytest.raises(PlatformError):
        stage.again().start(move(QUICK, SOURCE, THIRD))

    assert stage.where(QUICK).node == TARGET


def test_a_guest_on_the_move_is_not_sent_elsewhere(stage: Stage) -> None:
    task = stage.begun(move(SLOW))

    with pytest.raises(PlatformError):
        stage.again().start(move(SLOW, SOURCE, THIRD))
    stage.hurry()

    assert stage.ended(task) is TaskState.DONE
    assert stage.where(SLOW).node == TARGET


def test_a_guest_it_does_not_know_is_not_moved(stage: Stage) -> None:
    with pytest.raises(PlatformError):
        stage.platform.start(move(GuestId("nobody")))


def test_a_node_it_does_not_know_receives_nothing(stage: Stage) -> None:
    with pytest.raises(PlatformError):
        stage.platform.start(move(QUICK, SOURCE, NodeId("nowhere")))

    assert stage.where(QUICK).node == SOURCE


def test_a_guest_is_not_moved_to_where_it_is(stage: Stage) -> None:
    with pytest.raises(PlatformError):
        stage.platform.start(move(QUICK, SOURCE, SOURCE))
