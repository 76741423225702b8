"""Arguments, options and parameter types that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from opendrs.config import suggestion
from opendrs.errors import UnknownGuestError, UnknownNodeError
from opendrs.escapes import repr_value
from opendrs.model import (
    MAX_DURATION,
    SIZE,
    TIME,
    Guest,
    GuestId,
    NodeId,
    Quantity,
    QuantityError,
    Snapshot,
)

TABLE, JSON = "table", "json"
AnyCommand = TypeVar("AnyCommand", bound=Callable[..., object])


class IntegerRange(click.IntRange):
    """An integer in a range, which errors call an integer."""

    name = "integer"


class NumberRange(click.FloatRange):
    """A number in a range, which errors call a number."""

    name = "number"


class QuantityRange(NumberRange):
    """A number in a range, or a text with a number and a unit, such as "5 min".

    Args:
        quantity: The base unit of a plain number, and the other units.
        minimum: The minimum; None for no limit.
        maximum: The maximum; None for no limit.
        exclusive_minimum: Reject the minimum itself.
    """

    def __init__(
        self,
        quantity: Quantity,
        minimum: float | None = None,
        maximum: float | None = None,
        *,
        exclusive_minimum: bool = False,
    ) -> None:
        super().__init__(
            _plain_number(minimum), _plain_number(maximum), min_open=exclusive_minimum
        )
        self._quantity = quantity

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return *value* as a number in the base unit."""
        try:
            value = self._quantity.parse(value)
        except QuantityError as error:
            try:
                value = float(value)
            except ValueError:
                self.fail(f"expected {error}, got {value!r}", param, ctx)
        number: float = super().convert(value, param, ctx)
        return number


def _plain_number(value: float | None) -> float | None:
    """Return *value* as an integer if it is whole, for the help."""
    return int(value) if value is not None and value == int(value) else value


def reject_nan(
    context: click.Context, option: click.Parameter, value: float | None
) -> float | None:
    """Reject `nan`, which passes every range check."""
    if value is not None and math.isnan(value):
        raise click.BadParameter(
            "expected a number of seconds, got nan", context, option
        )
    return value


class TimeParameter(click.ParamType[datetime]):
    """A time in ISO 8601; UTC if it has no time zone."""

    name = "time"

    def convert(
        self,
        value: str | datetime,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> datetime:
        """Return the time *value* in UTC."""
        if isinstance(value, datetime):
            return value
        try:
            time = datetime.fromisoformat(value)
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(
                f"expected a time such as 2026-11-22T09:30:00Z, got {value!r}",
                param,
                ctx,
            )


def require_node(option: str, name: str, snapshot: Snapshot) -> NodeId:
    """Return the id of the node *name*.

    Args:
        option: Option that names it, for the message.
        name: Name of the node.
        snapshot: The cluster.

    Raises:
        UnknownNodeError: There is no such node.
    """
    if name not in snapshot.nodes:
        guess = suggestion(name, snapshot.nodes)
        raise UnknownNodeError(f"{option}: unknown node {repr_value(name)}{guess}")
    return NodeId(name)


def require_guest(option: str, name: str, snapshot: Snapshot) -> Guest:
    """Return the guest *name*.

    Args:
        option: Option that names it, for the message.
        name: Name of the guest.
        snapshot: The cluster.

    Raises:
        UnknownGuestError: There is no such guest.
    """
    guest = snapshot.guests.get(GuestId(name))
    if guest is None:
        guess = suggestion(name, snapshot.guests)
        raise UnknownGuestError(f"{option}: unknown guest {repr_value(name)}{guess}")
    return guest


def since_option(
    text: str, default: float | None = None
) -> Callable[[AnyCommand], AnyCommand]:
    """Return the option `--since` for the length of a record, with the help *text*."""
    quantity = QuantityRange(TIME, 0, MAX_DURATION, exclusive_minimum=True)
    return click.option(
        "--since",
        type=quantity,
        callback=reject_nan,
        default=default,
        metavar="DURATION",
        help=text,
    )


def every_option(text: str) -> Callable[[AnyCommand], AnyCommand]:
    """Return the option `--every` for the time between two decisions."""
    quantity = QuantityRange(TIME, 0, MAX_DURATION)
    return click.option(
        "--every",
        type=quantity,
        callback=reject_nan,
        default=0.0,
        metavar="DURATION",
        help=text,
    )


def cores_option(name: str, text: str) -> Callable[[AnyCommand], AnyCommand]:
    """Return the option *name* with a number of cores; *text* is its help."""
    cores = NumberRange(0, 1_000_000, min_open=True)
    return click.option(
        name, type=cores, callback=reject_nan, metavar="CORES", help=text
    )


def memory_option(name: str, text: str) -> Callable[[AnyCommand], AnyCommand]:
    """Return the option *name* with a size of memory; *text* is its help."""
    size = QuantityRange(SIZE, 1, 1e18)
    return click.option(name, type=size, callback=reject_nan, metavar="SIZE", help=text)


source_argument = click.argument("source", metavar="SOURCE")

format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice([TABLE, JSON]),
    default=TABLE,
    help="Tables (default), or JSON for programs.",
)
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration file (default: ./opendrs.toml, if it exists).",
)
all_option = click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Do not shorten long lists.",
)
summary_option = click.option(
    "--summary",
    "summary_only",
    is_flag=True,
    help="Show only the summary: cost of the plan, highest loads, imbalance and rule "
    "violations.",
)
at_option = click.option(
    "--at",
    type=TimeParameter(),
    metavar="TIME",
    help="If SOURCE is a history (written by record --every): use the last snapshot "
    "taken at or before TIME, such as 2026-11-22T09:30 (UTC) or "
    "2026-11-22T10:30+01:00 (default: the last one).",
)
policy_option = click.option(
    "--policy",
    metavar="NAME",
    help="The policy: balance, auto-rebalance, threshold-rebalance, optimize, "
    "repair, pressure, consolidate, or the name of a plugin (default: the configured "
    "policy; without a configuration, balance).",
)
set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting of the policy, such as threshold=0.2 or "
    '\'priorities=["repair", "balance"]\'; may be repeated. An unknown KEY prints '
    "the valid ones.",
)
budget_option = click.option(
    "--budget",
    metavar="AMOUNT",
    help="Maximum cost of a plan of the policy optimize: an amount such as '500 GiB', "
    "'40 migrations' or '30 min'; the word unlimited; or the word knee, which stops "
    "where further migrations would improve the balance only a little.",
)
time_limit_option = click.option(
    "--time-limit",
    "time_limit",
    type=QuantityRange(TIME, 0, 86400, exclusive_minimum=True),
    callback=reject_nan,
    metavar="SECONDS",
    help="Duration of the search of the policy optimize, in seconds or with a unit "
    "such as '10 min'. Ctrl-C ends the search with the best plan so far.",
)
seed_option = click.option(
    "--seed",
    type=IntegerRange(0, 2**32 - 1),
    metavar="N",
    default=1,
    help="Seed of the simulated cluster; the same seed gives the same cluster "
    "(default 1).",
)
