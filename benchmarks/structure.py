"""Figures about the structure of the source code.

    python benchmarks/structure.py
    python benchmarks/structure.py --root ../other-checkout --format json

The figures are about the package below ``src/opendrs``. The size of a function is its
number of lines from ``def`` to the end, without decorators and docstring; nested
functions are part of the function around them, and counted by themselves as well.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/opendrs")
VAGUE_FIRST_WORDS = ("What", "Who", "How", "Whether", "Where", "Which")
COUNTED_FIRST_WORDS = ("What", "Who", "How", "Whether", "Where")

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Documented: TypeAlias = ast.Module | ast.ClassDef | Function


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A Python file that was read and parsed.

    Attributes:
        path: The path below the root, with forward slashes.
        text: The content.
        tree: The syntax tree.
    """

    path: str
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> Sequence[ast.AST]:
        """All nodes of the syntax tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines of the text, without line ends."""
        return self.text.splitlines()

    @cached_property
    def docstrings(self) -> Sequence[ast.Constant]:
        """The nodes of all docstrings, in no particular order."""
        found = (
            docstring_node(node) for node in self.nodes if isinstance(node, Documented)
        )
        return tuple(node for node in found if node is not None)

    @property
    def functions(self) -> Iterator[Function]:
        """All functions and methods, nested ones included."""
        return (node for node in self.nodes if isinstance(node, Function))

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        """All classes, nested ones included."""
        return (node for node in self.nodes if isinstance(node, ast.ClassDef))


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures about a package.

    Attributes:
        files: Number of modules.
        lines: Number of lines.
        import_lines: Number of lines of import statements.
        module_median: Median number of lines of a module.
        module_p90: 90th percentile of the number of lines of a module.
        function_median: Median number of lines of a function.
        function_p90: 90th percentile of the number of lines of a function.
        depth: Greatest number of folders between the package and a module.
        duplicate_classes: Number of class names that are defined more than once.
        vague_docstrings: Number of docstrings that begin with one of
            `COUNTED_FIRST_WORDS`.
    """

    files: int
    lines: int
    import_lines: int
    module_median: float
    module_p90: float
    function_median: float
    function_p90: float
    depth: int
    duplicate_classes: int
    vague_docstrings: int


def read_source(path: Path, root: Path) -> SourceFile:
    """Return the parsed file at *path*, named relative to *root*."""
    text = path.read_text(encoding="utf-8")
    return SourceFile(path.relative_to(root).as_posix(), text, ast.parse(text))


def read_sources(folders: Iterable[str], root: Path) -> Iterator[SourceFile]:
    """Yield the parsed Python files below *folders*, in order of their paths.

    Do not keep all of them: the garbage collector visits each node again and again.
    """
    paths = (path for folder in folders for path in (root / folder).rglob("*.py"))
    for path in sorted(paths):
        yield read_source(path, root)


def docstring_node(node: Documented) -> ast.Constant | None:
    """Return the node of the docstring of *node*; None when there is none."""
    if not node.body or not isinstance(node.body[0], ast.Expr):
        return None
    value = node.body[0].value
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value
    return None


def docstring_text(node: ast.Constant) -> str:
    """Return the text of a docstring."""
    assert isinstance(node.value, str)  # noqa: S101 -- as docstrings are
    return node.value


def first_word(text: str) -> str:
    """Return the first word of *text*, without punctuation; empty when none."""
    words = text.split(maxsplit=1)
    return words[0].rstrip(",.:;") if words else ""


def end_line(node: ast.stmt | ast.expr) -> int:
    """Return the last line of *node*."""
    return node.lineno if node.end_lineno is None else node.end_lineno


def function_size(node: Function) -> int:
    """Return the number of lines of a function without decorators and docstring."""
    size = end_line(node) - node.lineno + 1
    docstring = docstring_node(node)
    if docstring is not None:
        size -= end_line(docstring) - docstring.lineno + 1
    return size


def import_lines(source: SourceFile) -> int:
    """Return the number of lines of the import statements of a file."""
    return sum(
        end_line(node) - node.lineno + 1
        for node in source.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def folder_depth(path: str) -> int:
    """Return the number of folders between the package and the file at *path*."""
    return len(Path(path).relative_to(PACKAGE).parts) - 1


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which the *share* of *values* lies, interpolated.

    Args:
        values: The values; 0 is returned when there are none.
        share: A ratio in [0, 1].
    """
    ordered = sorted(values)
    if not ordered:
        return 0.0
    position = share * (len(ordered) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    return below + (position - math.floor(position)) * (above - below)


def measure(root: Path = ROOT) -> Figures:
    """Return the figures of the package below *root*."""
    modules: list[int] = []
    functions: list[int] = []
    imports = depth = vague = 0
    classes: Counter[str] = Counter()
    for source in read_sources([str(PACKAGE)], root):
        modules.append(len(source.lines))
        functions += map(function_size, source.functions)
        classes.update(node.name for node in source.classes)
        imports += import_lines(source)
        depth = max(depth, folder_depth(source.path))
        words = (first_word(docstring_text(node)) for node in source.docstrings)
        vague += sum(word in COUNTED_FIRST_WORDS for word in words)
    return Figures(
        files=len(modules),
        lines=sum(modules),
        import_lines=imports,
        module_median=percentile(modules, 0.5),
        module_p90=percentile(modules, 0.9),
        function_median=percentile(functions, 0.5),
        function_p90=percentile(functions, 0.9),
        depth=depth,
        duplicate_classes=sum(count > 1 for count in classes.values()),
        vague_docstrings=vague,
    )


LABELS = {
    "files": "files",
    "lines": "lines",
    "import_lines": "lines of imports",
    "module_median": "lines of a module, median",
    "module_p90": "lines of a module, 90th percentile",
    "function_median": "lines of a function, median",
    "function_p90": "lines of a function, 90th percentile",
    "depth": "folders below the package, most",
    "duplicate_classes": "class names defined twice or more",
    "vague_docstrings": f"docstrings that begin with {'/'.join(COUNTED_FIRST_WORDS)}",
}


def print_table(figures: Figures) -> None:
    """Print one line for each figure."""
    width = max(map(len, LABELS.values()))
    for name, label in LABELS.items():
        print(f"{label:{width}}  {getattr(figures, name):>8}")


def main() -> None:
    """Print the figures as a table or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="the checkout (default: this one)"
    )
    parser.add_argument("--format", choices=["table", "json"], default="table")
    options = parser.parse_args()
    figures = measure(options.root.resolve())
    if options.format == "json":
        print(json.dumps(vars(figures), indent=2))
    else:
        print_table(figures)


if __name__ == "__main__":
    main()
