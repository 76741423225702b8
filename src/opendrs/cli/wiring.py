"""Build a controller from settings, and connect its cancellation to signals."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from opendrs.api.tls import check_credentials
from opendrs.cli.platform_store import open_store
from opendrs.cli.sources import ClusterSource, name_mismatches, observe
from opendrs.config.settings import ApiSettings, Settings
from opendrs.controller import CancellationToken, ExecutionContext
from opendrs.controller.agent_requests import RequestBatch
from opendrs.controller.clock import POLL_INTERVAL
from opendrs.controller.cycle import DecisionSource, PolicyDecisionSource
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.loop import Controller, LoopSettings, WakeupEvent
from opendrs.controller.observers import ControllerObservers
from opendrs.errors import LeaseLostError
from opendrs.model import Snapshot
from opendrs.policies import Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.ports import RequestStore
from opendrs.store import DatabaseRequestStore, PostgresqlStore, SqliteStore


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

    def create(self, *, serving: bool, repair_command: str) -> Controller:
        """Return the controller.

        Args:
            serving: Start the API server. Recorded requests are decided on anyway.
            repair_command: Command that repairs violated rules, for the log.

        Raises:
            ConfigurationError: The configured address cannot be listened on.
        """
        self._log_start()
        requests = self._settings.api
        decision_source: DecisionSource
        require_alive: Callable[[], None] = _check_nothing
        if requests is None:
            decision_source = PolicyDecisionSource(
                configured_policy(self._settings), self._store
            )
        else:
            request_store = DatabaseRequestStore(self._store)
            decision_source = self._request_batch(requests, request_store)
            if serving:
                require_alive = self._start_api(requests, request_store)
        loop_settings = LoopSettings(
            interval=self._settings.controller.interval,
            batch_window=0.0 if requests is None else requests.batch_window,
            observe=ClusterObserver(self._source).observe,
            require_alive=require_alive,
            repair_command=repair_command,
            observer=self._observers,
        )
        self._observers.configured(self._settings.policy, loop_settings.interval)
        return Controller(
            loop_settings,
            self._execution_context(decision_source),
            decision_source,
            self._wakeup_event,
        )

    def _execution_context(self, decision_source: DecisionSource) -> ExecutionContext:
        return ExecutionContext(
            platform=self._source.platform,
            clock=self._source.clock,
            store=self._store,
            limits=decision_source.policy.limits,
            observer=self._observers,
            cancellation=self._cancellation,
        )

    def _request_batch(
        self, requests: ApiSettings, request_store: RequestStore
    ) -> RequestBatch:
        policy = configured_policy(self._settings)
        assert isinstance(policy, Consolidate)  # noqa: S101 - validated when read
        interval = self._settings.controller.interval
        staleness_limits = requests.staleness_limits(interval)
        return RequestBatch(
            policy, request_store, self._store, self._source.clock, staleness_limits
        )

    def _start_api(
        self, requests: ApiSettings, request_store: RequestStore
    ) -> Callable[[], None]:
        """Start the API server; return a function that checks that it still runs."""
        from opendrs.api.server import ApiServer  # noqa: PLC0415
        from opendrs.api.service import RequestService  # noqa: PLC0415

        staleness_limits = requests.staleness_limits(self._settings.controller.interval)
        clock, notify = self._source.clock, self._wakeup_event.set
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

    def _log_start(self) -> None:
        name, interval = self._source.platform.name, self._settings.controller.interval
        log_event(
            LogEventCode.CONTROLLER_STARTED,
            f"{name}: controller started: policy {self._settings.policy}, one cycle "
            f"every {interval:g} s",
            platform=name,
            interval=interval,
            policy=self._settings.policy,
        )


class ClusterObserver:
    """Observer that checks that rules and networks match the cluster.

    A mismatch in the first observation is an error. Later it is logged once, because
    a guest that is deleted must not stop the controller.

    Args:
        source: The platform.
    """

    def __init__(self, source: ClusterSource) -> None:
        self._source = source
        self._is_first = True
        self._reported: tuple[str, ...] = ()

    def observe(self) -> Snapshot:
        """Return a new snapshot.

        Raises:
            ConfigurationError: In the first observation, a rule names a guest or a
                node that does not exist.
            PlatformError: The cluster cannot be observed.
        """
        if self._is_first:
            snapshot = observe(self._source)
            self._is_first = False
            return snapshot
        snapshot = self._source.platform.observe()
        rules, networks = self._source.rules, self._source.networks
        mismatches = tuple(map(str, name_mismatches(rules, networks, snapshot)))
        for mismatch in mismatches:
            if mismatch not in self._reported:
                log_event(LogEventCode.RULE_MISMATCH, mismatch, level=logging.WARNING)
        self._reported = mismatches
        return snapshot


def configured_policy(settings: Settings) -> Policy[Any]:
    """Return the configured policy; `consolidate` also receives the cycle interval."""
    consolidates = settings.policy == Consolidate.name
    changes = {"interval": settings.controller.interval} if consolidates else {}
    return settings.load_policy(changes=changes)


def _check_nothing() -> None:
    """Check nothing: without an API server, nothing can fail."""


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def cancel_on_signals(cancellation: CancellationToken) -> Iterator[None]:
    """Cancel *cancellation* on Ctrl-C and SIGTERM in a `with` block."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        cancellation.cancel()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
