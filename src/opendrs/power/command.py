"""Power driver that runs commands of the operator, such as wake-on-LAN and ssh."""

from __future__ import annotations

from collections.abc import Sequence

from opendrs.errors import PermissionDeniedError, PlatformError
from opendrs.model import NodeId
from opendrs.power.driver import PowerState
from opendrs.power.settings import (
    NODE_VARIABLE,
    PowerCommandSettings,
    substitute_variables,
)
from opendrs.transport.commands import CommandResult, run_command

_STATES = {0: PowerState.ON, 1: PowerState.OFF}


class CommandDriver:
    """Power driver of one node that runs commands."""

    def __init__(self, node: NodeId, settings: PowerCommandSettings) -> None:
        self._node = node
        self._settings = settings
        self._values = {**settings.variables, NODE_VARIABLE: node}

    @property
    def off_confirm_time(self) -> float | None:
        """Return the setting `off_confirm_time`; None with a state command."""
        return None if self._settings.state_command else self._settings.off_confirm_time

    @property
    def transition_timeout(self) -> float:
        """Return the setting `transition_timeout` in seconds."""
        return self._settings.transition_timeout

    @property
    def detached(self) -> bool:
        """Return the setting `detached`."""
        return self._settings.detached

    def on(self) -> None:
        """Run the setting `on_command`.

        Raises:
            PlatformError: The command could not be run, timed out, or failed.
        """
        self._require_success("on", self._settings.on_command)

    def off(self) -> None:
        """Run the setting `off_command`.

        Raises:
            PlatformError: The command could not be run, timed out, or failed.
        """
        self._require_success("off", self._settings.off_command)

    def state(self) -> PowerState:
        """Return the power state from the exit status of `state_command`.

        Returns:
            ON for 0, OFF for 1, otherwise UNKNOWN; UNKNOWN without the setting.

        Raises:
            PlatformError: The command could not be run, or timed out.
        """
        if self._settings.state_command is None:
            return PowerState.UNKNOWN
        result = self._run("state", self._settings.state_command)
        return _STATES.get(result.status, PowerState.UNKNOWN)

    def _require_success(self, name: str, command: Sequence[str]) -> None:
        result = self._run(name, command)
        if result.status != 0:
            raise PlatformError(f"{self._node}: command {name}: {result.problem}")

    def _run(self, name: str, command: Sequence[str]) -> CommandResult:
        description = f"{self._node}: command {name}"
        if self._node.startswith("-"):  # a program would read it as an option
            raise PermissionDeniedError(
                f"{description}: not run: the name of the node starts with a dash"
            )
        return run_command(
            description,
            substitute_variables(command, self._values),
            timeout=self._settings.timeout,
        )
