"""Options of `opendrs what-if`: the changes of a cluster, and the size of a guest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import click

from opendrs.cli.options import require_guest, require_node
from opendrs.config import suggestion
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import repr_value
from opendrs.model import NodeId, Resources, Snapshot
from opendrs.placement import (
    MAX_ADDED,
    MAX_GROWTH,
    GuestSize,
    NodeAddition,
    Scenario,
    median_size,
    size_like,
    with_added_nodes,
)
from opendrs.rules import domain_nodes

_PERCENTAGE = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*%")
_COUNTED_NODE = re.compile(r"([0-9]{1,9})x(.+)", re.DOTALL)


class PercentageParameter(click.ParamType[float]):
    """A percentage such as 20%, as a ratio."""

    name = "percentage"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the percentage *value* as a ratio: 0.2 for 20%."""
        if isinstance(value, float):
            return value
        match = _PERCENTAGE.fullmatch(str(value).strip())
        ratio = None if match is None else float(match[1]) / 100
        if ratio is None or not -1 <= ratio <= MAX_GROWTH:
            self.fail(
                f"expected a percentage from -100% to {MAX_GROWTH:.0%}, such as 20%, "
                f"got {value!r}",
                param,
                ctx,
            )
        return ratio


def read_scenario(
    snapshot: Snapshot,
    *,
    add: Sequence[str],
    remove: Sequence[str],
    fail: Sequence[str],
    growth: float,
) -> Scenario:
    """Return the changes that the options name.

    Args:
        snapshot: The cluster.
        add: Values of `--add`.
        remove: Values of `--remove`.
        fail: Values of `--fail`.
        growth: Value of `--grow`, as a ratio.

    Raises:
        UnknownNodeError: A node does not exist.
        ConfigurationError: A domain does not exist, a number of nodes is out of range,
            or a node is both removed and failed.
    """
    added = tuple(_addition(text, snapshot) for text in add)
    removed = {require_node("--remove", name, snapshot): None for name in remove}
    grown = with_added_nodes(snapshot, added)
    parts = (_failed_nodes(text, snapshot, grown) for text in fail)
    failed = dict.fromkeys(chain.from_iterable(parts))
    if both := sorted(removed.keys() & failed.keys()):
        raise ConfigurationError(
            f"--fail: {both[0]} is also given by --remove; expected one of them",
            code=DiagnosticCode.INCONSISTENT,
        )
    return Scenario(
        add=added,
        remove=tuple(removed),
        fail=tuple(failed),
        growth=growth,
    )


def _failed_nodes(text: str, snapshot: Snapshot, grown: Snapshot) -> Sequence[NodeId]:
    """Return the nodes of an option such as `n1`, or `rack=r1` for a failure domain.

    Args:
        text: Value of the option.
        snapshot: The cluster.
        grown: The same with the added nodes, which are in the domains of theirs.
    """
    key, is_domain, name = text.partition("=")
    if text in snapshot.nodes or not is_domain:
        return [require_node("--fail", text, snapshot)]
    nodes_in = domain_nodes(grown, key)
    if name in nodes_in:
        return nodes_in[name]
    labels = {label for node in snapshot.nodes.values() for label in node.labels}
    known = labels.union(f"{key}={each}" for each in nodes_in)
    raise ConfigurationError(
        f"--fail: unknown domain {repr_value(text)}: no node has this label"
        f"{suggestion(text, sorted(known))}",
        code=DiagnosticCode.UNKNOWN_NAME,
    )


def _addition(text: str, snapshot: Snapshot) -> NodeAddition:
    """Return the nodes of an option such as `3xn1`, or `n1` for one node."""
    match = _COUNTED_NODE.fullmatch(text)
    if match is None or text in snapshot.nodes:
        return NodeAddition(1, require_node("--add", text, snapshot))
    count = int(match[1])
    if not 1 <= count <= MAX_ADDED:
        raise ConfigurationError(
            f"--add: expected 1 to {MAX_ADDED} nodes, as in 3xNODE, got "
            f"{repr_value(text)}",
            code=DiagnosticCode.OUT_OF_RANGE,
        )
    return NodeAddition(count, require_node("--add", match[2], snapshot))


def read_guest_size(
    snapshot: Snapshot,
    *,
    cpu: float | None,
    memory: float | None,
    like: str | None,
) -> GuestSize | None:
    """Return the size of an additional guest; None if no guest has a known size.

    A guest uses all of an amount that is given. Other amounts are those of the guest
    to resemble, or the median of the active guests.

    Args:
        snapshot: The cluster.
        cpu: Value of `--guest-cpu`; None if not given.
        memory: Value of `--guest-memory` in bytes; None if not given.
        like: Value of `--like`; None if not given.

    Raises:
        UnknownGuestError: The guest to resemble does not exist.
        ModelError: The size of the guest to resemble is unknown.
        ConfigurationError: An amount is neither given nor known.
    """
    if like is not None:
        base = size_like(snapshot, require_guest("--like", like, snapshot).id)
    elif cpu is not None and memory is not None:
        given = Resources(cpu, int(memory))
        return GuestSize(given, given)
    else:
        found = median_size(snapshot)
        if found is None:
            if cpu is None and memory is None:
                return None
            missing = "--guest-memory" if memory is None else "--guest-cpu"
            raise ConfigurationError(
                f"{missing}: required: no guest of the cluster has a known size",
                code=DiagnosticCode.MISSING_KEY,
            )
        base = found
    limit, usage = base.limit, base.usage
    if cpu is not None:
        limit, usage = Resources(cpu, limit.memory), Resources(cpu, usage.memory)
    if memory is not None:
        size = int(memory)
        limit, usage = Resources(limit.cpu, size), Resources(usage.cpu, size)
    return GuestSize(limit, usage)
