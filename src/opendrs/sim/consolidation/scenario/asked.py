"""A scenario from the options of a command, and what options change in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from opendrs.errors import ConfigurationError
from opendrs.sim.consolidation.hardware import HOSTS
from opendrs.sim.consolidation.scenario.contenders import NONE, USUAL
from opendrs.sim.consolidation.scenario.parts import DEFAULT_SEED, SYNTHETIC
from opendrs.sim.consolidation.scenario.reading import FORMAT, scenario_from
from opendrs.sim.consolidation.scenario.scenario import Model, Scenario

COMMAND = "simulate"  # to begin complaints with
IN_FILE = (
    *("model", "hosts", "memory", "apart"),
    *("guests", "days", "start", "interval"),
)
DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What options say; None and empty for what they do not.

    Attributes:
        model: What is taken to happen.
        hosts: How many hosts there are.
        memory: MB of each.
        apart: How many guests at a time must be on different hosts.
        guests: How many guests are drawn, or read at most.
        days: For how long.
        start: Where to begin in a trace, in seconds.
        interval: Seconds from one sample to the next.
        seed: Of what is drawn by chance.
        policies: Names of the policies to try.
        settings: Settings of all of them.
    """

    model: str | None = None
    hosts: int | None = None
    memory: float | None = None
    apart: int | None = None
    guests: int | None = None
    days: float | None = None
    start: float | None = None
    interval: float | None = None
    seed: int | None = None
    policies: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)


def scenario_asked(kind: str, path: Path | None, asked: Asked) -> Scenario:
    """Return the scenario that a kind of load and options describe.

    Raises:
        ConfigurationError: They describe none; with everything that is wrong.
    """
    model = asked.model or Model.OPENDRS.value
    document: dict[str, object] = {
        "format": FORMAT,
        "model": model,
        "seed": DEFAULT_SEED if asked.seed is None else asked.seed,
        "workload": _workload(kind, path, asked),
        "hosts": [_hosts(asked)],
        "policies": _policies(asked, Model(model)),
    }
    if asked.apart is not None:
        document["guests"] = {"apart": asked.apart}
    return scenario_from(document, COMMAND, Path())


def changed(asked: Asked) -> dict[str, object]:
    """Return what options change in a scenario file: its policies and its seed.

    Raises:
        ConfigurationError: An option is for what only the file says.
    """
    said = [
        each.name for each in fields(asked) if getattr(asked, each.name) is not None
    ]
    wrong = [
        f"--{name}: a scenario file says that itself"
        for name in said
        if name in IN_FILE
    ]
    if asked.settings and not asked.policies:
        wrong.append("--set needs --policy: a scenario file says settings itself")
    if wrong:
        raise ConfigurationError(*wrong)
    changes: dict[str, object] = {}
    if asked.seed is not None:
        changes["seed"] = asked.seed
    if asked.policies:
        changes["policies"] = _named(asked.policies, asked.settings)
    return changes


def _workload(kind: str, path: Path | None, asked: Asked) -> dict[str, object]:
    if kind == SYNTHETIC:
        return _drawn(path, asked)
    if path is None:
        raise ConfigurationError(f"{kind} needs a PATH")
    window = {
        "start": asked.start,
        "length": None if asked.days is None else asked.days * DAY,
        "interval": asked.interval,
        "most": asked.guests,
    }
    return {"kind": kind, "path": str(path), **_said(window)}


def _drawn(path: Path | None, asked: Asked) -> dict[str, object]:
    wrong = [f"{SYNTHETIC} takes no PATH, found {path}"] if path is not None else []
    window = {"start": asked.start, "interval": asked.interval}
    wrong += [f"--{name} is for traces, not {SYNTHETIC}" for name in _said(window)]
    if asked.days is not None and not asked.days.is_integer():
        wrong.append(f"--days must be whole for {SYNTHETIC}, not {asked.days:g}")
    if wrong:
        raise ConfigurationError(*wrong)
    days = None if asked.days is None else int(asked.days)
    return {"kind": SYNTHETIC, **_said({"guests": asked.guests, "days": days})}


def _said(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _hosts(asked: Asked) -> dict[str, object]:
    count = HOSTS if asked.hosts is None else asked.hosts
    memory = {} if asked.memory is None else {"memory": asked.memory}
    return {"count": count, **memory}


def _policies(asked: Asked, model: Model) -> list[dict[str, object]]:
    return _named(asked.policies or (USUAL[model],), asked.settings)


def _named(
    names: tuple[str, ...], settings: Mapping[str, object]
) -> list[dict[str, object]]:
    """Return the entries of policies; nobody has settings when others have."""
    alone = set(names) == {NONE}
    return [
        {"name": name, "label": name, "settings": {}}
        if name == NONE and not alone
        else {"name": name, "label": name, "settings": dict(settings)}
        for name in names
    ]
