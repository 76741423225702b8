import pytest

from opendrs.model import NodeId
from opendrs.sim.drill.watchdogs import WatchdogBittenError, Watchdogs

ONE, TWO = NodeId("node1"), NodeId("node2")


def test_a_watchdog_bites_a_minute_after_it_was_fed() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(ONE, "lrm", 100)

    assert watchdogs.bitten(160) == []
    assert watchdogs.bitten(161) == [ONE]


def test_a_watchdog_bites_once() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(ONE, "lrm", 100)
    watchdogs.bitten(200)

    assert watchdogs.bitten(300) == []


def test_a_fed_watchdog_does_not_bite_while_another_does() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(TWO, "lrm", 100)
    watchdogs.feed(ONE, "crm", 110)
    watchdogs.feed(TWO, "lrm", 160)

    assert watchdogs.bitten(190) == [ONE]


def test_a_closed_watchdog_and_one_without_power_do_not_bite() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(ONE, "lrm", 100)
    watchdogs.feed(TWO, "lrm", 100)
    watchdogs.close(ONE, "lrm", 110)
    watchdogs.drop(TWO)

    assert watchdogs.bitten(1000) == []


def test_a_watchdog_cannot_be_fed_or_closed_once_it_would_have_bitten() -> None:
    watchdogs = Watchdogs()
    watchdogs.feed(ONE, "lrm", 100)

    with pytest.raises(WatchdogBittenError, match="node1"):
        watchdogs.feed(ONE, "lrm", 161)
    with pytest.raises(WatchdogBittenError, match="node1"):
        watchdogs.close(ONE, "lrm", 161)
