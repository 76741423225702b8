"""What agents ask for is decided about together, once, and closed with its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from builders import cluster
from hall import TRUSTING, Hall
from opendrs.controller.requests.desk import KEPT
from opendrs.controller.requests.wire import RequestState, Verdict
from opendrs.model import GuestId, Migration, NodeId, NodeState, PowerOff, Snapshot
from opendrs.platforms.file import snapshot_from
from opendrs.ports import Outcome

OVER, UNDER, CALM = Verdict.OVERLOADED, Verdict.UNDERLOADED, Verdict.CALM
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


@contextmanager
def opened(place: Path, origin: Snapshot = CROWDED) -> Iterator[Hall]:
    with Hall(place, origin) as hall:
        yield hall


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    with opened(tmp_path) as found:
        yield found


def places(hall: Hall) -> dict[str, str]:
    return {
        name: guest.node for name, guest in hall.stage.world.observe().guests.items()
    }


def moved(hall: Hall) -> set[str]:
    """Return who is not where it was in the beginning."""
    return {
        name
        for name, node in places(hall).items()
        if CROWDED.guests[GuestId(name)].node != node
    }


def test_an_overloaded_node_is_relieved_of_who_should_leave(hall: Hall) -> None:
    asked = hall.ask("h1", OVER, ["vm2"])
    others = [hall.ask("h2"), hall.ask("h3")]

    hall.cycle()

    standing = hall.standing(asked)
    assert standing.state is RequestState.DONE
    (step,) = standing.steps
    assert (step.action.kind, step.action.guest) == ("migrate", "vm2")
    assert step.outcome is Outcome.DONE
    assert moved(hall) == {"vm2"}
    assert {hall.standing(name).state for name in others} == {RequestState.DONE}


def test_a_node_with_little_to_do_is_emptied(hall: Hall) -> None:
    asked = hall.ask("h3", UNDER)
    hall.ask("h2")
    hall.ask("h1")

    hall.cycle()

    assert hall.standing(asked).state is RequestState.DONE
    assert places(hall)["vm5"] == "h2"


def test_nobody_is_moved_when_all_are_calm(hall: Hall) -> None:
    asked = [hall.ask(name) for name in ("h1", "h2", "h3")]

    report = hall.cycle()

    assert report.records == ()
    for name in asked:
        standing = hall.standing(name)
        assert (standing.state, standing.detail) == (RequestState.DONE, "")


def test_the_node_of_a_silent_agent_receives_nobody(hall: Hall) -> None:
    asked = hall.ask("h1", OVER, ["vm1", "vm2"])

    hall.cycle()

    standing = hall.standing(asked)
    assert standing.state is RequestState.REFUSED
    assert standing.detail.startswith("nothing is done: ")
    assert moved(hall) == set()


def test_a_node_that_seems_empty_is_not_put_to_sleep_while_it_is_silent(
    tmp_path: Path,
) -> None:
    origin = cluster({"h1": 0.3, "h2": 0.0}, {"vm1": ("h1", 0.3)})
    policy = replace(TRUSTING, power=True)
    with Hall(tmp_path, origin, policy) as hall:
        hall.ask("h1")
        hall.cycle()
        while_silent = dict(hall.stage.world.starts)
        hall.ask("h1")
        hall.ask("h2", UNDER)

        hall.cycle()

        assert while_silent == {}
        assert set(hall.stage.world.starts) == {PowerOff(NodeId("h2"))}


def test_an_agent_falls_silent_after_a_while(hall: Hall) -> None:
    hall.ask("h2")
    hall.ask("h3")
    hall.stage.clock.sleep(901)
    asked = hall.ask("h1", OVER, ["vm1"])

    hall.cycle()

    assert hall.standing(asked).state is RequestState.REFUSED
    assert moved(hall) == set()


def test_silence_is_told_when_it_changes(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "opendrs")
    hall.ask("h1")
    for _ in range(2):
        hall.cycle()
    hall.ask("h2")
    hall.ask("h3")
    hall.cycle()

    told = [
        r.getMessage()
        for r in caplog.records
        if getattr(r, "event", "").startswith("agents")
    ]
    assert told == ["not heard: h2, h3", "all agents are heard"]


def test_silence_is_judged_by_the_record_after_a_restart(hall: Hall) -> None:
    hall.ask("h2")
    hall.ask("h3")
    hall.cycle()
    hall.begin()
    hall.stage.clock.sleep(400)
    asked = hall.ask("h1", OVER, ["vm1"])

    hall.cycle()

    assert hall.standing(asked).state is RequestState.DONE


def test_what_was_asked_for_once_is_done_once(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    hall.ask("h1", OVER, ["vm1"])
    hall.cycle()
    # Somebody moves it back: the request does not come to life again.
    back = Migration(GuestId("vm1"), NodeId(places(hall)["vm1"]), NodeId("h1"))
    hall.stage.world.start(back)
    hall.stage.clock.sleep(200)
    assert moved(hall) == set()

    hall.begin()
    hall.cycle()

    assert moved(hall) == set()


def test_who_should_leave_and_is_gone_is_left_out_and_told(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    asked = hall.ask("h1", OVER, ["vm4", "vm1", "deleted"])

    hall.cycle()

    standing = hall.standing(asked)
    assert moved(hall) == {"vm1"}
    assert standing.state is RequestState.DONE
    assert standing.detail == "not there any more, and left out: vm4, deleted"


def test_who_finds_no_place_is_told(tmp_path: Path) -> None:
    origin = cluster(
        {"h1": 0.95, "h2": 0.5},
        {"vm1": ("h1", 0.3), "vm2": ("h1", 0.3), "vm3": ("h2", 0.5)},
    )
    with opened(tmp_path, origin) as hall:
        hall.ask("h2")
        asked = hall.ask("h1", OVER, ["vm1", "vm2"])

        hall.cycle()

        standing = hall.standing(asked)
        assert standing.state is RequestState.DONE
        assert standing.detail == "no place was found for vm2"


def test_what_was_measured_before_a_move_ended_is_not_acted_on(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    hall.ask("h1", OVER, ["vm1"])
    early = hall.request("h1", OVER, ["vm2"])  # sampled now, sent later
    hall.cycle()
    hall.send(early)

    hall.cycle()

    standing = hall.standing(early.id)
    assert standing.state is RequestState.REFUSED
    assert standing.detail == "h1 has changed since its samples were taken"
    assert moved(hall) == {"vm1"}


def test_nor_where_the_clock_of_the_agent_is_ahead(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    hall.ask("h1", OVER, ["vm1"])
    early = []

    def sent_by_a_clock_that_is_ahead() -> None:
        taken_at = hall.stage.clock.now() + timedelta(seconds=50)
        early.append(hall.request("h1", OVER, ["vm2"], taken_at=taken_at))
        hall.send(early[0])

    hall.stage.world.later(0.1, sent_by_a_clock_that_is_ahead)  # while vm1 is moved
    hall.cycle()

    hall.cycle()

    assert hall.standing(early[0].id).state is RequestState.REFUSED
    assert moved(hall) == {"vm1"}


def test_the_newest_of_a_node_is_what_counts(hall: Hall) -> None:
    first = hall.ask("h1", OVER, ["vm1"])
    for name in ("h1", "h2", "h3"):
        hall.ask(name)

    hall.cycle()

    assert hall.standing(first).state is RequestState.SUPERSEDED
    assert moved(hall) == set()


def test_a_node_that_the_platform_does_not_have_is_told(hall: Hall) -> None:
    asked = hall.ask("h9", OVER, ["vm1"])

    hall.cycle()

    standing = hall.standing(asked)
    assert standing.state is RequestState.REFUSED
    assert standing.detail == "there is no node h9"


def test_what_waited_for_too_long_is_not_acted_on(hall: Hall) -> None:
    asked = hall.ask("h1", OVER, ["vm1"])
    hall.stage.clock.sleep(901)
    for name in ("h2", "h3"):
        hall.ask(name)

    hall.cycle()

    standing = hall.standing(asked)
    assert standing.state is RequestState.REFUSED
    assert standing.detail == "it waited too long to be acted on"


def test_what_was_asked_for_in_the_future_counts_as_of_now(hall: Hall) -> None:
    asked = hall.ask("h1", OVER, ["vm1"])
    for name in ("h2", "h3"):
        hall.ask(name)
    hall.stage.clock.jump(-86_400)

    hall.cycle()

    assert hall.standing(asked).state is RequestState.DONE
    assert moved(hall) == {"vm1"}


def test_an_agent_that_was_heard_in_the_future_is_silent_in_the_end(hall: Hall) -> None:
    for name in ("h1", "h2", "h3"):
        hall.ask(name)
    hall.stage.clock.jump(-86_400)
    hall.cycle()
    hall.stage.clock.sleep(901)
    for name in ("h1", "h3"):
        hall.ask(name)

    assert told(hall)["nodes"].keys() == {"h1", "h3"}


def test_what_was_asked_for_before_a_change_is_refused_also_in_the_future(
    hall: Hall,
) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    hall.ask("h1", OVER, ["vm1"])
    early = []

    def ask_meanwhile() -> None:
        early.append(hall.request("h1", OVER, ["vm2"]))
        hall.send(early[0])

    hall.stage.world.later(0.1, ask_meanwhile)
    assert hall.cycle().complete
    hall.stage.clock.jump(-86_400)

    hall.cycle()

    assert hall.standing(early[0].id).state is RequestState.REFUSED
    assert moved(hall) == {"vm1"}


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=3)])
def test_a_clock_that_was_ahead_and_is_put_right_holds_up_nobody(
    hall: Hall, ahead: timedelta
) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    hall.ask("h1", OVER, ["vm1"])
    for record in hall.cycle().records:
        assert record.ended_at is not None
        begun, ended = record.intended_at + ahead, record.ended_at + ahead
        hall.store.write(replace(record, intended_at=begun, ended_at=ended))
    hall.stage.clock.jump(ahead.total_seconds())  # while nothing moves
    hall.send(hall.request("h3", guests={"vm5": [0.9]}))
    hall.stage.clock.jump(-ahead.total_seconds())
    hall.cycle()
    for name in ("h2", "h3"):
        hall.ask(name)
    asked = hall.ask("h1", OVER, ["vm2"])

    hall.cycle()

    assert hall.standing(asked).state is RequestState.DONE
    assert moved(hall) == {"vm1", "vm2"}
    assert told(hall)["guests"] == {"vm5": [0.9]}  # as of when the clock was set back


def test_a_step_that_fails_fails_its_request_and_no_other(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    asked = hall.ask("h1", OVER, ["vm1"])
    hall.stage.world.later(0.5, lambda: hall.stage.world.kill(NodeId("h2")))

    hall.cycle()

    standing = hall.standing(asked)
    assert standing.state is RequestState.FAILED
    assert standing.steps[0].outcome is Outcome.FAILED
    assert standing.detail.startswith("step 1 failed: ")


def test_what_the_operator_stops_is_decided_about_by_the_next(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    asked = hall.ask("h1", OVER, ["vm1"])
    answer = hall.docket.judge

    def stopped(snapshot: Snapshot):  # type: ignore[no-untyped-def]  # noqa: ANN202
        hall.stage.brake.pull()
        return answer(snapshot)

    hall.docket.judge = stopped  # type: ignore[method-assign]
    hall.cycle()
    assert hall.standing(asked).state is RequestState.QUEUED

    hall.stage.brake = type(hall.stage.brake)()
    hall.begin()
    hall.cycle()

    assert hall.standing(asked).state is RequestState.DONE


def test_what_was_only_looked_at_is_queued_again(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    asked = hall.ask("h1", OVER, ["vm1"])
    hall.docket.judge(hall.stage.world.observe())  # and the process dies
    assert hall.standing(asked).state is RequestState.DECIDING

    hall.begin()
    hall.cycle()

    assert hall.standing(asked).state is RequestState.DONE
    assert moved(hall) == {"vm1"}


def test_what_was_looked_at_gives_way_to_a_newer_one(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    first = hall.ask("h1", OVER, ["vm1"])
    hall.docket.judge(hall.stage.world.observe())  # and the process dies
    hall.begin()
    second = hall.ask("h1", OVER, ["vm2"])

    hall.cycle()

    standing = hall.standing(first)
    assert standing.state is RequestState.SUPERSEDED
    assert standing.detail == "a newer one came before it was decided about"
    assert hall.standing(second).state is RequestState.DONE
    assert moved(hall) == {"vm2"}


def test_what_was_about_to_start_and_did_not_is_told(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.ask(name)
    asked = hall.ask("h1", OVER, ["vm1"])
    seen = hall.stage.world.observe()
    hall.docket.begin(seen, hall.docket.judge(seen).decision, "run")
    assert hall.standing(asked).steps[0].outcome is None  # and the process dies

    hall.begin()
    hall.cycle()

    standing = hall.standing(asked)
    assert standing.state is RequestState.FAILED
    assert standing.detail == "step 1: the controller ended before it was started"
    assert standing.steps[0].outcome is Outcome.SKIPPED
    assert moved(hall) == set()


def told(hall: Hall) -> dict[str, dict[str, list[float]]]:
    """Return what is decided by: the histories of guests, and those of nodes."""
    memory = hall.docket.judge(hall.stage.world.observe()).memory
    return {"guests": memory["guests"], "nodes": memory["nodes"]}


def test_a_node_cannot_speak_for_the_guests_of_another(hall: Hall) -> None:
    hall.send(hall.request("h1", guests={"vm1": [0.1, 0.2]}))
    hall.send(hall.request("h3", guests={"vm1": [9.0], "vm4": [9.0], "vm5": [0.3]}))

    assert told(hall)["guests"] == {"vm1": [0.1, 0.2], "vm5": [0.3]}


def test_a_guest_keeps_its_history_until_its_new_node_tells_one(hall: Hall) -> None:
    hall.send(hall.request("h1", guests={"vm1": [0.1, 0.2]}))
    hall.cycle()
    hall.stage.world.start(Migration(GuestId("vm1"), NodeId("h1"), NodeId("h2")))
    hall.stage.clock.sleep(200)
    on_arrival = told(hall)["guests"]
    hall.send(hall.request("h2", guests={"vm1": [0.2, 0.3]}))

    assert on_arrival == {"vm1": [0.1, 0.2]}
    assert told(hall)["guests"] == {"vm1": [0.2, 0.3]}


def test_samples_of_another_interval_are_left_out(hall: Hall) -> None:
    hall.send(hall.request("h1", guests={"vm1": [0.1]}))
    hall.send(hall.request("h2", guests={"vm4": [0.2]}, interval=10))

    assert told(hall) == {"guests": {"vm1": [0.1]}, "nodes": {"h1": [0.0]}}


def test_what_was_decided_is_decided_again_from_the_record(hall: Hall) -> None:
    for name in ("h2", "h3"):
        hall.send(
            hall.request(name, guests={"vm4" if name == "h2" else "vm5": [1.0, 2.0]})
        )
    hall.ask("h1", OVER, ["vm1", "vm2"])
    hall.cycle()

    (cycle,) = hall.store.cycles()
    snapshot = snapshot_from(cycle.document["snapshot"], "the record")
    again = hall.policy.answer(snapshot, cycle.document["memory"])  # type: ignore[arg-type]

    told = cycle.document["decision"]
    assert isinstance(told, dict)
    assert len(told["steps"]) == 2
    assert [(s.id, s.why) for s in again.plan.steps] == [
        (s["id"], s["why"]) for s in told["steps"]
    ]
    assert again.detail == told["detail"]


def test_a_node_that_slept_is_woken_for_who_should_leave(tmp_path: Path) -> None:
    origin = cluster(
        {"h1": 0.95, "h2": 0.8, "h3": 0.0},
        {
            "vm1": ("h1", 0.3),
            "vm2": ("h1", 0.3),
            "vm3": ("h2", 0.6),
        },
    )
    asleep = replace(origin.nodes[NodeId("h3")], state=NodeState.OFFLINE)
    origin = replace(origin, nodes={**origin.nodes, NodeId("h3"): asleep})
    policy = replace(TRUSTING, power=True)
    with Hall(tmp_path, origin, policy) as hall:
        hall.ask("h2")
        asked = hall.ask("h1", OVER, ["vm1"])

        hall.cycle()

        standing = hall.standing(asked)
        kinds = [step.action.kind for step in standing.steps]
        assert kinds == ["power-on", "migrate"]
        assert standing.state is RequestState.DONE
        assert places(hall)["vm1"] == "h3"


def test_only_the_newest_requests_of_a_node_are_kept(hall: Hall) -> None:
    other = hall.ask("h2")
    asked = [hall.ask("h1") for _ in range(KEPT + 2)]

    left = [name for name in asked if hall.inbox.request(str(name)) is not None]

    assert left == asked[2:]
    assert hall.inbox.request(str(other)) is not None
