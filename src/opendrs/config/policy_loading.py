"""Load a policy by name and build it from its settings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from opendrs.config.binding import TableBinder, unknown_name
from opendrs.config.diagnostics import KeyPath, raise_diagnostics
from opendrs.errors import ConfigurationError, InvalidSettingError, UnknownPolicyError
from opendrs.escapes import repr_value
from opendrs.model import DEFAULT_LIMITS, Limits
from opendrs.policies import BUILT_IN_POLICIES, Policy

ENTRY_POINTS = "opendrs.policies"


def build_policy(
    name: str,
    values: Mapping[str, object] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Policy[Any]:
    """Return the policy called *name* with these settings.

    Args:
        name: A built-in policy, or one of the entry points `opendrs.policies`.
        values: Its settings by name; the others keep their defaults.
        limits: What the operator allows every policy.

    Raises:
        UnknownPolicyError: No policy has that name.
        InvalidSettingError: It has no such setting, or not with that value.
    """
    table = bind_policy(name, values or {}, limits)
    raise_diagnostics(f"policy {name}", table.diagnostics, InvalidSettingError)
    assert table.value is not None  # noqa: S101 - or there was a complaint
    return table.value


def bind_policy(
    name: str, values: object, limits: Limits, at: KeyPath = ()
) -> TableBinder[Policy[Any]]:
    """Return the settings of a policy, checked.

    Raises:
        UnknownPolicyError: No policy has that name.
    """
    return TableBinder(policy_type(name), values, at, preset={"limits": limits})


def policy_type(name: str) -> type[Policy[Any]]:
    """Return the class of the policy called *name*.

    Raises:
        UnknownPolicyError: No policy has that name.
        ConfigurationError: Two packages bring one, or it cannot be loaded.
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
        raise ConfigurationError(f"two policies are called {name}: {locations}")
    return _load_entry_point(matching[0])


def _load_entry_point(point: EntryPoint) -> type[Policy[Any]]:
    try:
        policy_class: type[Policy[Any]] = point.load()
    except Exception as error:  # whatever the package of somebody else raises
        raise ConfigurationError(
            f"policy {point.name} cannot be loaded from {point.value}: {error!r}"
        ) from error
    if not (isinstance(policy_class, type) and is_dataclass(policy_class)):
        raise ConfigurationError(
            f"policy {point.name} is not a dataclass, as policies are: {point.value}"
        )
    return policy_class


def parse_assignments(assignments: Iterable[str]) -> dict[str, object]:
    """Return the values of texts like `threshold=0.2`.

    A value is taken as TOML takes it (0.2, true, "text"), and as a text when
    it is none of that. Of several with one name the last counts.

    Raises:
        InvalidSettingError: A text has no name or no equals sign.
    """
    values: dict[str, object] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise InvalidSettingError(
                f"--set: expected KEY=VALUE, found {repr_value(assignment)}"
            )
        values[name.strip()] = _scalar(text.strip())
    return values


def _scalar(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text
