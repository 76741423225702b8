"""Ctrl-C while steps run pulls the brake, and afterwards ends the process."""

import signal

import pytest

from opendrs.cli.wiring import cancel_on_signals
from opendrs.controller import CancellationToken


def test_signals_cancel_only_inside_the_context() -> None:
    before = signal.getsignal(signal.SIGINT)
    cancellation = CancellationToken()
    with cancel_on_signals(cancellation):
        signal.raise_signal(signal.SIGINT)
        once = (cancellation.stop_requested, cancellation.abort_requested)
        signal.raise_signal(signal.SIGTERM)

    assert once == (True, False)
    assert cancellation.abort_requested
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("before", "requests"), [(signal.SIG_DFL, 1), (signal.SIG_IGN, 0)]
)
def test_end_of_terminal_cancels_unless_it_is_ignored(
    before: signal.Handlers, requests: int
) -> None:
    previous = signal.signal(signal.SIGHUP, before)
    cancellation = CancellationToken()
    try:
        with cancel_on_signals(cancellation):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, previous)

    assert cancellation.stop_requested == requests
