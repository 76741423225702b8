"""The published schema is that of the code, and describes what is written."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from opendrs.config import json_text
from opendrs.config.schema import main, snapshot_schema
from opendrs.model import Snapshot
from support.strategies import snapshots

PUBLISHED = Path(__file__).parents[3] / "docs/reference/opendrs-snapshot-1.schema.json"
VALIDATOR = Draft202012Validator(snapshot_schema())


def test_the_published_schema_is_the_one_in_the_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main()

    assert capsys.readouterr().out == PUBLISHED.read_text()


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(snapshot_schema())

    assert snapshot_schema()["$id"] == "urn:opendrs:schema:opendrs-snapshot-1"


@settings(max_examples=40, deadline=None)
@given(snapshots(details=True))
def test_what_is_written_fits_the_schema(snapshot: Snapshot) -> None:
    VALIDATOR.validate(json.loads(json_text(snapshot)))


def test_schema_rejects_what_the_reader_rejects() -> None:
    wrong = {
        "format": "opendrs-snapshot/1",
        "taken_at": "2026-11-21T12:00:00Z",
        "nodes": {"a": {"capacity": {"cpu": 0, "memory": 1}}},
        "guests": {"vm1": {"node": "a", "kind": "vm", "usage": {"cpu": None}}},
        "rules": [{"kind": "affinity", "guests": ["vm1"]}],
    }

    assert sorted(
        "/".join(map(str, error.path)) for error in VALIDATOR.iter_errors(wrong)
    ) == ["guests/vm1/usage/cpu", "nodes/a/capacity/cpu", "rules/0"]
