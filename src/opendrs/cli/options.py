"""The arguments and options that several commands share."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from opendrs.model import TIME, Quantity, QuantityError

TABLE, JSON = "table", "json"


class QuantityRange(click.FloatRange):
    """A number in a range, or a text with a number and a unit.

    Args:
        quantity: What a number counts, and which units there are.
        minimum: The least it may be.
        maximum: The most it may be.
        exclusive_minimum: Whether it must be more than the least.
    """

    def __init__(
        self,
        quantity: Quantity,
        minimum: float | None = None,
        maximum: float | None = None,
        *,
        exclusive_minimum: bool = False,
    ) -> None:
        super().__init__(minimum, maximum, min_open=exclusive_minimum)
        self._quantity = quantity

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number that *value* is."""
        try:
            value = self._quantity.parse(value)
        except QuantityError as error:
            try:
                value = float(value)
            except ValueError:
                self.fail(f"expected {error}, got {value!r}", param, ctx)
        number: float = super().convert(value, param, ctx)
        return number


def reject_nan(
    context: click.Context, option: click.Parameter, value: float | None
) -> float | None:
    """Refuse `nan`, which is outside no range."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is not a number of seconds", context, option)
    return value


class TimeParameter(click.ParamType[datetime]):
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
    "output_format",
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
    "show_all",
    is_flag=True,
    help="Show everything, however much; without it, of long lists the part that "
    "matters most.",
)
summary_option = click.option(
    "--summary",
    "summary_only",
    is_flag=True,
    help="Show only the summary: cost, highest loads, imbalance, broken rules.",
)
at_option = click.option(
    "--at",
    type=TimeParameter(),
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
    "'40 migrations' or '30 min'.",
)
time_limit_option = click.option(
    "--time-limit",
    "time_limit",
    type=QuantityRange(TIME, 0, 86400, exclusive_minimum=True),
    callback=reject_nan,
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
