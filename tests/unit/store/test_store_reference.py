"""docs/reference/store.md describes the tables as they are."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy.dialects import sqlite

from opendrs.store.tables import METADATA, UtcTime

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "store.md"


def described() -> dict[str, dict[str, str]]:
    """Return the types of the columns that the page describes, by table."""
    tables: dict[str, dict[str, str]] = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", section, re.MULTILINE)
        tables[section.split("`")[1]] = dict(rows)
    return tables


def test_reference_describes_all_columns_with_types() -> None:
    dialect = sqlite.dialect()

    assert described() == {
        name: {
            column.name: "time"
            if isinstance(column.type, UtcTime)
            else column.type.compile(dialect)
            for column in table.columns
        }
        for name, table in METADATA.tables.items()
    }
