"""The files of the project, findings in them, and the listed exceptions."""

from __future__ import annotations

import ast
import fnmatch
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from structure import SourceFile, read_sources

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "tests", "benchmarks", "docs")
EXCEPTIONS = Path(__file__).parent / "exceptions.toml"
MOST_SHOWN = 200


@dataclass(frozen=True, order=True)
class Finding:
    """A place where a check found something.

    Attributes:
        path: The path of the file below the root of the project.
        line: The number of the line; 0 for the file as a whole.
        check: The code of the check.
        name: The name, word or phrase that was found; it is what exceptions name.
        detail: The reason in words.
    """

    path: str
    line: int
    check: str
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.check}: {self.name}: {self.detail}"


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """An entry of exceptions.toml: findings that are accepted.

    Attributes:
        check: The code of the check.
        path: The path of the file below the root of the project, or a pattern.
        name: The name that is accepted; None for all names in the file.
        reason: The reason, one sentence.
    """

    check: str
    path: str
    name: str | None = None
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Return whether the entry accepts *finding*."""
        return (
            finding.check == self.check
            and self.name in (None, finding.name)
            and fnmatch.fnmatchcase(finding.path, self.path)
        )


def python_files() -> Iterator[SourceFile]:
    """Yield all Python files of the project, parsed."""
    return read_sources(FOLDERS, ROOT)


def markdown_files() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each Markdown file of the project."""
    folders = [ROOT / folder for folder in FOLDERS]
    below = (path for folder in folders for path in folder.rglob("*.md"))
    for path in sorted({*ROOT.glob("*.md"), *below}):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


@cache
def exceptions() -> Sequence[Accepted]:
    """Return the entries of exceptions.toml."""
    document = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8"))
    return tuple(Accepted(**entry) for entry in document.get("exceptions", []))


def assert_none_remain(findings: Iterable[Finding]) -> None:
    """Assert that exceptions accept all of *findings*; list the others."""
    remaining = sorted(
        each
        for each in findings
        if not any(entry.covers(each) for entry in exceptions())
    )
    shown = "\n".join(map(str, remaining[:MOST_SHOWN]))
    assert not remaining, f"{len(remaining)} findings:\n{shown}"


def string_of(node: ast.AST) -> str | None:
    """Return the text of a string constant; None for other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None
