"""Files that are taken for others."""

from __future__ import annotations

import pytest

from opendrs.errors import InvalidFileError
from opendrs.platforms.file import FileForm, require_form


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"format": "opendrs-snapshot/1"}, "here is a snapshot, not a drill: opendrs"),
        ({"platform": {}}, "here is a configuration, not a drill: opendrs run"),
        ({"format": "opendrs-sweep/2"}, "here is a sweep, not a drill: opendrs sweep"),
    ],
)
def test_a_file_of_another_form_is_told_in_one_line(
    document: object, told: str
) -> None:
    with pytest.raises(InvalidFileError, match=told) as caught:
        require_form(document, "here", FileForm.DRILL)

    assert len(caught.value.complaints) == 1


@pytest.mark.parametrize(
    "document", [{"format": "opendrs-drill/1"}, {"format": 3}, {}, [], None]
)
def test_what_is_of_the_form_or_of_none_is_left_to_its_reader(
    document: object,
) -> None:
    require_form(document, "here", FileForm.DRILL)
