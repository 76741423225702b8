"""Network traffic of guests, from counters of Proxmox VE."""

from __future__ import annotations

import pytest

from opendrs.platforms.proxmox.responses import ResourceRow
from opendrs.platforms.proxmox.traffic import GuestTraffic

WINDOW = 60.0


def row(received: int | None, sent: int | None, node: str = "n1") -> ResourceRow:
    values = {"id": "qemu/100", "type": "qemu", "vmid": 100, "node": node}
    return ResourceRow.model_validate({**values, "netin": received, "netout": sent})


def test_rate_is_the_difference_of_the_counters_over_the_window() -> None:
    traffic = GuestTraffic()
    for now, total in ((0, 1000), (30, 4000), (60, 10_000), (90, 16_000)):
        traffic.add([row(total, total)], now, WINDOW)

    # From 30 s to 90 s: 2 * (16,000 - 4,000) bytes in 60 s.
    assert traffic.rates == {100: pytest.approx(400)}


def test_rate_of_one_reading_is_unknown() -> None:
    traffic = GuestTraffic()
    traffic.add([row(1000, 0)], 0.0, WINDOW)
    traffic.add([row(9000, 0)], 10.0, WINDOW)

    assert traffic.rates == {}


@pytest.mark.parametrize(
    "later", [row(10, 0), row(9000, 0, "n2"), row(None, 5), row(5, None)]
)
def test_counters_that_begin_again_give_no_rate(later: ResourceRow) -> None:
    traffic = GuestTraffic()
    traffic.add([row(1000, 0)], 0.0, WINDOW)

    traffic.add([later], 30.0, WINDOW)

    assert traffic.rates == {}


def test_guest_that_stopped_is_forgotten() -> None:
    traffic = GuestTraffic()
    traffic.add([row(1000, 0)], 0.0, WINDOW)
    traffic.add([], 30.0, WINDOW)
    traffic.add([row(2000, 0)], 60.0, WINDOW)

    assert traffic.rates == {}


def test_current_load_without_a_window_is_that_since_the_last_readings() -> None:
    traffic = GuestTraffic()
    for now, total in ((0, 0), (30, 3000), (60, 9000), (90, 18_000)):
        traffic.add([row(total, 0)], now, 0.0)

    assert traffic.rates == {100: pytest.approx(300)}
