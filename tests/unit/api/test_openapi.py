"""Conformance of the API to its OpenAPI description, for any input."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import jsonschema  # type: ignore[import-untyped]
import pytest
import schemathesis
from hypothesis import settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from opendrs.api.app import create_app
from opendrs.api.problems import MEDIA_TYPE
from opendrs.api.tokens import TokenTable
from opendrs.config.api_schema import HEALTH_PATH, OPENAPI_PATH, REQUEST_PATH
from support.agent_cluster import AgentCluster, ServiceProxy
from support.builders import cluster
from support.certificates import CertificateFiles, node_token

OPEN = (HEALTH_PATH, OPENAPI_PATH)
WRITTEN = create_app(ServiceProxy(), TokenTable({})).openapi()
DESCRIPTION = schemathesis.openapi.from_dict(WRITTEN)


@pytest.fixture(scope="module")
def agent_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentCluster]:
    origin = cluster({"h1": 0.5}, {"vm1": ("h1", 0.3)})
    with AgentCluster(tmp_path_factory.mktemp("hall"), origin) as found:
        yield found


@pytest.fixture(scope="module")
def address(agent_cluster: AgentCluster, served: tuple[ServiceProxy, int]) -> str:
    proxy, port = served
    proxy.service = agent_cluster.service
    return f"https://127.0.0.1:{port}"


def test_description_is_valid_openapi() -> None:
    DESCRIPTION.validate()

    broken = copy.deepcopy(WRITTEN)
    del broken["paths"][REQUEST_PATH]["put"]["responses"]["202"]["description"]
    with pytest.raises(Exception, match="description"):
        schemathesis.openapi.from_dict(broken).validate()


@pytest.mark.parametrize("path", [*WRITTEN["paths"], "/", "/v1/requests", "/api/v1"])
@pytest.mark.parametrize("token", [node_token("h1"), None])
def test_undefined_operations_answer_problem_details(
    address: str, vouched: CertificateFiles, path: str, token: str | None
) -> None:
    possible = {method.upper() for method in WRITTEN["paths"].get(path, ())}
    problem = {
        **WRITTEN["components"]["schemas"]["ProblemDocument"],
        "components": WRITTEN["components"],
    }
    checked = jsonschema.Draft202012Validator(problem)
    requests = path.format(id=uuid4(), guest="vm1")

    with vouched.client(int(address.rpartition(":")[2]), token) as client:
        for method in {"GET", "PUT", "POST", "DELETE", "PATCH", "TRACE"} - possible:
            answer = client.request(method, requests)

            needs_token = token is None and path not in OPEN
            status = 405 if possible else 404
            assert answer.status_code == (401 if needs_token else status)
            assert answer.headers["Content-Type"] == MEDIA_TYPE
            checked.validate(answer.json())
            if answer.status_code == 405:
                assert set(answer.headers["Allow"].split(", ")) == possible


@DESCRIPTION.parametrize()
@settings(max_examples=10)
def test_every_answer_is_as_described(
    case: schemathesis.Case[Any], address: str, vouched: CertificateFiles
) -> None:
    case.call_and_validate(
        base_url=address,
        headers={"Authorization": f"Bearer {node_token('h1')}"},
        verify=str(vouched.ca),
        timeout=120,  # on a busy machine
        # What has the right form may be stale all the same, or contradict itself.
        excluded_checks=[positive_data_acceptance],
    )
