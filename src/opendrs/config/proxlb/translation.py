"""Result of a translation: tables of OpenDRS, and the result for each setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from opendrs.config.diagnostics import Diagnostic, KeyPath

Tables = dict[str, Any]


class ImportStatus(StrEnum):
    """Result for a setting of another program. The values are stable."""

    TAKEN = "taken"
    """OpenDRS does the same, by the setting that is named or without any."""
    DIFFERS = "differs"
    """The closest setting of OpenDRS was set; the detail states the difference."""
    UNSUPPORTED = "unsupported"
    """OpenDRS has no such setting; the detail states what to do instead."""


@dataclass(frozen=True, slots=True)
class ImportedSetting:
    """One setting of the imported file.

    Attributes:
        path: Its path in that file.
        status: The result.
        target: Setting of OpenDRS, with its value; empty if there is none.
        detail: Difference, or what to do, for the operator; empty if there is none.
    """

    path: KeyPath
    status: ImportStatus
    target: str = ""
    detail: str = ""


@dataclass(slots=True)
class Translation:
    """Configuration of OpenDRS that is built up, setting by setting.

    Attributes:
        platform: Table of the platform.
        policy: Settings of the policy `optimize`.
        limits: Table `[limits]`.
        controller: Table `[controller]`.
        rules: Tables `[[rules]]`.
        secret: Name and content of the file with the secret; the name is that of its
            setting, `token` or `password`.
        settings: All imported settings.
        problems: Errors in values that have the right type.
    """

    platform: Tables = field(default_factory=dict)
    policy: Tables = field(default_factory=dict)
    limits: Tables = field(default_factory=dict)
    controller: Tables = field(default_factory=dict)
    rules: list[Tables] = field(default_factory=list)
    secret: tuple[str, str] = ("", "")
    settings: list[ImportedSetting] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)

    def taken(self, path: KeyPath, target: str = "", detail: str = "") -> None:
        """Add a setting that OpenDRS takes over."""
        self._add(path, ImportStatus.TAKEN, target, detail)

    def differs(self, path: KeyPath, target: str, detail: str) -> None:
        """Add a setting for which OpenDRS has a similar one, or behaves differently."""
        self._add(path, ImportStatus.DIFFERS, target, detail)

    def unsupported(self, path: KeyPath, detail: str) -> None:
        """Add a setting that OpenDRS does not have."""
        self._add(path, ImportStatus.UNSUPPORTED, "", detail)

    def _add(
        self, path: KeyPath, status: ImportStatus, target: str, detail: str
    ) -> None:
        self.settings.append(ImportedSetting(path, status, target, detail))


def present_settings(section: BaseModel, name: str) -> Iterator[tuple[str, KeyPath]]:
    """Yield each field of *section* that the file has, with its path in the file."""
    for field_name, info in type(section).model_fields.items():
        if field_name in section.model_fields_set:
            yield field_name, (name, info.alias or field_name)
