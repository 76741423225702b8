"""Lists are expanded to their values, unless they are values themselves."""

from __future__ import annotations

from opendrs.config import Diagnostic, DiagnosticCode, KeyPath
from opendrs.simulation.sweep.grid_expansion import count_alternatives, expand_table


def tables(value: object, *nested: str) -> list[object]:
    return [each.table for each in expand_table(value, nested)]


def test_combinations_vary_last_key_first() -> None:
    table = {"a": [1, 2], "b": "x", "c": [3, 4]}

    assert tables(table) == [
        {"a": 1, "b": "x", "c": 3},
        {"a": 1, "b": "x", "c": 4},
        {"a": 2, "b": "x", "c": 3},
        {"a": 2, "b": "x", "c": 4},
    ]
    assert count_alternatives(table) == 4


def test_lists_in_nested_tables_are_expanded() -> None:
    table = {"name": "x", "settings": {"target": [0.5, 0.6]}}

    assert tables(table) == [table]
    assert tables(table, "settings") == [
        {"name": "x", "settings": {"target": 0.5}},
        {"name": "x", "settings": {"target": 0.6}},
    ]
    assert (count_alternatives(table), count_alternatives(table, ["settings"])) == (
        1,
        2,
    )


def test_list_valued_setting_is_not_expanded() -> None:
    watts, groups, kinds = [9.0, 10.0], [["a", "b"], ["c", "d"]], [{"mips": 1}]
    table = {"watts": watts, "anti_affinity_groups": groups, "kinds": kinds}

    assert tables(table) == [table]


def test_lists_of_such_values_are_alternatives() -> None:
    assert tables({"watts": [[9.0, 10.0], [1.0, 2.0]]}) == [
        {"watts": [9.0, 10.0]},
        {"watts": [1.0, 2.0]},
    ]
    assert tables({"anti_affinity_groups": [0, 5]}) == [
        {"anti_affinity_groups": 0},
        {"anti_affinity_groups": 5},
    ]


def test_chosen_values_are_named() -> None:
    table = {"name": ["x"], "max_guests": [1, 2], "settings": {"target": [0.5, 0.6]}}

    chosen = [dict(each.chosen) for each in expand_table(table, ["settings"])]

    assert chosen[1] == {"max_guests": 1, "settings.target": 0.6}


def test_diagnostic_has_index_of_value() -> None:
    table = {"settings": {"target": [0.5, 9]}, "name": "x"}
    second = list(expand_table(table, ["settings"]))[1]
    location = ("policies", 0)

    def diagnostic(path: KeyPath) -> Diagnostic:
        return Diagnostic(path, "wrong", code=DiagnosticCode.OUT_OF_RANGE)

    def path_of(*keys: str) -> KeyPath:
        return second.with_list_index(diagnostic((*location, *keys)), location).path

    assert path_of("settings", "target") == (*location, "settings", "target", 1)
    assert path_of("name") == (*location, "name")
    elsewhere = diagnostic(("hosts",))
    assert second.with_list_index(elsewhere, location) == elsewhere


def test_plain_value_is_one_alternative() -> None:
    assert tables(3) == [3]
    assert count_alternatives(3) == 1
