"""A list stands for each of its values, unless it is a value itself."""

from __future__ import annotations

from opendrs.platforms.file import Complaint
from opendrs.sim.consolidation.sweep.alternatives import alternatives, count_of


def tables(value: object, *nested: str) -> list[object]:
    return [each.table for each in alternatives(value, nested)]


def test_every_combination_comes_once_and_the_last_key_turns_first() -> None:
    table = {"a": [1, 2], "b": "x", "c": [3, 4]}

    assert tables(table) == [
        {"a": 1, "b": "x", "c": 3},
        {"a": 1, "b": "x", "c": 4},
        {"a": 2, "b": "x", "c": 3},
        {"a": 2, "b": "x", "c": 4},
    ]
    assert count_of(table) == 4


def test_lists_in_tables_below_count_when_that_is_said() -> None:
    table = {"name": "x", "settings": {"target": [0.5, 0.6]}}

    assert tables(table) == [table]
    assert tables(table, "settings") == [
        {"name": "x", "settings": {"target": 0.5}},
        {"name": "x", "settings": {"target": 0.6}},
    ]
    assert (count_of(table), count_of(table, ["settings"])) == (1, 2)


def test_a_list_that_is_one_value_stays_one() -> None:
    watts, groups, kinds = [9.0, 10.0], [["a", "b"], ["c", "d"]], [{"mips": 1}]
    table = {"watts": watts, "apart": groups, "kinds": kinds}

    assert tables(table) == [table]


def test_lists_of_such_values_are_alternatives() -> None:
    assert tables({"watts": [[9.0, 10.0], [1.0, 2.0]]}) == [
        {"watts": [9.0, 10.0]},
        {"watts": [1.0, 2.0]},
    ]
    assert tables({"apart": [0, 5]}) == [{"apart": 0}, {"apart": 5}]


def test_what_was_chosen_is_named_where_there_was_a_choice() -> None:
    table = {"name": ["x"], "most": [1, 2], "settings": {"target": [0.5, 0.6]}}

    chosen = [dict(each.chosen) for each in alternatives(table, ["settings"])]

    assert chosen[1] == {"most": 1, "settings.target": 0.6}


def test_a_complaint_tells_which_value_of_a_list() -> None:
    table = {"settings": {"target": [0.5, 9]}, "name": "x"}
    second = list(alternatives(table, ["settings"]))[1]
    at = ("policies", 0)

    def place(*keys: str) -> object:
        return second.pointed(Complaint((*at, *keys), "wrong"), at).at

    assert place("settings", "target") == (*at, "settings", "target", 1)
    assert place("name") == (*at, "name")
    elsewhere = Complaint(("hosts",), "wrong")
    assert second.pointed(elsewhere, at) == elsewhere


def test_what_is_no_table_is_one_alternative() -> None:
    assert tables(3) == [3]
    assert count_of(3) == 1
