"""The words of commands, and the variables in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

_PART = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


def variables_in(words: Iterable[str]) -> Iterator[str]:
    """Yield the names of the variables in *words*."""
    for word in words:
        for part in _PART.finditer(word):
            if part[1] is not None:
                yield part[1]


def filled(words: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return *words* with *values* in place of their variables.

    A word stays one word, whatever a value holds. Two braces stand for one.
    """

    def value(part: re.Match[str]) -> str:
        return part[0][0] if part[1] is None else values[part[1]]

    return tuple(_PART.sub(value, word) for word in words)
