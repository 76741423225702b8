"""Notifications to systemd: ready, alive, stopping, and a line of status.

The protocol is one datagram of lines `NAME=VALUE` to the socket in `NOTIFY_SOCKET`.
The libraries for it on PyPI have had no release for years or need libsystemd.

Source:
    systemd 252, sd_notify(3), sd_watchdog_enabled(3).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from opendrs.controller import CancellationToken
from opendrs.controller.cycle import CycleResult
from opendrs.controller.observers import NullControllerObserver
from opendrs.errors import ConfigurationError, DiagnosticCode, PlatformError
from opendrs.escapes import escape_line
from opendrs.model import format_count
from opendrs.policies import reason_text
from opendrs.ports import Clock

MAX_STATUS_LENGTH = 300  # characters
STEP_INTERVAL = 5.0  # seconds between two notifications while steps run
READY, WATCHDOG, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"


class NotifySocket:
    """Socket of the service manager; without one, nothing is sent.

    A message is never waited for: it is dropped if the queue of the socket is full.

    Args:
        environment: Environment variables of the process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        if address.startswith("@"):
            address = f"\0{address[1:]}"  # an abstract socket
        self._address = address if address.startswith(("/", "\0")) else ""

    def send(self, *lines: str) -> None:
        """Send *lines* in one message."""
        if not self._address:
            return
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sender:
            sender.sendto("\n".join(lines).encode(), self._address)


def watchdog_time(environment: Mapping[str, str]) -> float | None:
    """Return `WatchdogSec` of the unit in seconds; None without a watchdog."""
    pid, microseconds = (
        environment.get(name, "") for name in ("WATCHDOG_PID", "WATCHDOG_USEC")
    )
    if not microseconds.isdecimal() or pid not in ("", str(os.getpid())):
        return None
    return int(microseconds) / 1e6 or None


def check_watchdog(environment: Mapping[str, str], interval: float) -> None:
    """Check that two cycles fit into the time of the watchdog.

    Raises:
        ConfigurationError: systemd would restart the controller between two cycles.
    """
    limit = watchdog_time(environment)
    if limit is not None and limit < 2 * interval:
        raise ConfigurationError(
            f"controller.interval: expected at most half of WatchdogSec of the unit "
            f"({limit:g} s), got {interval:g} s",
            code=DiagnosticCode.INCONSISTENT,
        )


class ServiceManagerNotifier(NullControllerObserver):
    """Controller observer that notifies systemd.

    The watchdog is notified by the thread of the loop alone: when a cycle has ended,
    when the steps of a plan were polled, and by a standby that polls the lease. A loop
    that waits for a response forever is restarted.

    Args:
        target: Socket of the service manager.
        cancellation: Stop requests of the operator.
        clock: The time.
    """

    def __init__(
        self, target: NotifySocket, cancellation: CancellationToken, clock: Clock
    ) -> None:
        self._target = target
        self._cancellation = cancellation
        self._clock = clock
        self._step_notified_at = -STEP_INTERVAL
        self._is_standby = False
        self._is_stopping = False
        self._policy = ""

    def standby_started(self, detail: str) -> None:
        """Report readiness: to wait for the lease is normal operation."""
        self._is_standby = True
        self._target.send(READY, WATCHDOG, _status(f"standby: {detail}"))

    def configured(self, policy: str, interval: float) -> None:
        """Report readiness, also after the configuration was read again."""
        self._is_standby, self._policy = False, policy
        text = f"active: policy {policy}, one cycle every {interval:g} s"
        self._target.send(READY, WATCHDOG, _status(text))

    def loop_polled(self) -> None:
        """Notify the watchdog if this controller is on standby."""
        self._report_stop()
        if self._is_standby:
            self._target.send(WATCHDOG)

    def cycle_finished(self, result: CycleResult, seconds: float) -> None:
        """Notify the watchdog, and show the decision."""
        del seconds
        if result.decided is None:
            return
        decision = result.decided.decision
        count = len(decision.plan.steps)
        outline = format_count(count, "step") if count else "no steps"
        text = f"active: {self._policy}: {outline}: {reason_text(decision.reason)}"
        self._target.send(WATCHDOG, _status(text))

    def cycle_failed(self, error: PlatformError, seconds: float) -> None:
        """Notify the watchdog: the cycle is repeated, as after a restart."""
        del seconds
        self._target.send(WATCHDOG, _status(f"cluster unreachable: {error}"))

    def steps_polled(self) -> None:
        """Notify the watchdog, at most once in `STEP_INTERVAL`."""
        self._report_stop()
        now = self._clock.monotonic()
        if now - self._step_notified_at >= STEP_INTERVAL:
            self._step_notified_at = now
            self._target.send(WATCHDOG)

    def stopping(self) -> None:
        """Report that the controller ends."""
        if not self._is_stopping:
            self._is_stopping = True
            self._target.send(STOPPING, _status("stopping"))

    def _report_stop(self) -> None:
        if self._cancellation.stop_requested:
            self.stopping()


def _status(text: str) -> str:
    """Return the line with the status; *text* cannot add other lines."""
    return f"STATUS={escape_line(text)[:MAX_STATUS_LENGTH]}"
