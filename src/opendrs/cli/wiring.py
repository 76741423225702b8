"""Build a controller from settings, and connect its cancellation to signals."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from opendrs.api.tls import check_credentials
from opendrs.cli.configuration import command_target
from opendrs.cli.controller_policies import (
    configured_policy,
    configured_schedule,
    describe_cycles,
    source_of_decisions,
)
from opendrs.cli.platform_store import open_store
from opendrs.cli.platforms import ClusterSource, connect_platform
from opendrs.cli.sources import name_mismatches, observe
from opendrs.config import raise_diagnostics
from opendrs.config.settings import ApiSettings, Settings
from opendrs.controller import CancellationToken, ExecutionContext
from opendrs.controller.api_breaker import ApiBreaker, MonitoredPlatform
from opendrs.controller.approvals import PlanApprovals
from opendrs.controller.clock import POLL_INTERVAL
from opendrs.controller.cycle import DecisionSource
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.loop import (
    Controller,
    LoopSettings,
    Reconfiguration,
    WakeupEvent,
)
from opendrs.controller.maintenance import MaintenanceDecisionSource, MaintenanceWatch
from opendrs.controller.modes import MODE_TEXTS, OPERATOR_ENTRIES, overall_mode
from opendrs.controller.observers import ControllerObservers
from opendrs.controller.policy_schedule import PolicySchedule
from opendrs.controller.repair_advice import RepairCommand
from opendrs.errors import LeaseLostError
from opendrs.model import Snapshot
from opendrs.monitoring.service_manager import check_watchdog
from opendrs.store import (
    DatabasePlanStore,
    DatabaseRequestStore,
    PostgresqlStore,
    SqliteStore,
)


class ControllerFactory:
    """Factory of a controller.

    Args:
        settings: The configuration.
        source: The platform that is controlled.
        cancellation: The token that stops the controller.
        stack: Closes the store and the API server at the end.
        observers: Observers of the controller.

    Raises:
        ConfigurationError: The credentials of the API cannot be used; no store is
            created then.
    """

    def __init__(
        self,
        settings: Settings,
        source: ClusterSource,
        cancellation: CancellationToken,
        stack: ExitStack,
        observers: ControllerObservers,
    ) -> None:
        self._settings = settings
        self._source = source
        self._cancellation = cancellation
        self._stack = stack
        self._observers = observers
        self._wakeup_event = WakeupEvent()
        self._cluster_observer = ClusterObserver(source)
        self._store: SqliteStore | PostgresqlStore
        if settings.api is not None:
            # Before the store is created. The server reads the files again.
            check_credentials(settings.api)

    def acquire_store(self) -> bool:
        """Open the store; wait while another controller uses the same database.

        Returns:
            False if the operator stopped the controller first.

        Raises:
            StoreError: The store cannot be opened, or another process uses the file.
        """
        waits = False
        while not self._cancellation.stop_requested:
            try:
                opened = open_store(self._source, self._settings)
                self._store = self._stack.enter_context(opened)
                self._monitor_requests()
            except LeaseLostError as error:
                if self._settings.store is None or self._settings.store.url is None:
                    raise
                if not waits:
                    log_event(LogEventCode.CONTROLLER_STANDBY, f"standby: {error}")
                    self._observers.standby_started(str(error))
                waits = True
                self._observers.loop_polled()
                self._source.clock.sleep(POLL_INTERVAL)
            else:
                self._observers.lease_acquired(self._store)
                return True
        return False

    def _monitor_requests(self) -> None:
        """Count the failed requests to the platform from now on."""
        self._api_breaker = ApiBreaker(
            self._store, self._source.clock, self._settings.protection
        )
        platform = MonitoredPlatform(self._source.platform, self._api_breaker)
        self._source = replace(self._source, platform=platform)
        self._cluster_observer.source = self._source

    def create(
        self,
        *,
        config: Path,
        serving: bool,
        repair_command: RepairCommand | None,
        reconfigure: Callable[[], Reconfiguration | None],
    ) -> Controller:
        """Return the controller.

        Args:
            config: The configuration file, for the commands that messages suggest.
            serving: Start the API server. Recorded requests are decided on anyway.
            repair_command: Command that repairs violated rules, for the log; None if
                there is none.
            reconfigure: Function that returns new parts if the configuration has
                changed; otherwise None.

        Raises:
            ConfigurationError: The configured address cannot be listened on.
        """
        target = command_target(self._source.platform.name, config)
        self._log_start(target)
        self._approvals = self._create_approvals(target)
        requests = self._settings.api
        schedule = configured_schedule(self._settings, self._store, self._source.clock)
        decision_source = self._decision_source(self._settings, schedule)
        require_alive: Callable[[], None] = _check_nothing
        if requests is not None and serving:
            require_alive = self._start_api(requests)
        watch = MaintenanceWatch(self._store, self._wakeup_event.set)
        loop_settings = LoopSettings(
            interval=self._settings.controller.interval,
            batch_window=0.0 if requests is None else requests.batch_window,
            observe=self._cluster_observer.observe,
            require_alive=_both(require_alive, watch.check),
            repair_command=repair_command,
            observer=self._observers,
            reconfigure=reconfigure,
            schedule=schedule,
        )
        self._observers.configured(self._settings.policy_names, loop_settings.interval)
        return Controller(
            loop_settings,
            self._execution_context(decision_source),
            decision_source,
            self._wakeup_event,
            self._approvals,
        )

    def _create_approvals(self, target: str) -> PlanApprovals:
        return PlanApprovals(
            DatabasePlanStore(self._store),
            self._store,
            self._source.clock,
            self._settings.controller,
            self._cancellation,
            target=target,
            schedule=self._settings.schedule,
        )

    def _execution_context(self, decision_source: DecisionSource) -> ExecutionContext:
        return ExecutionContext(
            platform=self._source.platform,
            clock=self._source.clock,
            store=self._store,
            limits=decision_source.policy.limits,
            protection=self._settings.protection,
            observer=self._observers,
            cancellation=self._cancellation,
        )

    def _decision_source(
        self, settings: Settings, schedule: PolicySchedule | None
    ) -> DecisionSource:
        source = schedule or source_of_decisions(
            configured_policy(settings), settings, self._store, self._source.clock
        )
        return MaintenanceDecisionSource(
            source, source.policy, self._store, self._wakeup_event.set
        )

    def reconfigure(self, settings: Settings) -> Reconfiguration:
        """Return the parts of the controller for *settings*, read during its run.

        Raises:
            ConfigurationError: They do not fit the cluster, or the watchdog.
            PlatformError: The platform cannot be reached with new rules.
        """
        check_watchdog(os.environ, settings.controller.interval)
        source = self._source
        if source.is_persistent:
            source = replace(
                source, rules=settings.rules, networks=settings.limits.networks
            )
        self._cluster_observer.check_names(source)
        if source.rules != self._source.rules:
            connection = settings.connection(source.platform.name)
            platform = connect_platform(connection, settings.rules)
            monitored = MonitoredPlatform(platform, self._api_breaker)
            source = replace(source, platform=monitored)
        schedule = configured_schedule(settings, self._store, source.clock)
        decision_source = self._decision_source(settings, schedule)
        self._settings, self._source = settings, source
        self._api_breaker.protection = settings.protection
        self._approvals = self._approvals.with_settings(
            settings.controller, settings.schedule
        )
        self._cluster_observer.source = source
        return Reconfiguration(
            interval=settings.controller.interval,
            platform=source.platform,
            protection=settings.protection,
            policies=settings.policy_names,
            decision_source=decision_source,
            approval=self._approvals,
            schedule=schedule,
        )

    def _start_api(self, requests: ApiSettings) -> Callable[[], None]:
        """Start the API server; return a function that checks that it still runs."""
        from opendrs.api.server import ApiServer  # noqa: PLC0415
        from opendrs.api.service import RequestService  # noqa: PLC0415

        staleness_limits = requests.staleness_limits(self._settings.agent_interval)
        clock, notify = self._source.clock, self._wakeup_event.set
        request_store = DatabaseRequestStore(self._store)
        service = RequestService(
            request_store, self._store, clock, staleness_limits, notify
        )
        server = self._stack.enter_context(ApiServer(requests, service))
        host, port = server.address
        display_host = f"[{host}]" if ":" in host else host
        log_event(
            LogEventCode.API_LISTENING,
            f"api: listening on https://{display_host}:{port}",
            address=host,
            port=port,
        )
        return server.require_alive

    def _log_start(self, target: str) -> None:
        name, settings = self._source.platform.name, self._settings.controller
        entries = self._store.load_all(OPERATOR_ENTRIES)
        mode = overall_mode(self._settings, entries, self._source.clock.now())
        change = (
            "to change it, set mode in [controller] of the configuration file and "
            'restart (without a database, the command "opendrs mode" cannot change it)'
            if not self._source.is_persistent
            else f"change it with: opendrs mode {target} MODE"
        )
        log_event(
            LogEventCode.CONTROLLER_STARTED,
            f"{name}: controller started: {describe_cycles(self._settings)}; "
            f"mode {mode.mode} ({mode.detail}): {MODE_TEXTS[mode.mode]}; "
            f"{change}",
            platform=name,
            interval=settings.interval,
            policy=self._settings.policy_names,
            schedule=[entry.name for entry in self._settings.schedule],
            mode=mode.mode,
        )


class ClusterObserver:
    """Observer that checks that rules and networks match the cluster.

    A mismatch in the first observation is an error. Later it is logged once, because
    a guest that is deleted must not stop the controller.

    Args:
        source: The platform.

    Attributes:
        source: The platform, which can be replaced between two observations.
    """

    def __init__(self, source: ClusterSource) -> None:
        self.source = source
        self._last: Snapshot | None = None
        self._reported: tuple[str, ...] = ()

    def observe(self) -> Snapshot:
        """Return a new snapshot.

        Raises:
            ConfigurationError: In the first observation, a rule names a guest or a
                node that does not exist.
            PlatformError: The cluster cannot be observed.
        """
        if self._last is None:
            self._last = observe(self.source)
            return self._last
        self._last = snapshot = self.source.platform.observe()
        rules, networks = self.source.rules, self.source.networks
        mismatches = tuple(map(str, name_mismatches(rules, networks, snapshot)))
        for mismatch in mismatches:
            if mismatch not in self._reported:
                log_event(LogEventCode.RULE_MISMATCH, mismatch, level=logging.WARNING)
        self._reported = mismatches
        return snapshot

    def check_names(self, source: ClusterSource) -> None:
        """Check that rules and networks of *source* match the last observation.

        Raises:
            ConfigurationError: A rule or network names a guest or node that does not
                exist; with all of them.
        """
        if self._last is not None:
            mismatches = name_mismatches(source.rules, source.networks, self._last)
            raise_diagnostics("the configuration", mismatches)


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls *first* and *second*."""

    def check() -> None:
        first()
        second()

    return check


def _check_nothing() -> None:
    """Check nothing: without an API server, nothing can fail."""


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def cancel_on_signals(
    cancellation: CancellationToken, *, aborts: bool = False
) -> Iterator[None]:
    """Cancel *cancellation* on Ctrl-C and SIGTERM in a `with` block.

    So does SIGHUP, the end of the terminal, unless it is ignored as with nohup. With
    *aborts*, the first signal aborts running steps, too.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        cancellation.cancel()
        if aborts:
            cancellation.cancel()

    before = {
        number: signal.signal(number, on_signal)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
