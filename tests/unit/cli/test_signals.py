"""Ctrl-C while steps run pulls the brake, and afterwards ends the process."""

import signal

from opendrs.cli.signals import pulled_by_signals
from opendrs.controller import Brake


def test_signals_pull_the_brake_only_inside() -> None:
    before = signal.getsignal(signal.SIGINT)
    brake = Brake()
    with pulled_by_signals(brake):
        signal.raise_signal(signal.SIGINT)
        once = (brake.stopping, brake.aborting)
        signal.raise_signal(signal.SIGTERM)

    assert once == (True, False)
    assert brake.aborting
    assert signal.getsignal(signal.SIGINT) is before
