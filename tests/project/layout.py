"""Checks of the structure: depth of folders, size of modules and functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from project.sources import Finding
from structure import SourceFile, folder_depth, function_size

DEPTH_CHECK = "folder-depth"
LONG_MODULE_CHECK = "long-module"
SHORT_MODULE_CHECK = "short-module"
LONG_FUNCTION_CHECK = "long-function"

DEEPEST = 3
LONGEST_MODULE = 400
SHORTEST_MODULE = 60
LONGEST_FUNCTION = 40
WITHOUT_MINIMUM = ("__init__", "__main__")


def layout_findings(source: SourceFile) -> Iterator[Finding]:
    """Yield the findings about a module of the package.

    The size of a function is without its decorators and its docstring.
    """
    module, depth, size = source.path, folder_depth(source.path), len(source.lines)
    name = Path(source.path).stem
    if depth > DEEPEST:
        detail = f"{depth} folders deep; at most {DEEPEST}"
        yield Finding(module, 0, DEPTH_CHECK, name, detail)
    if size > LONGEST_MODULE:
        detail = f"{size} lines; at most {LONGEST_MODULE}"
        yield Finding(module, 0, LONG_MODULE_CHECK, name, detail)
    if size < SHORTEST_MODULE and name not in WITHOUT_MINIMUM:
        detail = f"{size} lines; at least {SHORTEST_MODULE}"
        yield Finding(module, 0, SHORT_MODULE_CHECK, name, detail)
    for node in source.functions:
        lines = function_size(node)
        if lines > LONGEST_FUNCTION:
            detail = f"{lines} lines; at most {LONGEST_FUNCTION}"
            yield Finding(module, node.lineno, LONG_FUNCTION_CHECK, node.name, detail)
