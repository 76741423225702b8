from opendrs.ha.commands import AcquireLock, ReleaseLock
from opendrs.ha.events import LockTaken
from opendrs.ha.locks import Lock
from opendrs.ha.observation import Observation
from opendrs.ha.turn import Turn
from opendrs.model import NodeId

HERE, THERE = NodeId("node1"), NodeId("node2")


def turn(lock: Lock | None = None, *, now: int = 1000, quorate: bool = True) -> Turn:
    locks = {} if lock is None else {"lock": lock}
    return Turn(
        Observation(
            node=HERE, now=now, members={}, quorate=quorate, files=None, locks=locks
        )
    )


def test_a_free_lock_is_taken_and_told() -> None:
    now = turn()

    assert now.acquire("lock")
    assert now.effects == [AcquireLock("lock"), LockTaken("lock")]


def test_an_own_lock_is_renewed_silently() -> None:
    now = turn(Lock(HERE, 900))

    assert now.acquire("lock")
    assert now.effects == [AcquireLock("lock")]


def test_the_lock_of_another_is_taken_only_after_two_minutes() -> None:
    assert not turn(Lock(THERE, 880)).acquire("lock")
    assert turn(Lock(THERE, 879)).acquire("lock")


def test_without_a_majority_no_lock_is_taken_or_given_back() -> None:
    alone = turn(Lock(HERE, 990), quorate=False)

    assert not alone.acquire("lock")
    assert not alone.release("lock")
    assert alone.effects == []


def test_only_an_own_lock_is_given_back() -> None:
    own, others, expired = (
        turn(Lock(HERE, 990)),
        turn(Lock(THERE, 990)),
        turn(Lock(THERE, 1)),
    )

    assert own.release("lock")
    assert own.effects == [ReleaseLock("lock")]
    assert not others.release("lock")
    assert expired.release("lock")
    assert expired.effects == []


def test_a_lock_given_back_can_be_taken_within_the_same_turn() -> None:
    now = turn(Lock(HERE, 990))
    now.release("lock")

    assert now.acquire("lock")
    assert LockTaken("lock") in now.effects


def test_asking_in_vain_takes_time() -> None:
    now = turn(Lock(THERE, 990))

    assert not now.acquire_own("lock")
    assert now.delay > 1
