"""Every response of the operator API is as its OpenAPI document describes, by role."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from opendrs.ports import Role
from support.operator_api import TIMEOUT, OperatorApi

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
WRITTEN = (ROOT / "docs/reference/openapi.json").read_text()
# The stream of events does not end.
DESCRIPTION = schemathesis.openapi.from_dict(json.loads(WRITTEN)).exclude(
    path="/api/v1/events"
)
# A request of the right form may name a plan that does not exist.
EXCLUDED: list[Any] = [positive_data_acceptance]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorApi]:
    with OperatorApi(tmp_path_factory.mktemp("api") / "store.db") as running:
        running.propose()
        running.context.states.poll()
        yield running


@pytest.fixture(scope="module")
def headers(api: OperatorApi) -> Mapping[Role, dict[str, str]]:
    return {role: {"Authorization": f"Bearer {api.token(role)}"} for role in Role}


def test_description_is_valid() -> None:
    schemathesis.openapi.from_dict(json.loads(WRITTEN)).validate()


@DESCRIPTION.parametrize()
@settings(max_examples=10, deadline=None)
def test_every_response_is_as_described(
    case: schemathesis.Case[Any],
    api: OperatorApi,
    headers: Mapping[Role, dict[str, str]],
) -> None:
    for role in Role:
        case.call_and_validate(
            base_url=api.address,
            headers=headers[role],
            excluded_checks=EXCLUDED,
            timeout=TIMEOUT,
        )


@pytest.mark.parametrize("role", Role)
def test_sequences_of_requests_are_as_described(
    api: OperatorApi, headers: Mapping[Role, dict[str, str]], role: Role
) -> None:
    credentials = headers[role]

    class Requests(DESCRIPTION.as_state_machine()):  # type: ignore[misc]  # made at run time
        def get_call_kwargs(self, case: schemathesis.Case[Any]) -> dict[str, Any]:
            del case
            return {
                "base_url": api.address,
                "headers": credentials,
                "timeout": TIMEOUT,
            }

        def validate_response(
            self,
            response: Any,  # noqa: ANN401 - of schemathesis
            case: schemathesis.Case[Any],
            **_: Any,  # noqa: ANN401 - as before
        ) -> None:
            case.validate_response(response, excluded_checks=EXCLUDED)

    Requests.run(
        settings=settings(
            max_examples=20,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
    )
