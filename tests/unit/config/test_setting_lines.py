"""Lines of settings in a TOML file."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from opendrs.config.setting_lines import line_of, setting_lines

TEXT = '''# limits.cooldown = 1
title = """first
limits = 2
"""
[limits] # [policy]
cooldown = 5
"memory_headroom"=0.1

[policy.balance]
threshold = 0.2
x.y = { a = 1, b = "}" }
list = [
  1, # ]
  "]",
]
last = 'x'
[[notifications]]
kind = "webhook"
[[notifications]]
kind = "email"
[notifications.sub]
q = 1
[platform."my lab"]
k = 2
'''


def value_at(document: Any, path: tuple[str | int, ...]) -> Any:  # noqa: ANN401
    for part in path:
        document = document[part]
    return document


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("limits",), 5),
        (("limits", "cooldown"), 6),
        (("limits", "memory_headroom"), 7),
        (("policy", "balance", "threshold"), 10),
        (("policy", "balance", "x", "y"), 11),
        (("policy", "balance", "list"), 12),
        (("policy", "balance", "last"), 16),
        (("notifications", 0, "kind"), 18),
        (("notifications", 1, "kind"), 20),
        (("notifications", 1, "sub", "q"), 22),
        (("platform", "my lab", "k"), 24),
    ],
)
def test_setting_has_its_line(path: tuple[str | int, ...], line: int) -> None:
    assert setting_lines(TEXT)[path] == line


def test_every_listed_setting_exists() -> None:
    document = tomllib.loads(TEXT)

    for path in setting_lines(TEXT):
        value_at(document, path)


def test_part_of_an_inline_table_has_the_line_of_the_table() -> None:
    lines = setting_lines(TEXT)

    assert line_of(("policy", "balance", "x", "y", "a"), lines) == 11
    assert line_of(("protection", "noise"), lines) is None
