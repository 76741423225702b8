"""Loading of a policy by name, with its settings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from opendrs.config.binding import TableBinder, unknown_name
from opendrs.config.diagnostics import KeyPath, raise_diagnostics
from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    InvalidSettingError,
    UnknownPolicyError,
)
from opendrs.escapes import repr_value
from opendrs.model import DEFAULT_LIMITS, Limits
from opendrs.policies import BUILT_IN_POLICIES, Policy

ENTRY_POINTS = "opendrs.policies"


def build_policy(
    name: str,
    values: Mapping[str, object] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Policy[Any]:
    """Return the policy *name* with the settings *values*.

    Args:
        name: A built-in policy, or one of the entry points `opendrs.policies`.
        values: Settings by name; absent settings have their defaults.
        limits: Limits of the operator for all policies.

    Raises:
        UnknownPolicyError: There is no policy *name*.
        InvalidSettingError: A setting is unknown or its value is invalid.
    """
    table = bind_policy(name, values or {}, limits)
    raise_diagnostics(f"policy {name}", table.diagnostics, InvalidSettingError)
    assert table.value is not None  # noqa: S101 - there are no diagnostics
    return table.value


def bind_policy(
    name: str, values: object, limits: Limits, at: KeyPath = ()
) -> TableBinder[Policy[Any]]:
    """Return the validated settings *values* of the policy *name*.

    Raises:
        UnknownPolicyError: There is no policy *name*.
    """
    return TableBinder(policy_type(name), values, at, preset={"limits": limits})


def policy_type(name: str) -> type[Policy[Any]]:
    """Return the class of the policy *name*.

    Raises:
        UnknownPolicyError: There is no policy *name*.
        ConfigurationError: Two packages provide it, or it cannot be loaded.
    """
    built_in = BUILT_IN_POLICIES.get(name)
    if built_in is not None:
        return built_in
    matching = [
        point for point in entry_points(group=ENTRY_POINTS) if point.name == name
    ]
    if not matching:
        known = {
            *BUILT_IN_POLICIES,
            *(point.name for point in entry_points(group=ENTRY_POINTS)),
        }
        raise UnknownPolicyError(
            f"{repr_value(name)}: {unknown_name('policy', name, known)}"
        )
    if len(matching) > 1:
        locations = " and ".join(sorted(point.value for point in matching))
        raise ConfigurationError(
            f"policy {name}: provided twice: {locations}",
            code=DiagnosticCode.DUPLICATE_NAME,
        )
    return _load_entry_point(matching[0])


def _load_entry_point(point: EntryPoint) -> type[Policy[Any]]:
    try:
        policy_class: type[Policy[Any]] = point.load()
    except Exception as error:  # an external package may raise any exception
        raise ConfigurationError(
            f"policy {point.name}: cannot load {point.value}: {error!r}",
            code=DiagnosticCode.UNUSABLE_LIBRARY,
        ) from error
    if not (isinstance(policy_class, type) and is_dataclass(policy_class)):
        raise ConfigurationError(
            f"policy {point.name}: expected a dataclass: {point.value}",
            code=DiagnosticCode.UNUSABLE_LIBRARY,
        )
    return policy_class


def recorded_limits(settings: Mapping[str, Any]) -> Limits:
    """Return the limits in the recorded settings of a policy.

    Raises:
        LookupError, ValueError: They are missing or invalid.
    """
    limits = TableBinder(Limits, without_none(settings["limits"]))
    if limits.value is None:
        raise ValueError(f"limits: {limits.diagnostics[0]}")
    return limits.value


def without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded settings without those that are None, which are not set."""
    return {key: value for key, value in table.items() if value is not None}


def parse_assignments(assignments: Iterable[str]) -> dict[str, object]:
    """Return the values of assignments such as `threshold=0.2`.

    A value is parsed as TOML (0.2, true, "text"); if it is not valid TOML, it is a
    string. The last of several assignments to one name counts.

    Raises:
        InvalidSettingError: An assignment has no name or no equals sign.
    """
    values: dict[str, object] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise InvalidSettingError(
                f"--set: expected KEY=VALUE, got {repr_value(assignment)}"
            )
        values[name.strip()] = _scalar(text.strip())
    return values


def _scalar(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text
