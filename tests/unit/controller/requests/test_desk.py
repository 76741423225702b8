"""The desk writes down what it accepts, and accepts nothing twice and nothing stale."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from builders import NOON, cluster
from hall import Hall
from opendrs.controller.requests.desk import Answer
from opendrs.controller.requests.wire import (
    GuestSamples,
    Problem,
    RequestState,
    Standing,
    Verdict,
)
from opendrs.errors import StoreError
from opendrs.model import GuestId, NodeId

TWO = cluster({"h1": 0.5, "h2": 0.1}, {"vm1": ("h1", 0.3), "vm2": ("h1", 0.1)})


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    with Hall(tmp_path, TWO) as found:
        yield found


def detail(answer: Answer) -> str:
    assert isinstance(answer.body, Problem)
    return answer.body.detail


def state(answer: Answer) -> RequestState:
    assert isinstance(answer.body, Standing)
    return answer.body.state


def test_what_it_accepts_is_written_down(hall: Hall) -> None:
    request = hall.request("h1", Verdict.OVERLOADED, ["vm1"])

    answer = hall.send(request)

    assert (answer.status, state(answer)) == (202, RequestState.QUEUED)
    record = hall.record(request.id)
    assert record.received_at == NOON
    assert record.leaving == ("vm1",)


def test_the_same_again_changes_nothing_and_is_told_how_it_stands(hall: Hall) -> None:
    request = hall.request("h1")
    hall.send(request)
    hall.cycle()
    hall.stage.clock.sleep(10_000)  # also when it would be stale by now

    answer = hall.send(request)

    assert (answer.status, state(answer)) == (200, RequestState.DONE)
    assert hall.record(request.id).received_at == NOON


def test_the_order_in_which_guests_are_named_makes_no_difference(hall: Hall) -> None:
    one = hall.request("h1", guests={"vm1": [0.1], "vm2": [0.2]})
    other = one.model_copy(
        update={
            "samples": one.samples.model_copy(
                update={"guests": {"vm2": [0.2], "vm1": [0.1]}}
            )
        }
    )
    hall.send(one)

    assert hall.send(other).status == 200


def test_the_same_id_with_something_else_is_a_conflict(hall: Hall) -> None:
    request = hall.request("h1")
    hall.send(request)

    answer = hall.send(request.model_copy(update={"sequence": 99}))

    assert (answer.status, detail(answer)) == (
        409,
        "a request of this id said something else",
    )
    assert hall.record(request.id).sequence == request.sequence


@pytest.mark.parametrize("sequence", [7, 6, 0])
def test_a_sequence_that_does_not_grow_is_stale(hall: Hall, sequence: int) -> None:
    hall.send(hall.request("h1", sequence=7))

    answer = hall.send(hall.request("h1", sequence=sequence))

    assert answer.status == 412
    assert detail(answer) == (
        f"sequence {sequence} is not above 7, the last accepted of h1"
    )
    assert isinstance(answer.body, Problem)
    assert answer.body.last_sequence == 7  # so that the agent can go on from there
    assert hall.send(hall.request("h2", sequence=sequence)).status == 202


@pytest.mark.parametrize(
    ("seconds", "status"), [(-300, 202), (-301, 412), (60, 202), (61, 412)]
)
def test_samples_may_be_so_old_or_so_far_ahead_and_no_more(
    hall: Hall, seconds: float, status: int
) -> None:
    taken_at = NOON + timedelta(seconds=seconds)

    answer = hall.send(hall.request("h1", taken_at=taken_at))

    assert answer.status == status


def test_samples_are_not_taken_for_newer_than_their_arrival(hall: Hall) -> None:
    ahead = NOON + timedelta(seconds=50)
    request = hall.request("h1", guests={"vm1": [0.5]}, taken_at=ahead)

    hall.send(request)
    again = hall.send(request)
    hall.cycle()

    assert again.status == 200  # it is the same as it was sent
    assert hall.record(request.id).taken_at == NOON
    found = hall.inbox.history(GuestId("vm1"))
    assert found is not None
    assert found.taken_at == NOON


def test_says_how_old_samples_are_and_how_old_they_may_be(hall: Hall) -> None:
    old = hall.send(hall.request("h1", taken_at=NOON - timedelta(hours=1)))
    ahead = hall.send(hall.request("h1", taken_at=NOON + timedelta(hours=1)))

    assert detail(old) == "its samples are 3600 s old; at most 300 s are accepted"
    assert detail(ahead) == (
        "its samples are 3600 s ahead of the controller's clock; "
        "at most 60 s are accepted"
    )


def test_what_is_refused_leaves_no_trace(hall: Hall) -> None:
    late = hall.request("h1", guests={"vm1": [1.0]}, taken_at=NOON - timedelta(hours=1))

    hall.send(late)

    assert hall.inbox.newest() == ()
    assert hall.desk.samples(GuestId("vm1")).status == 404
    assert hall.send(hall.request("h1", sequence=late.sequence)).status == 202


def test_the_token_of_another_node_is_not_enough(hall: Hall) -> None:
    request = hall.request("h1")

    answer = hall.desk.take(request, NodeId("h2"))

    assert (answer.status, detail(answer)) == (403, "this is the token of h2, not h1")
    assert hall.inbox.newest() == ()


def test_how_a_request_stands_is_told_to_its_own_node_only(hall: Hall) -> None:
    request = hall.request("h1")
    hall.send(request)

    assert hall.desk.look_up(str(request.id), NodeId("h1")).status == 200
    assert hall.desk.look_up(str(request.id), NodeId("h2")).status == 403
    assert hall.desk.look_up(str(uuid4()), NodeId("h1")).status == 404


def test_only_who_asks_for_something_rings(hall: Hall) -> None:
    hall.ask("h1", Verdict.CALM)
    after_calm = hall.bell.heard()
    hall.ask("h1", Verdict.UNDERLOADED)
    after_little = hall.bell.heard()
    again = hall.request("h1", Verdict.OVERLOADED, ["vm1"])
    hall.send(again)
    after_much = hall.bell.heard()
    hall.send(again)

    assert (after_calm, after_little, after_much) == (False, True, True)
    assert not hall.bell.heard()


def test_an_agent_that_samples_at_another_interval_is_told_once(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    for interval in (300, 60, 60, 300, 10):
        hall.send(hall.request("h1", interval=interval))
    hall.send(hall.request("h2", interval=300))

    told = [r for r in caplog.records if getattr(r, "event", "") == "intervals-differ"]
    start = "h1 samples each {} s, and a cycle comes each 300 s: its samples are left "
    end = (
        "out, and it is unknown when nothing came for 900 s; the two should be the same"
    )
    assert [r.getMessage() for r in told] == [
        start.format(60) + end,
        start.format(10) + end,
    ]


def test_the_history_of_a_guest_follows_it(hall: Hall) -> None:
    hall.send(hall.request("h1", guests={"vm1": [0.25, 0.5], "vm2": []}))
    hall.cycle()
    hall.stage.clock.sleep(300)
    hall.send(hall.request("h1", guests={}))

    answer = hall.desk.samples(GuestId("vm1"))

    assert answer.body == GuestSamples(interval=300, taken_at=NOON, samples=[0.25, 0.5])
    # An empty history is none.
    assert hall.desk.samples(GuestId("vm2")).status == 404


def test_what_cannot_be_written_down_is_not_accepted(hall: Hall) -> None:
    request = hall.request("h1", Verdict.UNDERLOADED)
    hall.store.__exit__(None, None, None)

    with pytest.raises(StoreError):
        hall.send(request)

    assert not hall.bell.heard()
    hall.store.__enter__()
    assert hall.send(request).status == 202


def test_of_many_guests_that_should_leave_the_first_are_named(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    names = [f"gone{number}" for number in range(50)]

    asked = hall.ask("h1", Verdict.OVERLOADED, names)
    hall.cycle()

    assert f"{', '.join(names[:20])} and 30 more" in hall.standing(asked).detail
    assert "gone19 and 30 more should leave" in caplog.text
    assert "gone20" not in caplog.text
    (taken,) = (
        r for r in caplog.records if getattr(r, "event", "") == "request-accepted"
    )
    assert vars(taken)["about"]["leaving_count"] == 50
    assert hall.record(asked).leaving == tuple(names)
