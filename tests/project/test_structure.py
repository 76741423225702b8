"""Structure of the package: depth of folders, size of modules and functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from project.findings import findings_of
from project.layout import (
    DEPTH_CHECK,
    LONG_FUNCTION_CHECK,
    LONG_MODULE_CHECK,
    SHORT_MODULE_CHECK,
    layout_findings,
)
from project.sources import assert_none_remain, python_files
from structure import SourceFile, measure, percentile

FITTING = "x = 1\n" * 100


def checks_of(text: str, path: str = "src/opendrs/model/example.py") -> list[str]:
    """Return the codes of the findings about a module."""
    source = SourceFile(path, text, ast.parse(text))
    return [each.check for each in layout_findings(source)]


def function(body_lines: int, docstring_lines: int = 1) -> str:
    """Return a function of one line for `def`, and these lines."""
    docstring = "\n    ".join(["text"] * docstring_lines)
    return f'def f():\n    """{docstring}"""\n' + "    x = 1\n" * body_lines


@pytest.mark.parametrize(
    "check", [DEPTH_CHECK, LONG_MODULE_CHECK, SHORT_MODULE_CHECK, LONG_FUNCTION_CHECK]
)
def test_structure_of_the_package_keeps_to_the_limits(check: str) -> None:
    assert_none_remain(findings_of(check))


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (FITTING, "src/opendrs/a/b/c/d.py", []),
        (FITTING, "src/opendrs/a/b/c/d/e.py", [DEPTH_CHECK]),
        ("x = 1\n" * 400, "src/opendrs/a.py", []),
        ("x = 1\n" * 401, "src/opendrs/a.py", [LONG_MODULE_CHECK]),
        ("x = 1\n" * 60, "src/opendrs/a.py", []),
        ("x = 1\n" * 59, "src/opendrs/a.py", [SHORT_MODULE_CHECK]),
        ("x = 1\n", "src/opendrs/a/__init__.py", []),
        (FITTING + function(39, docstring_lines=30), "src/opendrs/a.py", []),
        (FITTING + function(40), "src/opendrs/a.py", [LONG_FUNCTION_CHECK]),
    ],
)
def test_layout_beyond_a_limit_is_found(
    text: str, path: str, expected: list[str]
) -> None:
    assert checks_of(text, path) == expected


def test_steps_of_policies_are_made_by_planning() -> None:
    made = [
        f"{source.path}:{node.lineno}"
        for source in python_files()
        if source.path.startswith("src/opendrs/policies/")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"Step", "StepId"}
    ]

    assert made == []


def test_measure_of_a_package_counts_its_parts(tmp_path: Path) -> None:
    package = tmp_path / "src/opendrs"
    (package / "a/b").mkdir(parents=True)
    (package / "one.py").write_text('"""What it is."""\nimport os\n\nclass A: ...\n')
    (package / "a/b/two.py").write_text("from os import (\n    path\n)\nclass A: ...\n")

    figures = measure(tmp_path)

    assert figures.files == 2
    assert figures.lines == 8
    assert figures.import_lines == 4
    assert figures.depth == 2
    assert figures.duplicate_classes == 1
    assert figures.vague_docstrings == 1


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, 0), ([3, 1, 2], 0.5, 2), ([1, 2], 0.5, 1.5), ([0, 10], 0.9, 9)],
)
def test_percentile_interpolates(
    values: list[float], share: float, expected: float
) -> None:
    assert percentile(values, share) == pytest.approx(expected)
