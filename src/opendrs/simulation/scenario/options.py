"""Scenario from command line options, and changes of options to a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.simulation.hardware import HOST_COUNT
from opendrs.simulation.scenario.candidates import DEFAULT_POLICIES, NO_POLICY
from opendrs.simulation.scenario.definition import SimulationModel, SimulationScenario
from opendrs.simulation.scenario.parsing import (
    DEFAULT_SEED,
    SCENARIO_FORMAT,
    SYNTHETIC,
    parse_scenario,
)

SOURCE_LABEL = "simulate"  # prefix of error messages
SCENARIO_ONLY_OPTIONS = (
    *("model", "hosts", "memory", "anti_affinity_groups"),
    *("guests", "days", "start", "interval"),
)
DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """Values of the options; None and empty for options that were not given.

    Attributes:
        model: Simulation model.
        hosts: Number of hosts.
        memory: MB of each host.
        anti_affinity_groups: Number of consecutive guests that must be on different
            hosts.
        guests: Number of synthetic guests, or most guests read from a trace.
        days: Duration in days.
        start: Start of the window in a trace, in seconds.
        interval: Seconds between samples.
        seed: Seed of random choices.
        policies: Names of the policies to run.
        settings: Settings of all policies.
    """

    model: str | None = None
    hosts: int | None = None
    memory: float | None = None
    anti_affinity_groups: int | None = None
    guests: int | None = None
    days: float | None = None
    start: float | None = None
    interval: float | None = None
    seed: int | None = None
    policies: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)


def scenario_from_options(
    kind: str, path: Path | None, options: ScenarioOptions
) -> SimulationScenario:
    """Return the scenario for a workload kind and options.

    Raises:
        ConfigurationError: The options are invalid; with all errors.
    """
    model = options.model or SimulationModel.OPENDRS.value
    document: dict[str, object] = {
        "format": SCENARIO_FORMAT,
        "model": model,
        "seed": DEFAULT_SEED if options.seed is None else options.seed,
        "workload": _workload(kind, path, options),
        "hosts": [_hosts(options)],
        "policies": _policies(options, SimulationModel(model)),
    }
    if options.anti_affinity_groups is not None:
        document["guests"] = {"anti_affinity_groups": options.anti_affinity_groups}
    return parse_scenario(document, SOURCE_LABEL, Path())


def scenario_changes(options: ScenarioOptions) -> dict[str, object]:
    """Return the changes to a scenario file: its policies and its seed.

    Raises:
        ConfigurationError: An option is not allowed with a scenario file.
    """
    set_options = [
        each.name for each in fields(options) if getattr(options, each.name) is not None
    ]
    messages = [
        f"--{name.replace('_', '-')}: not allowed with a scenario file; set it there"
        for name in set_options
        if name in SCENARIO_ONLY_OPTIONS
    ]
    if options.settings and not options.policies:
        messages.append("--set: needs --policy; or change the settings in the file")
    if messages:
        raise ConfigurationError(*messages)
    changes: dict[str, object] = {}
    if options.seed is not None:
        changes["seed"] = options.seed
    if options.policies:
        changes["policies"] = _policy_entries(options.policies, options.settings)
    return changes


def _workload(
    kind: str, path: Path | None, options: ScenarioOptions
) -> dict[str, object]:
    if kind == SYNTHETIC:
        return _synthetic_workload(path, options)
    if path is None:
        raise ConfigurationError(
            f"{kind}: PATH missing; give a file or directory",
            code=DiagnosticCode.MISSING_KEY,
        )
    window = {
        "start": options.start,
        "length": None if options.days is None else options.days * DAY,
        "interval": options.interval,
        "max_guests": options.guests,
    }
    return {"kind": kind, "path": str(path), **_without_none(window)}


def _synthetic_workload(
    path: Path | None, options: ScenarioOptions
) -> dict[str, object]:
    messages = (
        [f"{SYNTHETIC}: expected no PATH, got {path}"] if path is not None else []
    )
    window = {"start": options.start, "interval": options.interval}
    messages += [
        f"--{name}: only for traces, not for {SYNTHETIC}; remove it"
        for name in _without_none(window)
    ]
    if options.days is not None and not options.days.is_integer():
        messages.append(
            f"--days: expected a whole number for {SYNTHETIC}, got {options.days:g}"
        )
    if messages:
        raise ConfigurationError(*messages)
    days = None if options.days is None else int(options.days)
    return {
        "kind": SYNTHETIC,
        **_without_none({"guests": options.guests, "days": days}),
    }


def _without_none(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _hosts(options: ScenarioOptions) -> dict[str, object]:
    count = HOST_COUNT if options.hosts is None else options.hosts
    memory = {} if options.memory is None else {"memory": options.memory}
    return {"count": count, **memory}


def _policies(
    options: ScenarioOptions, model: SimulationModel
) -> list[dict[str, object]]:
    return _policy_entries(
        options.policies or (DEFAULT_POLICIES[model],), options.settings
    )


def _policy_entries(
    names: tuple[str, ...], settings: Mapping[str, object]
) -> list[dict[str, object]]:
    """Return the policy entries; `none` gets no settings if others do."""
    only_no_policy = set(names) == {NO_POLICY}
    return [
        {"name": name, "label": name, "settings": {}}
        if name == NO_POLICY and not only_no_policy
        else {"name": name, "label": name, "settings": dict(settings)}
        for name in names
    ]
