"""Observers of the controller of `opendrs run`, as the configuration requires them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from opendrs.cli.platforms import ClusterSource
from opendrs.cli.serve_process import ServeProcess
from opendrs.config.monitoring_settings import MetricsSettings
from opendrs.config.settings import Settings
from opendrs.controller import CancellationToken
from opendrs.controller.event_log import LoggingObserver
from opendrs.controller.event_recorder import EventRecorder
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.observers import ControllerObserver, ControllerObservers
from opendrs.controller.progress_record import ProgressRecorder
from opendrs.controller.status_recorder import StatusRecorder
from opendrs.monitoring.service_manager import (
    NotifySocket,
    ServiceManagerNotifier,
    check_watchdog,
)
from opendrs.ports import Clock, EventLog, PlanState, Store
from opendrs.store import DatabaseEventLog, DatabasePlanStore, DatabaseStore


@contextmanager
def monitor_controller(
    settings: Settings,
    source: ClusterSource,
    cancellation: CancellationToken,
    *,
    serving: bool,
    serve_words: Sequence[str] = (),
) -> Iterator[ControllerObservers]:
    """Yield the observers, which run until the end of the `with` block.

    Args:
        settings: The configuration.
        source: The platform.
        cancellation: Stop requests of the operator.
        serving: Serve metrics, if they are configured.
        serve_words: Arguments of the process that serves the dashboard; empty for
            none.

    Raises:
        ConfigurationError: The address for metrics cannot be used, a notification
            cannot be configured, or the interval does not fit the watchdog of systemd.
    """
    clock = source.clock
    check_watchdog(os.environ, settings.controller.interval)
    target = NotifySocket(os.environ)
    observers: list[ControllerObserver] = [
        LoggingObserver(cancellation),
        StatusRecorder(clock),
        ServiceManagerNotifier(target, cancellation, clock),
    ]
    with ExitStack() as stack:
        recorder = EventRecorder(clock, _event_log)
        observers += [stack.enter_context(recorder), ProgressRecorder(clock)]
        if settings.notifications:
            from opendrs.monitoring.notifications import create_notifiers  # noqa: PLC0415 - as below

            for notifier in create_notifiers(
                settings.notifications, source.platform.name
            ):
                stack.enter_context(notifier)
        if settings.metrics is not None and serving:
            observers += _serve_metrics(settings.metrics, clock, stack)
        if serve_words:
            observers.append(stack.enter_context(ServeProcess(serve_words, clock)))
        group = ControllerObservers(observers)
        stack.callback(group.stopping)
        yield group


def _event_log(store: Store) -> EventLog | None:
    return DatabaseEventLog(store) if isinstance(store, DatabaseStore) else None


def _plan_counts(store: Store) -> dict[PlanState, int]:
    return DatabasePlanStore(store).counts() if isinstance(store, DatabaseStore) else {}


def _serve_metrics(
    settings: MetricsSettings, clock: Clock, stack: ExitStack
) -> list[ControllerObserver]:
    """Start the server for metrics, and return the observers that supply it."""
    # The import is slow, and needed only with this table.
    from opendrs.monitoring.health import HealthMonitor  # noqa: PLC0415
    from opendrs.monitoring.http_server import MonitoringServer  # noqa: PLC0415
    from opendrs.monitoring.metrics import ControllerMetrics  # noqa: PLC0415

    health = HealthMonitor(clock, settings.ready_intervals)
    metrics = ControllerMetrics(clock, lambda: health.holds_lease, _plan_counts)
    server = MonitoringServer(settings, metrics.registry, health, clock)
    stack.enter_context(server)
    log_event(
        LogEventCode.METRICS_LISTENING,
        f"metrics: listening on http://{server.address}",
        address=server.address,
    )
    return [health, metrics]
