"""Expansion of lists in tables to all combinations of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Generic, TypeVar

from opendrs.config import Diagnostic, KeyPath
from opendrs.simulation.scenario.parsing import ScenarioParser


@dataclass(frozen=True, slots=True)
class Alternative:
    """One combination of values.

    Attributes:
        table: The table, with one value for each list.
        chosen: The values chosen from lists of several, by their keys joined with
            dots.
        indices: Index of each value in its list, by its keys.
    """

    table: object
    chosen: Mapping[str, object]
    indices: Mapping[tuple[str, ...], int]

    def with_list_index(self, diagnostic: Diagnostic, location: KeyPath) -> Diagnostic:
        """Return *diagnostic* with the index of the value in its list.

        Args:
            diagnostic: Error about this combination.
            location: Key path of the table.
        """
        if diagnostic.path[: len(location)] != location:
            return diagnostic
        rest = diagnostic.path[len(location) :]
        for keys, index in self.indices.items():
            if rest[: len(keys)] == keys:
                path = (*location, *keys, index, *rest[len(keys) :])
                return replace(diagnostic, path=path)
        return diagnostic


def is_axis(key: str, value: list[object]) -> bool:
    """Return True if a list contains alternatives and is not itself one value."""
    if key == "kinds":
        return False
    if key == "watts":
        return all(isinstance(each, list) for each in value)
    if key == "anti_affinity_groups":
        return all(isinstance(each, int) for each in value)
    return True


def expand_table(table: object, nested: Sequence[str] = ()) -> Iterator[Alternative]:
    """Yield every combination of values in *table*; the last key varies fastest.

    Args:
        table: Parsed table; any other value is a single alternative.
        nested: Keys of tables in it whose lists are expanded too.
    """
    if not isinstance(table, Mapping):
        yield Alternative(table, {}, {})
        return
    axes = _axes(table, nested)
    for indices in product(*(range(len(values)) for values in axes.values())):
        chosen_indices = dict(zip(axes, indices, strict=True))
        values = {keys: axes[keys][index] for keys, index in chosen_indices.items()}
        yield Alternative(
            _with_values(table, values),
            {
                ".".join(keys): value
                for keys, value in values.items()
                if len(axes[keys]) > 1
            },
            chosen_indices,
        )


def count_alternatives(table: object, nested: Sequence[str] = ()) -> int:
    """Return the number of combinations without creating them."""
    total = 1
    if isinstance(table, Mapping):
        for values in _axes(table, nested).values():
            total *= len(values)
    return total


def _axes(
    table: Mapping[str, object], nested: Sequence[str]
) -> dict[tuple[str, ...], list[object]]:
    axes: dict[tuple[str, ...], list[object]] = {}
    for key, value in table.items():
        if key in nested and isinstance(value, Mapping):
            inner = _axes(value, ())
            axes |= {(key, *keys): values for keys, values in inner.items()}
        # An empty list is reported by the parser of the value.
        elif isinstance(value, list) and value and is_axis(key, value):
            axes[(key,)] = value
    return axes


def _with_values(
    table: Mapping[str, object], values: Mapping[tuple[str, ...], object]
) -> dict[str, object]:
    result = dict(table)
    for (key, *inner), value in values.items():
        if inner:
            nested = result[key]
            assert isinstance(nested, Mapping)  # noqa: S101 - checked by `_axes`
            result[key] = {**nested, inner[0]: value}
        else:
            result[key] = value
    return result


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParsedChoice(Generic[T]):
    """Parsed part of a run.

    Attributes:
        value: The part.
        location: Key path in the file.
        chosen: The values chosen from lists, by name.
    """

    value: T
    location: KeyPath
    chosen: Mapping[str, object] = field(default_factory=dict)


class GridParser(ScenarioParser):
    """Parser of a document in which lists are alternatives."""

    def parse_values(
        self, name: str, value: object, parse: Callable[[KeyPath, object], T | None]
    ) -> list[ParsedChoice[T]]:
        """Return every value of a field that contains one value or a list."""
        if not (isinstance(value, list) and value):
            parsed = parse((name,), value)
            return [] if parsed is None else [ParsedChoice(parsed, (name,))]
        several = len(value) > 1
        return [
            ParsedChoice(parsed, (name, index), {name: each} if several else {})
            for index, each in enumerate(value)
            if (parsed := parse((name, index), each)) is not None
        ]

    def parse_alternatives(
        self,
        location: KeyPath,
        value: object,
        parse: Callable[[KeyPath, object], T | None],
        nested: Sequence[str] = (),
    ) -> list[ParsedChoice[T]]:
        """Return every combination of a table, parsed."""
        return list(self._alternatives(location, value, parse, nested))

    def _alternatives(
        self,
        location: KeyPath,
        value: object,
        parse: Callable[[KeyPath, object], T | None],
        nested: Sequence[str],
    ) -> Iterator[ParsedChoice[T]]:
        for each in expand_table(value, nested):
            before = len(self.diagnostics)
            parsed = parse(location, each.table)
            self.diagnostics[before:] = [
                each.with_list_index(diagnostic, location)
                for diagnostic in self.diagnostics[before:]
            ]
            if parsed is not None:
                chosen = {
                    _choice_name(location, name): each.chosen[name]
                    for name in each.chosen
                }
                yield ParsedChoice(parsed, location, chosen)


def _choice_name(location: KeyPath, name: str) -> str:
    """Return the name of a value chosen in the only table at its key path."""
    return f"{location[0]}.{name}" if len(location) == 1 else name
