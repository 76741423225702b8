"""The lists of banned words."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

WORDS = Path(__file__).parent / "words.toml"


@dataclass(frozen=True)
class BannedName:
    """A word that must not be part of a name.

    Attributes:
        word: The word, or several parts joined by "_".
        use: The term that replaces it.
        exempt: Paths below the package or the tests where it is allowed.
    """

    word: str
    use: str
    exempt: tuple[str, ...] = ()


@cache
def banned_names() -> Mapping[str, BannedName]:
    """Return the words that must not be part of a name."""
    entries = tomllib.loads(WORDS.read_text(encoding="utf-8"))["identifiers"]
    return {word: _banned_name(word, entry) for word, entry in entries.items()}


def _banned_name(word: str, entry: str | dict[str, object]) -> BannedName:
    if isinstance(entry, str):
        return BannedName(word, entry)
    exempt = entry["except"]
    assert isinstance(exempt, list)
    return BannedName(word, str(entry["use"]), tuple(map(str, exempt)))


@cache
def banned_phrases() -> Mapping[str, str]:
    """Return the phrases that must not be in prose, with what replaces them."""
    entries = tomllib.loads(WORDS.read_text(encoding="utf-8"))["prose"]
    return {str(phrase): str(use) for phrase, use in entries.items()}
