"""Names: no banned words, no class name that is defined twice."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from project.findings import findings_of
from project.names import (
    CLASS_CHECK,
    NAME_CHECK,
    banned_names_in,
    banned_parts,
    class_places,
    duplicate_classes,
    is_exempt,
    name_parts,
)
from project.sources import ROOT, assert_none_remain
from project.words import BannedName, banned_names, banned_phrases
from structure import SourceFile

SHARED = Path(os.environ.get("OPENDRS_SHARED") or ROOT.parent / "shared")
DESIGN_LIST = SHARED / "design" / "banned-words.txt"
EXCEPT = " ; except "


def source_file(text: str, path: str = "src/opendrs/model/example.py") -> SourceFile:
    """Return a file with this content."""
    return SourceFile(path, text, ast.parse(text))


def found_names(text: str, *words: str) -> list[str]:
    """Return the names in *text* that have one of *words* as a part."""
    banned = {word: BannedName(word, "another") for word in words}
    return [each.name for each in banned_names_in(source_file(text), banned)]


def test_names_of_the_project_have_no_banned_words() -> None:
    assert_none_remain(findings_of(NAME_CHECK))


def test_class_names_of_the_package_are_unique() -> None:
    assert_none_remain(findings_of(CLASS_CHECK))


@pytest.mark.shared
@pytest.mark.skipif(not DESIGN_LIST.exists(), reason=f"there is no {DESIGN_LIST}")
def test_words_are_those_of_the_design() -> None:
    names: dict[str, BannedName] = {}
    phrases: dict[str, str] = {}
    section = ""
    for line in DESIGN_LIST.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        word, _, rest = line.partition(" -> ")
        use, _, paths = rest.partition(EXCEPT)
        if section == "prose":
            phrases[word] = use
        else:
            exempt = tuple(each.strip() for each in paths.split(",") if each)
            names[word] = BannedName(word, use, exempt)

    assert banned_names() == names
    assert banned_phrases() == phrases


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("moves_at_once", ["moves", "at", "once"]),
        ("--log-level", ["log", "level"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("_NodeQueue2", ["node", "queue2"]),
        ("SLAV", ["slav"]),
    ],
)
def test_name_parts_split_at_separators_and_changes_of_case(
    name: str, parts: list[str]
) -> None:
    assert name_parts(name) == parts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("red_hat", ("red",)),
        ("RedHats", ("red",)),
        ("reds", ("red",)),
        ("redo", ()),
        ("old_hats", ("old_hat",)),
        ("older_hat", ()),
    ],
)
def test_banned_parts_match_whole_parts_and_plurals(
    name: str, expected: tuple[str, ...]
) -> None:
    words = {word: BannedName(word, "blue") for word in ("red", "old_hat")}

    assert tuple(each.word for each in banned_parts(name, words)) == expected


def test_banned_names_in_definitions_of_each_kind_are_found() -> None:
    text = """
import numpy as red_numpy

class RedClass:
    red_field: int = 0

    def red_method(self, red_parameter):
        red_local = self.red_attribute = 1
        for red_item in ():
            pass
        try:
            pass
        except ValueError as red_error:
            pass
        match red_local:
            case [red_first, *red_rest]:
                pass
"""

    assert set(found_names(text, "red")) == {
        *("red_numpy", "RedClass", "red_field", "red_method", "red_parameter"),
        *("red_local", "red_attribute", "red_item", "red_error", "red_first"),
        "red_rest",
    }


def test_banned_names_in_public_strings_are_found() -> None:
    text = """
class Code(StrEnum):
    FIRST = "red"

record = {"reds": 1, "blue": record["red"], "green": record.get("red")}
option("--red-hat", help="a red hat")
"""

    assert set(found_names(text, "red")) == {"red", "reds", "--red-hat"}


def test_banned_names_of_others_are_not_found() -> None:
    text = "from paint import red\n\nred(red=red.red, text='red', more='the red-hat')\n"

    assert found_names(text, "red") == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/opendrs/paint/red.py", True),
        ("src/opendrs/paint.py", True),
        ("tests/unit/paint/test_red.py", True),
        ("tests/paint/test_red.py", True),
        ("src/opendrs/painting/red.py", False),
        ("src/opendrs/other/paint.py", False),
    ],
)
def test_is_exempt_holds_below_the_listed_paths(path: str, *, expected: bool) -> None:
    assert is_exempt(BannedName("red", "blue", ("paint",)), path) is expected


def test_duplicate_classes_in_two_files_are_both_found() -> None:
    first = source_file("class _A: ...\n\nclass B:\n    class C: ...\n", "one.py")
    second = source_file("class _A: ...\n\nclass C: ...\n", "two.py")

    found = duplicate_classes([*class_places(first), *class_places(second)])

    assert [(each.path, each.line, each.name) for each in found] == [
        ("one.py", 1, "_A"),
        ("two.py", 1, "_A"),
        ("one.py", 4, "C"),
        ("two.py", 3, "C"),
    ]
