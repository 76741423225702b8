from opendrs.model import NodeId
from opendrs.pve_ha.effects import AcquireLock, ReleaseLock
from opendrs.pve_ha.log_events import LockAcquired
from opendrs.pve_ha.observation import ProcessObservation
from opendrs.pve_ha.process_step import ProcessStep
from opendrs.pve_ha.status_files import ClusterLock

HERE, THERE = NodeId("node1"), NodeId("node2")


def step(
    lock: ClusterLock | None = None, *, now: int = 1000, quorate: bool = True
) -> ProcessStep:
    locks = {} if lock is None else {"lock": lock}
    return ProcessStep(
        ProcessObservation(
            node=HERE, now=now, members={}, quorate=quorate, files=None, locks=locks
        )
    )


def test_free_lock_is_acquired_and_logged() -> None:
    now = step()

    assert now.acquire_lock("lock")
    assert now.outputs == [AcquireLock("lock"), LockAcquired("lock")]


def test_own_lock_is_renewed_without_log() -> None:
    now = step(ClusterLock(HERE, 900))

    assert now.acquire_lock("lock")
    assert now.outputs == [AcquireLock("lock")]


def test_other_lock_is_acquired_only_after_timeout() -> None:
    assert not step(ClusterLock(THERE, 880)).acquire_lock("lock")
    assert step(ClusterLock(THERE, 879)).acquire_lock("lock")


def test_no_lock_changes_without_quorum() -> None:
    alone = step(ClusterLock(HERE, 990), quorate=False)

    assert not alone.acquire_lock("lock")
    assert not alone.release_lock("lock")
    assert alone.outputs == []


def test_only_own_lock_is_released() -> None:
    own, others, expired = (
        step(ClusterLock(HERE, 990)),
        step(ClusterLock(THERE, 990)),
        step(ClusterLock(THERE, 1)),
    )

    assert own.release_lock("lock")
    assert own.outputs == [ReleaseLock("lock")]
    assert not others.release_lock("lock")
    assert expired.release_lock("lock")
    assert expired.outputs == []


def test_released_lock_can_be_acquired_in_same_step() -> None:
    now = step(ClusterLock(HERE, 990))
    now.release_lock("lock")

    assert now.acquire_lock("lock")
    assert LockAcquired("lock") in now.outputs


def test_failed_lock_attempts_take_time() -> None:
    now = step(ClusterLock(THERE, 990))

    assert not now.acquire_own_lock("lock")
    assert now.delay > 1
