"""Build a controller from settings, and connect its cancellation to signals."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from opendrs.api.tls import check_credentials
from opendrs.cli.sources import ClusterSource, name_mismatches, observe, open_store
from opendrs.config.settings import ApiSettings, Settings
from opendrs.controller import CancellationToken, ExecutionContext
from opendrs.controller.agent_requests import RequestBatch
from opendrs.controller.cycle import DecisionSource, PolicyDecisionSource
from opendrs.controller.event_log import LoggingObserver
from opendrs.controller.events import log_event
from opendrs.controller.loop import Controller, LoopSettings, WakeupEvent
from opendrs.model import Snapshot
from opendrs.policies import Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.ports import RequestStore
from opendrs.store import SqliteRequestStore


class ControllerFactory:
    """What a controller is put together from.

    Args:
        settings: What the operator has configured.
        source: The platform it looks after.
        cancellation: How the operator stops it.
        stack: What ends with it.

    Raises:
        ConfigurationError: Requests cannot be taken as the settings say; then
            there is no record either.
        StoreError: The record cannot be kept, or another process keeps it.
    """

    def __init__(
        self,
        settings: Settings,
        source: ClusterSource,
        cancellation: CancellationToken,
        stack: ExitStack,
    ) -> None:
        self._settings = settings
        self._source = source
        self._cancellation = cancellation
        self._stack = stack
        self._wakeup_event = WakeupEvent()
        if settings.api is not None:
            # Before anything is written; it is read again when it is used.
            check_credentials(settings.api)
        self._store = stack.enter_context(open_store(source, settings))

    def create(self, *, serving: bool) -> Controller:
        """Return the controller.

        Args:
            serving: Whether requests are taken; those that are written down are
                decided about anyway.

        Raises:
            ConfigurationError: The address of the settings cannot be listened on.
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
            request_store = SqliteRequestStore(self._store)
            decision_source = self._request_batch(requests, request_store)
            if serving:
                require_alive = self._start_api(requests, request_store)
        loop_settings = LoopSettings(
            interval=self._settings.controller.interval,
            batch_window=0.0 if requests is None else requests.batch_window,
            observe=ClusterObserver(self._source).observe,
            require_alive=require_alive,
        )
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
            observer=LoggingObserver(self._cancellation),
            cancellation=self._cancellation,
        )

    def _request_batch(
        self, requests: ApiSettings, request_store: RequestStore
    ) -> RequestBatch:
        policy = configured_policy(self._settings)
        assert isinstance(policy, Consolidate)  # noqa: S101 - or there was a complaint
        interval = self._settings.controller.interval
        staleness_limits = requests.staleness_limits(interval)
        return RequestBatch(
            policy, request_store, self._store, self._source.clock, staleness_limits
        )

    def _start_api(
        self, requests: ApiSettings, request_store: RequestStore
    ) -> Callable[[], None]:
        """Take requests from now on; return how to check that they still are."""
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
            "api-listening",
            f"requests are taken at https://{display_host}:{port}",
            address=host,
            port=port,
        )
        return server.require_alive

    def _log_start(self) -> None:
        name, interval = self._source.platform.name, self._settings.controller.interval
        log_event(
            "controller-started",
            f"{name}: a cycle each {interval:g} s, by the policy "
            f"{self._settings.policy}",
            platform=name,
            interval=interval,
            policy=self._settings.policy,
        )


class ClusterObserver:
    """Looks at the cluster. In the beginning the rules must fit it.

    A guest that a rule names may be deleted one day, and that is no reason to leave
    all others alone: later such a rule is told, once.

    Args:
        source: The platform.
    """

    def __init__(self, source: ClusterSource) -> None:
        self._source = source
        self._is_first = True
        self._reported: tuple[str, ...] = ()

    def observe(self) -> Snapshot:
        """Return the cluster as it is now.

        Raises:
            ConfigurationError: At the first look a rule does not fit it.
            PlatformError: It cannot be seen.
        """
        if self._is_first:
            snapshot = observe(self._source)
            self._is_first = False
            return snapshot
        snapshot = self._source.platform.observe()
        mismatches = tuple(
            map(
                str,
                name_mismatches(self._source.rules, self._source.networks, snapshot),
            )
        )
        for mismatch in mismatches:
            if mismatch not in self._reported:
                log_event("rule-mismatch", mismatch, level=logging.WARNING)
        self._reported = mismatches
        return snapshot


def configured_policy(settings: Settings) -> Policy[Any]:
    """Return the policy; one that counts in cycles is told how long they are."""
    consolidates = settings.policy == Consolidate.name
    changes = {"interval": settings.controller.interval} if consolidates else {}
    return settings.load_policy(changes=changes)


def _check_nothing() -> None:
    """Check nothing: there is nothing beside the cycles."""


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def cancel_on_signals(cancellation: CancellationToken) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM pull *cancellation* inside the `with` statement."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        cancellation.cancel()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
