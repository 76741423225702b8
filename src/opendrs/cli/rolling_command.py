"""The form `opendrs drain --for updates`: start, continue or discard it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from opendrs.cli.apply_cycle import FAILURE, INCOMPLETE
from opendrs.cli.cluster_tables import node_load
from opendrs.cli.console import add_row, console, create_table, print_json, printable
from opendrs.cli.drain_tables import (
    DrainPreview,
    preview_document,
    print_remaining,
)
from opendrs.cli.formatting import format_percent
from opendrs.cli.rolling import (
    RollingTask,
    only_process,
    preview_nodes,
    read_rolling,
    run_rolling,
    save_rolling,
)
from opendrs.controller.rolling import RollingUpdate, hook_digest
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import repr_value
from opendrs.model import NodeId, format_count, format_list


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRequest:
    """Options of the command.

    Attributes:
        nodes: Names of the nodes, separated by commas; None for all nodes.
        hook: Program and arguments as a line; None to discard.
        discard: True to forget the rolling maintenance that has stopped.
    """

    nodes: str | None
    hook: str | None
    discard: bool

    @property
    def words(self) -> tuple[str, ...]:
        """Return the program and its arguments; empty to discard.

        Raises:
            ConfigurationError: The line is absent or empty, or a quotation does not
                end.
        """
        if self.discard:
            return ()
        if self.hook is None:
            raise _invalid("--hook: required, also to continue: it is not recorded")
        try:
            words = tuple(shlex.split(self.hook))
        except ValueError as error:
            raise _invalid(f"--hook: {error}") from None
        if not words:
            raise _invalid("--hook: expected a program, got nothing")
        return words

    @property
    def names(self) -> tuple[NodeId, ...] | None:
        """Return the names of the nodes; None for all.

        Raises:
            ConfigurationError: There is no name, or one occurs twice.
        """
        if self.nodes is None:
            return None
        names = tuple(NodeId(name.strip()) for name in self.nodes.split(","))
        if not all(names) or len(set(names)) < len(names):
            raise _invalid("--nodes: expected different names, separated by commas")
        return names


def roll(
    task: RollingTask, request: RollingRequest, consent: Callable[[], bool]
) -> int:
    """Start, continue or discard rolling maintenance; return the exit status.

    Args:
        task: The platform and the time limits.
        request: The options of the command.
        consent: Called before the start; nothing is changed if it returns False.

    Raises:
        ConfigurationError: The options do not fit, or contradict what is in progress.
        LeaseLostError: Another process does it.
        PlatformError: The cluster cannot be observed.
        StoreError: The store cannot be read or written.
    """
    with only_process(task.platform, task.settings) as lock:
        current = read_rolling(task.platform, task.settings)
        if request.discard:
            save_rolling(task.maintenance, None)
            return 0
        if current is None:
            current = _new(task, request, consent)
            if current is None:
                return INCOMPLETE
        else:
            _require_same(current, task, request)
        return _report(task, run_rolling(task, current, lock))


def _new(
    task: RollingTask, request: RollingRequest, consent: Callable[[], bool]
) -> RollingUpdate | None:
    """Check each node, and record the start; return None if it does not start."""
    previews = preview_nodes(task.maintenance, request.names)
    blocked = [preview.node for preview in previews if preview.remaining]
    if task.maintenance.shows_progress:
        _print_previews(previews)
    elif blocked:
        print_json(
            {
                "started": False,
                "nodes": [
                    {"node": each.node, **preview_document(each)} for each in previews
                ],
            }
        )
    if blocked:
        if task.maintenance.shows_progress:
            console().print(
                printable(
                    f"Nothing was changed: guests cannot leave {format_list(blocked)}. "
                    "Help them first, or name the other nodes with --nodes."
                )
            )
        return None
    if not consent():
        return None
    state = RollingUpdate(
        nodes=tuple(each.node for each in previews),
        program=task.hook[0],
        hook_digest=hook_digest(task.hook),
    )
    save_rolling(task.maintenance, state)
    return state


def _require_same(
    current: RollingUpdate, task: RollingTask, request: RollingRequest
) -> None:
    """Check that *task* and *request* do not contradict what is in progress.

    Raises:
        ConfigurationError: It does.
    """
    names = request.names
    is_same = names is None or set(names) == {*current.done, *current.nodes}
    if not is_same or hook_digest(task.hook) != current.hook_digest:
        raise ConfigurationError(
            f"rolling maintenance of {format_list(current.nodes)} is in progress with "
            f"a hook of {repr_value(current.program)}; continue it with the same "
            "options, or end it with --discard",
            code=DiagnosticCode.INCONSISTENT,
        )


def _print_previews(previews: tuple[DrainPreview, ...]) -> None:
    screen = console()
    listing = create_table("node", "guests", "stay", "highest memory load of others")
    for each in previews:
        guests = len(each.decision.plan.steps) + len(each.remaining)
        loads = [
            load
            for name, node in each.after.nodes.items()
            if name != each.node and (load := node_load(node, "memory")) is not None
        ]
        highest = format_percent(max(loads, default=None))
        add_row(listing, each.node, str(guests), str(len(each.remaining)), highest)
    screen.print(listing)
    for each in previews:
        print_remaining(screen, each)


def rolling_document(state: RollingUpdate) -> dict[str, object]:
    """Return the progress of *state* as plain values."""
    return {
        "done": list(state.done),
        "left": list(state.nodes),
        "phase": state.phase.value if state.nodes else None,
        "failure": state.failure or None,
    }


def rolling_text(state: RollingUpdate) -> str:
    """Return the progress of *state*, which has not ended, as one line."""
    done = f"{len(state.done)} of {len(state.done) + len(state.nodes)} nodes done"
    stopped = f"; stopped: {state.failure}" if state.failure else ""
    following = f"; next: {state.nodes[0]}: {state.phase}" if state.nodes else ""
    return f"rolling maintenance: {done}{following}{stopped}"


def _report(task: RollingTask, state: RollingUpdate) -> int:
    if task.maintenance.shows_progress:
        text = (
            f"Stopped: {state.failure}. Repeat the command to continue."
            if state.failure
            else f"{format_count(len(state.done), 'node')} done."
        )
        console().print(printable(text))
    else:
        print_json(
            {
                "started": True,
                **rolling_document(state),
                "hook_output": task.hook_output,
            }
        )
    return FAILURE if state.failure else 0


def _invalid(message: str) -> ConfigurationError:
    return ConfigurationError(message, code=DiagnosticCode.INVALID_VALUE)
