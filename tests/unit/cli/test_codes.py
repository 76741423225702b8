"""The reference of codes: complete, and equal to the published page."""

from enum import StrEnum
from pathlib import Path

import pytest

from opendrs.api.problems import STATUS, TITLES
from opendrs.api.schema.common import ApiProblem
from opendrs.cli.codes import CATALOGS, codes_page, main, meanings

PUBLISHED = Path(__file__).parents[3] / "docs/reference/codes.md"
CATALOG_ENUMS = [catalog.codes for catalog in CATALOGS]


class Undocumented(StrEnum):
    """An enum in which one meaning is missing."""

    FIRST = "first"
    """Meaning of the first."""
    SECOND = "second"


def test_published_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    main()

    assert capsys.readouterr().out == PUBLISHED.read_text(), "run: make codes"


@pytest.mark.parametrize("codes", CATALOG_ENUMS, ids=lambda codes: codes.__name__)
def test_each_code_is_one_row_of_the_page(codes: type[StrEnum]) -> None:
    section = codes_page().split(f"\n## {_title(codes)}\n")[1].split("\n## ")[0]

    listed = [line.split("`")[1] for line in section.splitlines() if "| `" in line]
    assert listed == [code.value for code in codes]


@pytest.mark.parametrize("codes", CATALOG_ENUMS, ids=lambda codes: codes.__name__)
def test_each_meaning_is_one_line_of_sentences(codes: type[StrEnum]) -> None:
    for meaning in meanings(codes).values():
        assert meaning[0].isupper() or meaning.startswith("api.")
        assert meaning.endswith(".")
        assert "\n" not in meaning


def test_missing_meaning_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Undocumented: without meaning: SECOND"):
        meanings(Undocumented)


def test_each_problem_code_has_an_error_status() -> None:
    assert all(400 <= STATUS[code] < 600 for code in ApiProblem)
    assert set(TITLES) == set(ApiProblem)


def _title(codes: type[StrEnum]) -> str:
    return next(catalog.title for catalog in CATALOGS if catalog.codes is codes)
