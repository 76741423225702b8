"""Reload of the configuration of a running controller on SIGHUP."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import FrameType

from opendrs.cli.platforms import PLATFORMS
from opendrs.config import display_path
from opendrs.config.settings import Settings
from opendrs.config.settings_reading import read_settings
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.loop import Reconfiguration
from opendrs.errors import ConfigurationError, OpenDRSError

_TABLES = {
    "platforms": "platform",
    "policy": "policy.name",
    "policy_settings": "policy",
}
_UNUSED = frozenset({"agent"})  # tables that the controller does not use
_NEED_RESTART = ("store", "api", "metrics", "notifications", "platforms", "web")


class ConfigurationReloader:
    """Reads the configuration again when SIGHUP requests it.

    The new configuration is used as a whole or not at all. Parts that other processes,
    open ports or recorded tasks depend on cannot be replaced while the controller runs:
    a change of one of them rejects the configuration, and the log names it.

    Args:
        config: The file.
        settings: The configuration in use.
        build: Function that returns the parts of the controller for a configuration;
            may raise `OpenDRSError`, and has no effect then.
    """

    def __init__(
        self,
        config: Path,
        settings: Settings,
        build: Callable[[Settings], Reconfiguration],
    ) -> None:
        self._config = config
        self._settings = settings
        self._build = build
        self._is_requested = False

    def request(self) -> None:
        """Request a reload; safe to call from a signal handler."""
        self._is_requested = True

    @contextmanager
    def on_signal(self) -> Iterator[None]:
        """Reload on SIGHUP in a `with` block."""

        def on_signal(number: int, frame: FrameType | None) -> None:
            del number, frame
            self.request()

        before = signal.signal(signal.SIGHUP, on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, before)

    def reconfigure(self) -> Reconfiguration | None:
        """Return new parts if a reload is requested and possible; otherwise None."""
        if not self._is_requested:
            return None
        self._is_requested = False
        try:
            settings = read_settings(self._config, PLATFORMS)
            changed = changed_tables(self._settings, settings)
            _require_reloadable(self._settings, settings)
            new = self._build(settings)
        except ConfigurationError as error:
            self._log_rejected(error.messages)
            return None
        except OpenDRSError as error:
            self._log_rejected((str(error),))
            return None
        self._settings = settings
        log_event(
            LogEventCode.CONFIGURATION_LOADED,
            f"{display_path(self._config)}: configuration loaded: changed: "
            f"{', '.join(changed) or 'nothing'}",
            changed=list(changed),
        )
        return new

    def _log_rejected(self, messages: tuple[str, ...]) -> None:
        problems = [line for message in messages for line in message.split("\n")]
        log_event(
            LogEventCode.CONFIGURATION_REJECTED,
            f"{display_path(self._config)}: configuration rejected, nothing changed: "
            f"{'; '.join(problems)}",
            level=logging.ERROR,
            problems=problems,
        )


def changed_tables(before: Settings, after: Settings) -> tuple[str, ...]:
    """Return the names of the tables in which two configurations differ."""
    return tuple(
        _TABLES.get(field.name, field.name)
        for field in fields(Settings)
        if field.name not in _UNUSED
        and getattr(before, field.name) != getattr(after, field.name)
    )


def _require_reloadable(before: Settings, after: Settings) -> None:
    """Check that only tables differ that can be replaced.

    Raises:
        ConfigurationError: Others differ; with all of them.
    """
    fixed = [
        _TABLES.get(name, name)
        for name in _NEED_RESTART
        if getattr(before, name) != getattr(after, name)
    ]
    problems = [f"{name}: changed; restart the controller to use it" for name in fixed]
    if after.api is not None and before.agent_interval != after.agent_interval:
        problems.append(
            "interval: changed while agents are served; restart the controller to "
            "use it"
        )
    if problems:
        raise ConfigurationError(*problems)
