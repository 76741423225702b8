"""What the inbox of requests keeps to."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from builders import NOON
from opendrs.controller.stores import SqliteInbox, SqliteStore
from opendrs.errors import StoreError
from opendrs.model import GuestId, Migration, NodeId, PowerOff, Step, StepId
from opendrs.ports import GuestHistory, Inbox, RequestRecord, RequestState

A, B = NodeId("a"), NodeId("b")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.db"


@pytest.fixture
def inbox(path: Path) -> Iterator[Inbox]:
    with SqliteStore(path) as store:
        yield SqliteInbox(store)


def request(node: NodeId = A, sequence: int = 1) -> RequestRecord:
    """Return a request that was accepted *sequence* minutes after noon."""
    return RequestRecord(
        id=f"{node} {sequence}",
        node=node,
        sequence=sequence,
        taken_at=NOON + timedelta(minutes=sequence, microseconds=-1),
        received_at=NOON + timedelta(minutes=sequence),
        interval=300.0,
        digest=f"digest of {sequence}",
        verdict="overloaded",
        leaving=(GuestId("vm 'ä'"), GuestId("vm2")),
        own=(0.1, 2.0),
    )


def history(guest: str, minute: int = 0, node: NodeId = A) -> GuestHistory:
    return GuestHistory(
        guest=GuestId(guest),
        node=node,
        taken_at=NOON + timedelta(minutes=minute),
        interval=300.0,
        samples=(0.25, float(minute)),
    )


def accept(
    inbox: Inbox,
    request: RequestRecord,
    histories: Collection[GuestHistory],
    keep: int = 100,
) -> None:
    inbox.accept(request, histories, keep=keep)


def place(inbox: Inbox, node: NodeId, *guests: str) -> None:
    """Let *guests* be seen on *node*."""
    inbox.place({GuestId(guest): node for guest in guests}, NOON)


def closed(one: RequestRecord) -> RequestRecord:
    return replace(one, state=RequestState.DONE)


def test_knows_nothing_in_the_beginning(inbox: Inbox) -> None:
    assert inbox.request("a 1") is None
    assert inbox.newest() == inbox.unclosed() == ()
    assert inbox.history(GuestId("vm")) is None
    assert inbox.histories(NOON) == ()


def test_gives_back_what_was_accepted(inbox: Inbox) -> None:
    accept(inbox, request(), [history("vm")])
    place(inbox, A, "vm")

    assert inbox.request("a 1") == request()
    assert inbox.newest() == inbox.unclosed() == (request(),)
    assert inbox.history(GuestId("vm")) == history("vm")


def test_gives_back_what_became_of_it(inbox: Inbox) -> None:
    accept(inbox, request(), [])
    now = replace(
        request(),
        state=RequestState.EXECUTING,
        detail="why",
        run="run",
        steps=(
            Step(StepId("1"), Migration(GuestId("vm"), A, B)),
            Step(StepId("2"), PowerOff(A)),
        ),
    )

    inbox.note([now])

    assert inbox.request("a 1") == now


def test_a_newer_one_supersedes_what_was_not_looked_at(inbox: Inbox) -> None:
    accept(inbox, request(A, 1), [])
    accept(inbox, request(B, 1), [])
    accept(inbox, request(A, 2), [])

    found = inbox.request("a 1")
    assert found is not None
    assert found.state is RequestState.SUPERSEDED
    assert found.detail == "a 2 came before it was looked at"
    assert [one.id for one in inbox.unclosed()] == ["b 1", "a 2"]


@pytest.mark.parametrize(
    "state", [RequestState.DECIDING, RequestState.EXECUTING, RequestState.DONE]
)
def test_what_was_looked_at_is_not_superseded(
    inbox: Inbox, state: RequestState
) -> None:
    looked_at = replace(request(), state=state)
    accept(inbox, request(), [])
    inbox.note([looked_at])

    accept(inbox, request(A, 2), [])

    assert inbox.request("a 1") == looked_at


def test_what_is_claimed_is_looked_at_and_not_superseded_any_more(
    inbox: Inbox,
) -> None:
    for one in (request(A, 1), request(A, 2), request(B, 1)):
        accept(inbox, one, [])

    # The first was superseded by the second before it could be claimed.
    claimed = inbox.claim(["a 1", "a 2", "unknown"])
    again = inbox.claim(["a 2"])
    accept(inbox, request(A, 3), [])

    looked_at = replace(request(A, 2), state=RequestState.DECIDING)
    assert claimed == (looked_at,)
    assert again == ()
    assert inbox.unclosed() == (request(B, 1), looked_at, request(A, 3))


def test_tells_the_newest_of_each_node_whatever_became_of_it(inbox: Inbox) -> None:
    for one in (request(A, 2), request(B, 7), request(A, 10)):
        accept(inbox, one, [])
    inbox.note([closed(request(B, 7))])

    assert [one.id for one in inbox.newest()] == ["a 10", "b 7"]
    assert inbox.latest(A) == request(A, 10)
    assert inbox.latest(B) == closed(request(B, 7))
    assert inbox.latest(NodeId("c")) is None


def test_refuses_a_sequence_twice_and_then_keeps_nothing_of_it(inbox: Inbox) -> None:
    accept(inbox, request(), [])

    with pytest.raises(StoreError):
        accept(inbox, replace(request(), id="other"), [history("vm")])
    place(inbox, A, "vm")

    assert inbox.newest() == (request(),)
    assert inbox.history(GuestId("vm")) is None


def test_a_history_follows_its_guest(inbox: Inbox) -> None:
    accept(inbox, request(A), [history("vm", 0), history("stays", 0)])
    place(inbox, A, "vm", "stays")
    accept(inbox, request(B), [history("vm", 5, B)])
    before = inbox.history(GuestId("vm"))

    place(inbox, B, "vm")

    assert before == history("vm", 0)
    assert inbox.history(GuestId("vm")) == history("vm", 5, B)
    assert inbox.histories(NOON) == (history("stays", 0), history("vm", 5, B))


def test_a_history_goes_on_to_count_until_the_new_node_tells_one(inbox: Inbox) -> None:
    accept(inbox, request(B), [history("vm", -1, B)])  # it was there before, too
    accept(inbox, request(A), [history("vm", 0)])
    place(inbox, A, "vm")

    place(inbox, B, "vm")

    assert inbox.history(GuestId("vm")) == history("vm", 0)


def test_what_a_node_tells_of_the_guests_of_others_does_not_count(inbox: Inbox) -> None:
    accept(inbox, request(A), [history("vm", 0)])
    accept(inbox, request(B), [history("vm", 5, B), history("unseen", 5, B)])
    place(inbox, A, "vm")

    assert inbox.histories(NOON) == (history("vm", 0),)
    assert inbox.history(GuestId("vm")) == history("vm", 0)
    assert inbox.history(GuestId("unseen")) is None


def test_what_a_node_tells_takes_the_place_of_what_it_told_before(inbox: Inbox) -> None:
    accept(inbox, request(A, 1), [history("vm", 5)])
    place(inbox, A, "vm")

    accept(inbox, request(A, 2), [history("vm", 4)])  # its clock was put right

    assert inbox.history(GuestId("vm")) == history("vm", 4)


def test_tells_only_histories_taken_since(inbox: Inbox) -> None:
    accept(inbox, request(), [history("old", 4), history("new", 5)])
    place(inbox, A, "old", "new")

    assert inbox.histories(NOON + timedelta(minutes=5)) == (history("new", 5),)


def test_keeps_the_newest_of_each_node_and_forgets_what_came_before(
    inbox: Inbox,
) -> None:
    accept(inbox, request(B, 1), [])
    for sequence in range(1, 7):
        accept(inbox, request(A, sequence), [], keep=3)

    left = [one for one in range(1, 7) if inbox.request(f"a {one}")]
    assert left == [4, 5, 6]
    assert inbox.request("b 1") is not None


def test_does_not_forget_of_what_something_may_still_come(inbox: Inbox) -> None:
    accept(inbox, request(A, 1), [])
    running = replace(request(A, 1), state=RequestState.EXECUTING)
    inbox.note([running])
    accept(inbox, request(A, 2), [], keep=1)

    assert inbox.unclosed() == (running, request(A, 2))


def test_of_guests_that_were_not_seen_only_what_was_told_last_is_kept(
    inbox: Inbox, path: Path
) -> None:
    accept(inbox, request(A, 1), [history("here"), history("invented")])
    accept(inbox, request(B, 1), [history("of b", 0, B)])
    place(inbox, A, "here")

    accept(inbox, request(A, 2), [history("invented too")])

    with sqlite3.connect(path) as connection:
        kept = connection.execute("SELECT guest FROM histories ORDER BY guest")
        assert [row[0] for row in kept] == ["here", "invented too", "of b"]
    connection.close()


def test_forgets_histories_of_who_was_not_seen_for_long(inbox: Inbox) -> None:
    accept(inbox, request(), [history("gone", 4), history("here", 5)])
    place(inbox, A, "gone", "here")

    inbox.prune(NOON + timedelta(minutes=5))

    assert inbox.history(GuestId("gone")) is None
    assert inbox.history(GuestId("here")) is not None


@pytest.mark.parametrize(
    "damage",
    [
        "requests SET leaving = 'x'",
        "requests SET leaving = '[1]'",
        "requests SET own = '[\"1\"]'",
        "requests SET own = '{}'",
        "requests SET state = 'asleep'",
        "requests SET taken_at = 'never'",
        "requests SET steps = '[[1]]'",
        'requests SET steps = \'[["1", "{}"]]\'',
        "histories SET samples = 'x'",
        "histories SET taken_at = 'never'",
    ],
)
def test_says_so_when_what_is_kept_makes_no_sense(
    inbox: Inbox, path: Path, damage: str
) -> None:
    accept(inbox, request(), [history("vm")])
    place(inbox, A, "vm")
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE {damage}")
    connection.commit()
    connection.close()

    with pytest.raises(StoreError, match="should not"):
        (inbox.newest(), inbox.histories(NOON))
