"""From the name of a policy and its settings to the policy."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from opendrs.controller.tables import Table, no_such
from opendrs.errors import (
    ConfigurationError,
    InvalidSettingError,
    UnknownPolicyError,
)
from opendrs.model import DEFAULT_LIMITS, Limits
from opendrs.platforms.file import Location, complain, shown
from opendrs.policies import BUILT_IN, Policy

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
    table = policy_table(name, values or {}, limits)
    complain(f"policy {name}", table.complaints, InvalidSettingError)
    assert table.value is not None  # noqa: S101 - or there was a complaint
    return table.value


def policy_table(
    name: str, values: object, limits: Limits, at: Location = ()
) -> Table[Policy[Any]]:
    """Return the settings of a policy, checked.

    Raises:
        UnknownPolicyError: No policy has that name.
    """
    return Table(policy_type(name), values, at, given={"limits": limits})


def policy_type(name: str) -> type[Policy[Any]]:
    """Return the class of the policy called *name*.

    Raises:
        UnknownPolicyError: No policy has that name.
        ConfigurationError: Two packages bring one, or it cannot be loaded.
    """
    built_in = BUILT_IN.get(name)
    if built_in is not None:
        return built_in
    brought = [
        point for point in entry_points(group=ENTRY_POINTS) if point.name == name
    ]
    if not brought:
        known = {*BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINTS))}
        raise UnknownPolicyError(f"{shown(name)}: {no_such('policy', name, known)}")
    if len(brought) > 1:
        places = " and ".join(sorted(point.value for point in brought))
        raise ConfigurationError(f"two policies are called {name}: {places}")
    return _loaded(brought[0])


def _loaded(point: EntryPoint) -> type[Policy[Any]]:
    try:
        found: type[Policy[Any]] = point.load()
    except Exception as error:  # whatever the package of somebody else raises
        raise ConfigurationError(
            f"policy {point.name} cannot be loaded from {point.value}: {error!r}"
        ) from error
    if not (isinstance(found, type) and is_dataclass(found)):
        raise ConfigurationError(
            f"policy {point.name} is not a dataclass, as policies are: {point.value}"
        )
    return found


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
                f"--set: expected KEY=VALUE, found {shown(assignment)}"
            )
        values[name.strip()] = _scalar(text.strip())
    return values


def _scalar(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text
