import pytest

from opendrs.model import NodeId
from opendrs.pve_ha.simulator.cluster import WatchdogExpiredError, Watchdogs

ONE, TWO = NodeId("node1"), NodeId("node2")


def test_watchdog_expires_a_minute_after_it_was_fed() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(ONE, "lrm", 100)

    assert watchdogs.pop_expired(160) == []
    assert watchdogs.pop_expired(161) == [ONE]


def test_watchdog_expires_once() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(ONE, "lrm", 100)
    watchdogs.pop_expired(200)

    assert watchdogs.pop_expired(300) == []


def test_fed_watchdog_does_not_expire_while_another_does() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(TWO, "lrm", 100)
    watchdogs.feed(ONE, "crm", 110)
    watchdogs.feed(TWO, "lrm", 160)

    assert watchdogs.pop_expired(190) == [ONE]


def test_closed_and_dropped_watchdogs_do_not_expire() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(ONE, "lrm", 100)
    watchdogs.feed(TWO, "lrm", 100)
    watchdogs.close(ONE, "lrm", 110)
    watchdogs.drop(TWO)

    assert watchdogs.pop_expired(1000) == []


def test_expired_watchdog_cannot_be_fed_or_closed() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(ONE, "lrm", 100)

    with pytest.raises(WatchdogExpiredError, match="node1"):
        watchdogs.feed(ONE, "lrm", 161)
    with pytest.raises(WatchdogExpiredError, match="node1"):
        watchdogs.close(ONE, "lrm", 161)
