"""Files of one format given in place of another."""

from __future__ import annotations

import pytest

from opendrs.config import FileFormat, require_format
from opendrs.errors import InvalidFileError


@pytest.mark.parametrize(
    ("document", "reported"),
    [
        (
            {"format": "opendrs-snapshot/1"},
            "here: expected a drill, got a snapshot; use opendrs",
        ),
        ({"platform": {}}, "expected a drill, got a configuration; use opendrs run"),
        (
            {"format": "opendrs-sweep/2"},
            "expected a drill, got a sweep; use opendrs sweep",
        ),
    ],
)
def test_file_of_another_format_is_one_error_line(
    document: object, reported: str
) -> None:
    with pytest.raises(InvalidFileError, match=reported) as caught:
        require_format(document, "here", FileFormat.DRILL)

    assert len(caught.value.messages) == 1


@pytest.mark.parametrize(
    "document", [{"format": "opendrs-drill/1"}, {"format": 3}, {}, [], None]
)
def test_expected_or_unknown_format_is_accepted(
    document: object,
) -> None:
    require_format(document, "here", FileFormat.DRILL)
