"""Tables in which a list stands where one value would: every way to choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from opendrs.platforms.file import Complaint, Location


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to choose.

    Attributes:
        table: The table, with one value for each list.
        chosen: The values for which there were others, by their keys joined with
            dots.
        indices: Where in its list each value stands, by its keys.
    """

    table: object
    chosen: Mapping[str, object]
    indices: Mapping[tuple[str, ...], int]

    def pointed(self, complaint: Complaint, at: Location) -> Complaint:
        """Return *complaint* with the place of the value in its list.

        Args:
            complaint: About this alternative.
            at: Where the table is.
        """
        if complaint.at[: len(at)] != at:
            return complaint
        rest = complaint.at[len(at) :]
        for keys, index in self.indices.items():
            if rest[: len(keys)] == keys:
                place = (*at, *keys, index, *rest[len(keys) :])
                return replace(complaint, at=place)
        return complaint


def is_axis(key: str, value: list[object]) -> bool:
    """Return whether a list holds alternatives, and is not itself one value."""
    if key == "kinds":
        return False
    if key == "watts":
        return all(isinstance(each, list) for each in value)
    if key == "apart":
        return all(isinstance(each, int) for each in value)
    return True


def alternatives(table: object, nested: Sequence[str] = ()) -> Iterator[Alternative]:
    """Yield every way to choose from the lists in *table*; the last key turns first.

    Args:
        table: What is read; all that is no table is one alternative.
        nested: Keys of tables in it whose lists count too.
    """
    if not isinstance(table, Mapping):
        yield Alternative(table, {}, {})
        return
    axes = _axes(table, nested)
    for indices in product(*(range(len(values)) for values in axes.values())):
        picked = dict(zip(axes, indices, strict=True))
        values = {keys: axes[keys][index] for keys, index in picked.items()}
        yield Alternative(
            _replaced(table, values),
            {
                ".".join(keys): value
                for keys, value in values.items()
                if len(axes[keys]) > 1
            },
            picked,
        )


def count_of(table: object, nested: Sequence[str] = ()) -> int:
    """Return how many alternatives there are, without making them."""
    total = 1
    if isinstance(table, Mapping):
        for values in _axes(table, nested).values():
            total *= len(values)
    return total


def _axes(
    table: Mapping[str, object], nested: Sequence[str]
) -> dict[tuple[str, ...], list[object]]:
    found: dict[tuple[str, ...], list[object]] = {}
    for key, value in table.items():
        if key in nested and isinstance(value, Mapping):
            inner = _axes(value, ())
            found |= {(key, *keys): values for keys, values in inner.items()}
        # A list without values is told by whoever expects one.
        elif isinstance(value, list) and value and is_axis(key, value):
            found[(key,)] = value
    return found


def _replaced(
    table: Mapping[str, object], values: Mapping[tuple[str, ...], object]
) -> dict[str, object]:
    made = dict(table)
    for (key, *inner), value in values.items():
        if inner:
            below = made[key]
            assert isinstance(below, Mapping)  # noqa: S101 - it was looked into
            made[key] = {**below, inner[0]: value}
        else:
            made[key] = value
    return made
