"""The arguments and options that several commands share."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from opendrs.model.quantities import TIME, Quantity, QuantityError

TABLE, JSON = "table", "json"


class AmountRange(click.FloatRange):
    """A number in a range, or a text with a number and a unit.

    Args:
        quantity: What a number counts, and which units there are.
        least: The least it may be.
        most: The most it may be.
        above: Whether it must be more than the least.
    """

    def __init__(
        self,
        quantity: Quantity,
        least: float | None = None,
        most: float | None = None,
        *,
        above: bool = False,
    ) -> None:
        super().__init__(least, most, min_open=above)
        self._quantity = quantity

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number that *value* is."""
        try:
            value = self._quantity.number(value)
        except QuantityError as error:
            try:
                value = float(value)
            except ValueError:
                self.fail(f"expected {error}, got {value!r}", param, ctx)
        found: float = super().convert(value, param, ctx)
        return found


def a_number(
    context: click.Context, option: click.Parameter, value: float | None
) -> float | None:
    """Refuse `nan`, which is outside no range."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is not a number of seconds", context, option)
    return value


class Time(click.ParamType[datetime]):
    """A time in ISO 8601: in UTC, unless it names another zone."""

    name = "time"

    def convert(
        self,
        value: str | datetime,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> datetime:
        """Return the time that *value* says."""
        if isinstance(value, datetime):
            return value
        try:
            time = datetime.fromisoformat(value)
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time such as 2026-11-22T09:30:00Z", param, ctx)


source_argument = click.argument("source", metavar="SOURCE")

format_option = click.option(
    "--format",
    "form",
    type=click.Choice([TABLE, JSON]),
    default=TABLE,
    help="Tables for people (the default), or JSON for programs.",
)
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration; ./opendrs.toml when it is there.",
)
all_option = click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Show everything, however much; without it, of long lists the part that "
    "matters most.",
)
summary_option = click.option(
    "--summary",
    "brief",
    is_flag=True,
    help="Show only the summary: cost, highest loads, imbalance, broken rules.",
)
at_option = click.option(
    "--at",
    type=Time(),
    metavar="TIME",
    help="Of a history (record --every): the newest snapshot taken at TIME or before, "
    "such as 2026-11-22T09:30 (UTC) or 2026-11-22T10:30+01:00. Default: the newest.",
)
policy_option = click.option(
    "--policy",
    metavar="NAME",
    help="The policy that decides: balance, auto-rebalance, or a further one. "
    "Default: the configured one, or else balance.",
)
set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the policy, such as threshold=0.2; may be repeated.",
)
budget_option = click.option(
    "--budget",
    metavar="AMOUNT",
    help="How much optimize may move: knee, unlimited, or such as '500 GiB', "
    "'40 moves' or '30 min'.",
)
time_option = click.option(
    "--time",
    "seconds",
    type=AmountRange(TIME, 0, 86400, above=True),
    callback=a_number,
    metavar="SECONDS",
    help="For how long optimize searches, also such as '10 min'; the best so far at "
    "Ctrl-C.",
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    metavar="N",
    default=1,
    help="Draws the simulated cluster; the same one for the same seed.",
)
