"""Commands of operators over the API: errors become problems, and are audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from opendrs.api.context import ApiContext
from opendrs.api.principal import Principal
from opendrs.api.problems import ProblemError
from opendrs.api.schema.common import ApiProblem
from opendrs.controller.operator_commands import (
    PlanChangedError,
    PlanConflictError,
    UnknownPlanError,
)
from opendrs.errors import ConfigurationError, DiagnosticCode, ModelError, StoreError

_CODES: Mapping[type[Exception], ApiProblem] = {
    UnknownPlanError: ApiProblem.NOT_FOUND,
    PlanChangedError: ApiProblem.PLAN_CHANGED,
    PlanConflictError: ApiProblem.STATE_CONFLICT,
    ModelError: ApiProblem.NOT_FOUND,
}


def problem_of(error: Exception) -> ProblemError:
    """Return *error* of a command as a problem."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, StoreError):
        code, wait = ApiProblem.STORE_UNAVAILABLE, {"Retry-After": "1"}
        return ProblemError(code, str(error), headers=wait)
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return ProblemError(code, str(error))
    assert isinstance(error, ConfigurationError)  # noqa: S101 - those that are caught
    is_conflict = DiagnosticCode.INCONSISTENT in error.codes
    code = ApiProblem.STATE_CONFLICT if is_conflict else ApiProblem.OUT_OF_RANGE
    return ProblemError(code, str(error).removeprefix("--step "))


@contextmanager
def perform(
    context: ApiContext,
    principal: Principal,
    command: str,
    arguments: Mapping[str, object],
) -> Iterator[None]:
    """Run a command of *principal* inside the `with` statement.

    A command that has its effect records itself. One that fails is recorded with the
    code of the problem as its result.

    Raises:
        ProblemError: The command failed.
    """
    try:
        yield
    except (ConfigurationError, ModelError, ProblemError, StoreError) as error:
        problem = problem_of(error)
        action = principal.actor.action(context.clock, command, arguments)
        with suppress(StoreError):
            context.stores.operators.record(replace(action, result=problem.code.value))
        raise problem from error
