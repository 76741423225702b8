"""Reference page of all stable codes, generated from the enums that define them.

`python -m opendrs.cli.codes` prints docs/reference/codes.md. The meaning of a code is
the string below the member of the enum.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from textwrap import dedent

from opendrs.api.jobs import JobProblem, JobState
from opendrs.api.problems import STATUS
from opendrs.api.schema.common import ApiProblem
from opendrs.arrays import SkipReason
from opendrs.config import DiagnosticCode
from opendrs.config.controller_settings import Mode
from opendrs.config.diagnostics import Severity
from opendrs.config.proxlb import ImportStatus
from opendrs.controller.events import LogEventCode
from opendrs.controller.modes import ModeSource
from opendrs.controller.stay_reasons import StayReason
from opendrs.controller.views.attention import ExceptionCode
from opendrs.controller.views.reasons import NodeReason
from opendrs.controller.views.rule_states import RuleState
from opendrs.errors import FailureCode
from opendrs.guard import RejectionReason
from opendrs.model import LoadState
from opendrs.placement import InfeasibleReason, UnplacedReason
from opendrs.policies import DecisionReason
from opendrs.ports import (
    ActionOrigin,
    Outcome,
    PlanState,
    RequestState,
    Role,
    TaskState,
)

_INTRODUCTION = """\
# Codes

Programs may rely on these codes. They are stable within a major version, which may add
further codes. The messages beside them in output and logs may change.

This page is generated from the source code: `make codes`.
"""


@dataclass(frozen=True, slots=True)
class Catalog:
    """A closed list of codes with its description.

    Attributes:
        title: Heading of the section.
        codes: The enum.
        usage: Sentence that names the outputs and settings with these codes.
    """

    title: str
    codes: type[StrEnum]
    usage: str


CATALOGS = (
    Catalog(
        "Problems of the HTTP API",
        ApiProblem,
        "`code` of a problem response; `result` in the audit.",
    ),
    Catalog(
        "Exceptions",
        ExceptionCode,
        "`code` of what needs attention: the dashboard, `/api/v1/state`.",
    ),
    Catalog("Roles", Role, "`role` of a token: `opendrs access`, the HTTP API."),
    Catalog(
        "Origins of actions",
        ActionOrigin,
        "`origin` of a command of an operator: `/api/v1/audit`.",
    ),
    Catalog(
        "Decision reasons",
        DecisionReason,
        "`reason` of a decision: `opendrs plan --format json`, `opendrs compare`, the "
        "log event `decision-made`.",
    ),
    Catalog(
        "Skip reasons",
        SkipReason,
        "Reason why a policy does not consider a guest for a migration.",
    ),
    Catalog(
        "Stay reasons",
        StayReason,
        "Reason why a guest stays that the policy considered: `explain`, `/reasons`.",
    ),
    Catalog(
        "Node reasons",
        NodeReason,
        "Reason why a node receives no guests: `/reasons` of the API.",
    ),
    Catalog(
        "Rule states",
        RuleState,
        "`state` of a placement rule: `/rules` of the API.",
    ),
    Catalog(
        "Rejection reasons",
        RejectionReason,
        "Reason why the guard does not allow a step to start.",
    ),
    Catalog(
        "Outcomes",
        Outcome,
        "`outcome` of a step: `opendrs apply --format json`, the log event "
        "`step-finished`, the API.",
    ),
    Catalog(
        "Infeasible nodes",
        InfeasibleReason,
        "`reason` of a node on which a guest cannot start: `place`, `what-if`.",
    ),
    Catalog(
        "Unplaced guests",
        UnplacedReason,
        "`reason` of a guest without a node: `what-if`.",
    ),
    Catalog("Task states", TaskState, "State of a task on the platform."),
    Catalog(
        "Plan states",
        PlanState,
        "`state` of a plan: `opendrs plans`, the log event `plan-state-changed`.",
    ),
    Catalog(
        "Modes",
        Mode,
        "`mode` of the controller: `opendrs mode`, the log events "
        "`controller-started` and `mode-changed`.",
    ),
    Catalog(
        "Sources of the mode",
        ModeSource,
        "`source` of the mode: `opendrs mode`, the log event `mode-changed`.",
    ),
    Catalog(
        "Request states",
        RequestState,
        "`state` of the request of a host agent: the API, the log event "
        "`request-completed`.",
    ),
    Catalog(
        "Load states",
        LoadState,
        "`load_state` of a node in the request of its host agent.",
    ),
    Catalog(
        "Diagnostics",
        DiagnosticCode,
        "`code` of an error or warning about the input, of any command with "
        "`--format json`.",
    ),
    Catalog(
        "Failures",
        FailureCode,
        "`code` of an error that is not about the input, with `--format json`: exit "
        "status 3.",
    ),
    Catalog("Severities", Severity, "`severity` of a diagnostic."),
    Catalog(
        "Imported settings",
        ImportStatus,
        "`status` of a setting of another program: `opendrs import --format json`.",
    ),
    Catalog(
        "Log events",
        LogEventCode,
        "`event` of a log line of `opendrs run` and `opendrs agent` with "
        "`--format json`.",
    ),
    Catalog("Job states", JobState, "`state` of a job of the HTTP API."),
    Catalog(
        "Job problems", JobProblem, "`problem` of a job of the HTTP API without result."
    ),
)


def meanings(codes: type[StrEnum]) -> dict[str, str]:
    """Return the meaning of each code of an enum.

    Raises:
        ValueError: The meaning of a code is missing.
    """
    (definition,) = ast.parse(dedent(inspect.getsource(codes))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - the source of a class
    documented = dict(_documented_members(definition))
    missing = [member.name for member in codes if member.name not in documented]
    if missing:
        raise ValueError(f"{codes.__name__}: without meaning: {', '.join(missing)}")
    return {member.value: documented[member.name] for member in codes}


def _documented_members(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield each assigned name with the string that follows its assignment."""
    for member, follower in zip(definition.body, definition.body[1:], strict=False):
        if not isinstance(member, ast.Assign) or not isinstance(follower, ast.Expr):
            continue
        target, text = member.targets[0], follower.value
        if isinstance(target, ast.Name) and isinstance(text, ast.Constant):
            yield target.id, str(text.value)


def codes_page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_INTRODUCTION, *map(_section, CATALOGS)])


def _section(catalog: Catalog) -> str:
    header, rule = "| code | meaning |", "|---|---|"
    rows = [f"| `{code}` | {text} |" for code, text in meanings(catalog.codes).items()]
    if catalog.codes is ApiProblem:
        header, rule = "| code | status | meaning |", "|---|---|---|"
        rows = [
            f"| `{code}` | {STATUS[ApiProblem(code)].value} | {text} |"
            for code, text in meanings(catalog.codes).items()
        ]
    table = "\n".join([header, rule, *rows])
    return f"## {catalog.title}\n\n{catalog.usage}\n\n{table}\n"


def main() -> None:
    """Print the page."""
    sys.stdout.write(codes_page())


if __name__ == "__main__":
    main()
