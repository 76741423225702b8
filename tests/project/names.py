"""Checks of names: banned words in names, class names that are defined twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from project.sources import Finding, string_of
from project.words import BannedName
from structure import SourceFile

NAME_CHECK = "banned-name"
CLASS_CHECK = "duplicate-class"
CHANGE_OF_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
SEPARATORS = re.compile(r"[_\-]+")
CODE = re.compile(r"(--)?[a-z][a-z0-9]*([_-][a-z0-9]+)*")
COMPOUND = re.compile(r"[_-]")
PLACES = re.compile(r"^(src/opendrs/|tests/unit/|tests/)")
LOOKUPS = ("get", "pop", "setdefault")


class ClassPlace(NamedTuple):
    """The place of a class definition."""

    name: str
    path: str
    line: int


def banned_parts(name: str, words: Mapping[str, BannedName]) -> tuple[BannedName, ...]:
    """Return the banned words in *name*, also in the plural."""
    parts = name_parts(name)
    joined = f"_{'_'.join(parts)}_"
    single = [words.get(part) or words.get(part.removesuffix("s")) for part in parts]
    several = (
        word
        for word in words.values()
        if "_" in word.word and re.search(f"_{word.word}s?_", joined)
    )
    return (*dict.fromkeys(word for word in single if word is not None), *several)


def name_parts(name: str) -> list[str]:
    """Return the parts of *name* between "_", "-" and changes of case, lowered."""
    split = CHANGE_OF_CASE.sub("_", name)
    return [part for part in SEPARATORS.split(split.lower()) if part]


def is_exempt(word: BannedName, path: str) -> bool:
    """Return whether *word* is a term of the platform in the file at *path*."""
    below = PLACES.sub("", path).removesuffix(".py")
    return any(below == each or below.startswith(f"{each}/") for each in word.exempt)


def definitions(source: SourceFile) -> Iterator[tuple[str, int]]:
    """Yield each name that a file defines, with its line."""
    path = Path(source.path)
    yield path.parent.name if path.stem == "__init__" else path.stem, 0
    for node in source.nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno
            case ast.ExceptHandler(name=str(name)):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno


def public_names(source: SourceFile) -> Iterator[tuple[str, int]]:
    """Yield each string that looks like a public name or code, with its line.

    These are strings of several parts such as `step-finished` and `--each-node`; and
    strings of one part where they are keys, options or values of an enumeration.
    """
    docstrings = set(map(id, source.docstrings))
    for node in source.nodes:
        text = string_of(node)
        if text is None or id(node) in docstrings or not CODE.fullmatch(text):
            continue
        if COMPOUND.search(text):
            yield text, _line(node)
    for key in _keys(source.nodes):
        text = string_of(key)
        if text is not None and CODE.fullmatch(text) and not COMPOUND.search(text):
            yield text, _line(key)


def _keys(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes that are keys or values of an enumeration."""
    for node in nodes:
        match node:
            case ast.Dict():
                yield from (key for key in node.keys if key is not None)
            case ast.Subscript():
                yield node.slice
            case ast.Call(func=ast.Attribute(attr=name)) if name in LOOKUPS:
                yield from node.args[:1]
            case ast.ClassDef() if _is_enumeration(node):
                yield from (
                    each.value for each in node.body if isinstance(each, ast.Assign)
                )


def _is_enumeration(node: ast.ClassDef) -> bool:
    return any("Enum" in ast.unparse(base) for base in node.bases)


def _line(node: Any) -> int:  # noqa: ANN401 -- not all nodes have one
    return int(node.lineno)


def names_in(source: SourceFile) -> Iterator[tuple[str, int]]:
    """Yield the names that a file defines, and in the package those it publishes."""
    yield from definitions(source)
    if source.path.startswith("src/"):
        yield from public_names(source)


def banned_names_in(
    source: SourceFile, words: Mapping[str, BannedName]
) -> Iterator[Finding]:
    """Yield the first use of each name with a banned word in a file."""
    first_lines: dict[str, int] = {}
    for name, line in names_in(source):
        first_lines[name] = min(line, first_lines.get(name, line))
    for name, line in first_lines.items():
        for word in banned_parts(name, words):
            if not is_exempt(word, source.path):
                detail = f'"{word.word}" is "{word.use}"'
                yield Finding(source.path, line, NAME_CHECK, name, detail)


def duplicate_classes(places: Iterable[ClassPlace]) -> Iterator[Finding]:
    """Yield each class whose name another class has."""
    by_name: dict[str, list[ClassPlace]] = {}
    for place in places:
        by_name.setdefault(place.name, []).append(place)
    for name, found in by_name.items():
        for place in found if len(found) > 1 else ():
            detail = f"{len(found)} classes of the package have this name"
            yield Finding(place.path, place.line, CLASS_CHECK, name, detail)


def class_places(source: SourceFile) -> Iterator[ClassPlace]:
    """Yield the classes that a file defines, nested and private ones included."""
    for node in source.classes:
        yield ClassPlace(node.name, source.path, node.lineno)
