"""Declared metrics: their names, types, labels and meaning.

`python -m opendrs.monitoring.declarations` prints the reference of all metrics.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum


class MetricType(StrEnum):
    """Type of a metric in the terms of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricDeclaration:
    """Declaration of a metric.

    Attributes:
        name: Name, by the conventions of Prometheus: prefix of the program, base unit,
            and `_total` for a counter.
        type: Its type.
        help: Meaning, for the exposition and the reference.
        labels: Names of its labels.
        values: Values of the labels, for the reference.
    """

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    values: str = ""


_COUNTER, _GAUGE = MetricType.COUNTER, MetricType.GAUGE
_RESOURCES = "`resource`: `cpu` or `memory`"

BUILD_INFO = MetricDeclaration(
    "opendrs_build_info", _GAUGE, "Always 1, with the version as a label.", ("version",)
)
CYCLES = MetricDeclaration(
    "opendrs_cycles_total",
    _COUNTER,
    "Cycles that ended. A cycle fails if the platform is unreachable.",
    ("result",),
    "`result`: `finished` or `failed`",
)
CYCLE_DURATION = MetricDeclaration(
    "opendrs_cycle_duration_seconds",
    MetricType.HISTOGRAM,
    "Duration of the cycles that finished, including the execution of their plans.",
)
CYCLE_INTERVAL = MetricDeclaration(
    "opendrs_cycle_interval_seconds", _GAUGE, "Configured time between two cycles."
)
LAST_CYCLE = MetricDeclaration(
    "opendrs_last_cycle_timestamp_seconds",
    _GAUGE,
    "Time at which the last cycle finished; absent before the first one.",
)
DECISIONS = MetricDeclaration(
    "opendrs_decisions_total",
    _COUNTER,
    "Decisions of the policy.",
    ("policy", "reason"),
    "`policy`; `reason`: [code of a decision](codes.md#decision-reasons)",
)
PLANNED_STEPS = MetricDeclaration(
    "opendrs_planned_steps", _GAUGE, "Steps of the plan of the last decision."
)
STEPS = MetricDeclaration(
    "opendrs_steps_total",
    _COUNTER,
    "Steps that ended, by outcome. A migration is one step.",
    ("action", "outcome"),
    "`action`: `live-migration`, `cold-migration`, `relocation`, `disk-move`, "
    "`power-on` or `power-off`; "
    "`outcome`: [code of an outcome](codes.md#outcomes)",
)
REJECTIONS = MetricDeclaration(
    "opendrs_rejections_total",
    _COUNTER,
    "Steps that the guard rejected.",
    ("reason",),
    "`reason`: [code of a rejection](codes.md#rejection-reasons)",
)
LEASE_HELD = MetricDeclaration(
    "opendrs_lease_held",
    _GAUGE,
    "1 if this controller holds the lease of the store, 0 on standby.",
)
BREAKER_OPEN = MetricDeclaration(
    "opendrs_breaker_open",
    _GAUGE,
    "1 if the circuit breaker was open at the end of the last cycle, otherwise 0.",
)
API_BREAKER_OPEN = MetricDeclaration(
    "opendrs_api_breaker_open",
    _GAUGE,
    "1 if the circuit breaker for the API of the platform was open at the end of the "
    "last cycle, otherwise 0.",
)
PLANS = MetricDeclaration(
    "opendrs_plans",
    _GAUGE,
    "Plans in the store at the end of the last cycle; of those that ended, only the "
    "newest 1,000 are kept.",
    ("state",),
    "`state`: [state of a plan](codes.md#plan-states)",
)
NODES = MetricDeclaration(
    "opendrs_nodes",
    _GAUGE,
    "Nodes in the last snapshot.",
    ("state",),
    "`state`: `online`, `offline`, `maintenance`, `excluded` or `unknown`",
)
GUESTS = MetricDeclaration("opendrs_guests", _GAUGE, "Guests in the last snapshot.")
VIOLATED_RULES = MetricDeclaration(
    "opendrs_rule_violations",
    _GAUGE,
    "Violations of rules in the last snapshot.",
    ("strictness",),
    "`strictness`: `strict` or `soft`",
)
IMBALANCE = MetricDeclaration(
    "opendrs_imbalance_ratio",
    _GAUGE,
    "Coefficient of variation of the measured loads of the online nodes; absent "
    "while a load is unknown.",
    ("resource",),
    _RESOURCES,
)
NODE_LOAD = MetricDeclaration(
    "opendrs_node_load_ratio",
    _GAUGE,
    "Used fraction of the capacity of an online node; absent while it is unknown.",
    ("node", "resource"),
    f"`node`; {_RESOURCES}",
)

METRICS = (
    BUILD_INFO,
    CYCLES,
    CYCLE_DURATION,
    CYCLE_INTERVAL,
    LAST_CYCLE,
    DECISIONS,
    PLANNED_STEPS,
    STEPS,
    REJECTIONS,
    LEASE_HELD,
    BREAKER_OPEN,
    API_BREAKER_OPEN,
    PLANS,
    NODES,
    GUESTS,
    VIOLATED_RULES,
    IMBALANCE,
    NODE_LOAD,
)

_INTRODUCTION = """\
# Metrics

With the table [`[metrics]`](configuration.md#metrics), `opendrs run` serves these
metrics at `/metrics`, in the text format of Prometheus. Beside them are those of the
process, such as `process_cpu_seconds_total` and `process_resident_memory_bytes`. No
metric has a series for each guest.

The values of the last snapshot are absent before the first cycle and while the platform
is unreachable. A name, a type or a label changes only with a major version.

This page is generated from the source code: `make metrics`.
"""


def metrics_page() -> str:
    """Return the reference of all metrics as Markdown."""
    rows = [
        f"| `{each.name}` | {each.type} | {each.values or _label_names(each)} | "
        f"{each.help} |"
        for each in METRICS
    ]
    header = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    return "\n".join([_INTRODUCTION, *header, *rows, ""])


def _label_names(declared: MetricDeclaration) -> str:
    return ", ".join(f"`{name}`" for name in declared.labels)


def main() -> None:
    """Print the page."""
    sys.stdout.write(metrics_page())


if __name__ == "__main__":
    main()
