"""The settings of a configuration with their origin, and with secrets masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opendrs.config import KeyPath, display_path, parse, path_text, read_text
from opendrs.config.setting_lines import line_of, setting_lines
from opendrs.config.settings import Settings

Document = dict[str, Any]

MASK = "***"
_SECRETS = frozenset({"pass", "password", "secret", "token"})
_SECRET_ADDRESSES = frozenset({"notifications"})  # tables whose `url` is a secret
_USER_INFO = re.compile(r"(?<=://)[^/?#@\s]*@")


def setting_documents(settings: Settings, path: Path | None) -> list[Document]:
    """Return all settings of the file *path*, and the defaults beside them.

    Args:
        settings: The settings that were read from it.
        path: The file; None if there is none.

    Returns:
        For each setting `path`, `value`, `default` (true if the file does not set it),
        `file` and `line`; the line is None for JSON and for defaults.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    given: dict[KeyPath, object] = {}
    lines: dict[KeyPath, int] = {}
    if path is not None:
        text, suffix = read_text(path), ".json" if path.suffix == ".json" else ".toml"
        given = dict(_leaves(parse(text, display_path(path), suffix)))
        lines = setting_lines(text) if suffix == ".toml" else {}
    defaults = {
        key: value
        for key, value in _leaves(_effective(settings))
        if not _is_given(key, given)
    }
    return [
        {
            "path": path_text(key),
            "value": _masked(key, value),
            "default": key in defaults,
            "file": None if key in defaults or path is None else display_path(path),
            "line": None if key in defaults else line_of(key, lines),
        }
        for key, value in [*given.items(), *defaults.items()]
    ]


def _effective(settings: Settings) -> object:
    """Return the tables that have defaults as plain values."""
    tables: dict[str, Any] = {
        "controller": asdict(settings.controller),
        "limits": asdict(settings.limits),
        "protection": asdict(settings.protection),
    }
    policies = {}
    for name in settings.controller_policies:
        values = asdict(settings.load_policy(name))  # type: ignore[call-overload]  # a dataclass
        policies[name] = {key: part for key, part in values.items() if key != "limits"}
    tables["policy"] = {"name": settings.policy, **policies}
    return json.loads(json.dumps(tables, default=str))


def _leaves(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield the path and the value of each setting; a list of values is one setting."""
    if isinstance(value, Mapping) and (value or not path):
        for key, part in value.items():
            yield from _leaves(part, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        for index, part in enumerate(value):
            yield from _leaves(part, (*path, index))
    else:
        yield path, value


def _is_given(path: KeyPath, given: Mapping[KeyPath, object]) -> bool:
    """Return True if the file sets *path*, a part of it, or what contains it."""
    return any(key[: len(path)] == path or path[: len(key)] == key for key in given)


def _masked(path: KeyPath, value: object) -> object:
    """Return *value* without secrets."""
    name = str(path[-1]) if path else ""
    if name in _SECRETS or (name == "url" and path[0] in _SECRET_ADDRESSES):
        return MASK
    if isinstance(value, str):
        return _USER_INFO.sub(f"{MASK}@", value)
    if isinstance(value, list):
        return [_masked(path, part) for part in value]
    return value if isinstance(value, int | float | bool | None) else str(value)
