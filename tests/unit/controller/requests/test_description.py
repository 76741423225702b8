"""What the interface says of itself holds, whatever is sent to it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from builders import cluster
from hall import Hall, Usher
from opendrs.controller.requests.app import interface
from opendrs.controller.requests.tokens import Tokens
from vouching import Vouched, token_of

WRITTEN = interface(Usher(), Tokens({})).openapi()
DESCRIPTION = schemathesis.openapi.from_dict(WRITTEN)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    origin = cluster({"h1": 0.5}, {"vm1": ("h1", 0.3)})
    with Hall(tmp_path_factory.mktemp("hall"), origin) as found:
        yield found


@pytest.fixture(scope="module")
def address(hall: Hall, served: tuple[Usher, int]) -> str:
    usher, port = served
    usher.desk = hall.desk
    return f"https://127.0.0.1:{port}"


def test_it_is_a_description_as_openapi_has_it() -> None:
    DESCRIPTION.validate()

    broken = copy.deepcopy(WRITTEN)
    del broken["paths"]["/v1/requests"]["post"]["responses"]["202"]["description"]
    with pytest.raises(Exception, match="description"):
        schemathesis.openapi.from_dict(broken).validate()


@DESCRIPTION.parametrize()
@settings(max_examples=10)
def test_every_answer_is_as_described(
    case: schemathesis.Case[Any], address: str, vouched: Vouched
) -> None:
    case.call_and_validate(
        base_url=address,
        headers={"Authorization": f"Bearer {token_of('h1')}"},
        verify=str(vouched.ca),
        # What has the right form may be stale all the same, or contradict itself.
        excluded_checks=[positive_data_acceptance],
    )
