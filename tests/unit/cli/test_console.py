"""Tables in narrow terminals."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from opendrs.cli.console import TextTable, add_row, create_table

COLUMNS = ("moves", "GiB of\ndisks", "contention\nminutes", "regret")
CELLS = ("147", "1234.5", "98765", "0.030")


def table(no_wrap: tuple[str, ...] = ("policy", *COLUMNS)) -> TextTable:
    found = create_table("policy", *COLUMNS, right=COLUMNS, no_wrap=no_wrap)
    for name in ("balance", "(nothing moved)"):
        add_row(found, name, *CELLS)
    return found


def lines(shown: TextTable, width: int) -> list[str]:
    """Return what a terminal of *width* columns shows."""
    output = StringIO()
    console = Console(file=output, width=width, force_terminal=True, color_system=None)
    console.print(shown)
    return [line.rstrip() for line in output.getvalue().splitlines()]


def test_table_that_fits_is_one_table() -> None:
    shown = lines(table(), 60)

    assert [len(line.split()) for line in shown[-2:]] == [5, 6]
    assert "" not in shown


def test_table_wider_than_the_terminal_is_several_with_whole_cells() -> None:
    shown = lines(table(), 40)

    words = " ".join(shown).split()
    for cell in CELLS:
        assert words.count(cell) == 2
    assert words.count("balance") == shown.count("") + 1 == 2
    assert max(map(len, shown)) <= 40


def test_table_with_cells_that_may_wrap_is_one_table() -> None:
    shown = lines(table(no_wrap=COLUMNS), 40)

    assert " ".join(shown).split().count("regret") == 1
    assert "" not in shown[1:]  # the headings are aligned below


def test_table_of_a_narrower_terminal_than_two_columns_has_one_column_each() -> None:
    shown = lines(table(), 10)

    assert shown.count("") == len(COLUMNS) - 1
