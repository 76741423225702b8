"""Format of the configuration of ProxLB, in its versions 1.1 and 2.

Source:
    Documentation of ProxLB 1.1.12 and 2.3: README, section Options; docs/03, 04;
    changelog.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from opendrs.config.diagnostics import (
    Diagnostic,
    DiagnosticCode,
    describe_type,
    pydantic_diagnostics,
)
from opendrs.config.parsing import as_mapping, duplicate_key_diagnostics
from opendrs.escapes import repr_value
from opendrs.model import MAX_DURATION

SECRETS = ("pass", "token_secret")
_USER = re.compile(r"[^\s:/!@=]+@[A-Za-z][\w.\-]+")
_TOKEN_ID = re.compile(r"[A-Za-z][\w.\-]+")


def _flag(value: object) -> object:
    """Return 0 and 1 as booleans, which ProxLB allows."""
    return bool(value) if type(value) is int and value in (0, 1) else value


def _user(value: object) -> object:
    if isinstance(value, str) and not _USER.fullmatch(value):
        raise ValueError(f"expected USER@REALM, got {repr_value(value)}")
    return value


def _token_id(value: object) -> object:
    if isinstance(value, str) and not _TOKEN_ID.fullmatch(value):
        raise ValueError(
            "expected the id of the token without its user, such as proxlb, got "
            f"{repr_value(value)}"
        )
    return value


def _password(value: object) -> object:
    if isinstance(value, str) and (not value or re.search(r"[\r\n]", value)):
        raise ValueError("expected a text of one line that is not empty")
    return value


def _token_secret(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"\S+", value):
        raise ValueError("expected a text without spaces that is not empty")
    return value


def _names(value: object) -> object:
    """Return a list without empty names, as in `['']`."""
    if not isinstance(value, list):
        return value
    return tuple(each for each in value if each != "")


def _schedule(value: object) -> object:
    """Return a number of hours, the form of ProxLB 1.1.0, as a table."""
    return {"interval": value} if type(value) is int else value


Flag = Annotated[bool, BeforeValidator(_flag)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Positive = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
NonNegative = Annotated[float, Field(ge=0)]
Percent = Annotated[int, Field(ge=0, le=100)]
TimeFormat = Literal["hours", "minutes"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "CRITICAL"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ApiSection(_Section):
    """Section `proxmox_api`."""

    hosts: Annotated[tuple[str, ...], Field(min_length=1)]
    user: Annotated[str, BeforeValidator(_user)]
    password: Annotated[str, BeforeValidator(_password)] | None = Field(
        default=None, alias="pass", repr=False
    )
    token_id: Annotated[str, BeforeValidator(_token_id)] | None = None
    token_secret: Annotated[str, BeforeValidator(_token_secret)] | None = Field(
        default=None, repr=False
    )
    ssl_verification: Flag = True
    timeout: Annotated[int, Field(ge=1, le=86_400)] | None = None
    retries: Amount | None = None
    wait_time: Amount | None = None


class MaintenanceSchedule(_Section):
    """Table `proxmox_cluster.maintenance_nodes_schedule`."""

    duration: Amount = 0
    pre_migration: Amount = Field(default=0, alias="pre-migration")
    schedules: Mapping[str, tuple[str, ...]] = {}


class ClusterSection(_Section):
    """Section `proxmox_cluster`."""

    maintenance_nodes: Names = ()
    maintenance_nodes_schedule: MaintenanceSchedule = MaintenanceSchedule()
    ignore_nodes: Names = ()
    ignore_guests: Names = ()
    overprovisioning: Flag = False


class Pool(_Section):
    """One pool in `balancing.pools`."""

    type: Literal["affinity", "anti-affinity"] | None = None
    pin: Names = ()
    strict: Flag = True


class PsiThresholds(_Section):
    """Thresholds of one resource in `balancing.psi`."""

    pressure_full: float | None = None
    pressure_some: float | None = None
    pressure_spikes: float | None = None


PsiResource = Literal["memory", "cpu", "disk"]


class Psi(_Section):
    """Table `balancing.psi`."""

    nodes: Mapping[PsiResource, PsiThresholds] = {}
    guests: Mapping[PsiResource, PsiThresholds] = {}


class BalancingSection(_Section):
    """Section `balancing`."""

    enable: Flag = True
    enforce_affinity: Flag = False
    enforce_pinning: Flag = False
    parallel: Flag = False
    parallel_jobs: Positive = 5
    live: Flag = True
    with_local_disks: Flag = False
    with_conntrack_state: Flag = False
    balance_types: tuple[Literal["vm", "ct"], ...] = ("vm",)
    max_job_validation: Annotated[int, Field(ge=1, le=MAX_DURATION)] = 1800
    balanciness: Percent = 10
    memory_threshold: Percent | None = None
    cpu_threshold: Percent | None = None
    method: Literal["memory", "cpu", "disk"] = "memory"
    mode: Literal["used", "assigned", "psi"] = "used"
    balance_larger_guests_first: Flag = False
    node_resource_reserve: Mapping[str, Mapping[str, NonNegative]] = {}
    cpu_overcommit: float | None = None
    max_node_inflow: Positive | None = None
    ignore_guests: Names = ()
    psi: Psi = Psi()
    pools: Mapping[str, Pool] = {}


class CycleSchedule(_Section):
    """Table `service.schedule`."""

    interval: Positive = 12
    format: TimeFormat = "hours"


class Delay(_Section):
    """Table `service.delay`."""

    enable: Flag = False
    time: Amount = 1
    format: TimeFormat = "hours"


class ServiceSection(_Section):
    """Section `service`."""

    daemon: Flag = True
    enable_ha: Flag = False
    schedule: Annotated[CycleSchedule, BeforeValidator(_schedule)] = CycleSchedule()
    delay: Delay = Delay()
    log_level: LogLevel = "INFO"


class SolverSection(_Section):
    """Section `solver` of ProxLB 2."""

    enable: Flag = False
    mode: Literal["shadow", "active"] = "shadow"
    log_dir: str | None = None
    timeout_seconds: float | None = None
    use_reservations: Flag = True
    active_step_retries: Amount | None = None
    fallback_to_greedy: Flag = True


class ProxlbConfiguration(_Section):
    """The whole configuration.

    An absent setting has the default that ProxLB documents; where it documents none,
    that of the corresponding setting of OpenDRS.
    """

    proxmox_api: ApiSection
    proxmox_cluster: ClusterSection = ClusterSection()
    balancing: BalancingSection = BalancingSection()
    service: ServiceSection = ServiceSection()
    solver: SolverSection = SolverSection()


def validate_document(
    document: object,
) -> tuple[ProxlbConfiguration | None, tuple[Diagnostic, ...]]:
    """Return the configuration in *document*, and all errors; None if there are any."""
    values = _without_empty(document)
    problems = tuple(duplicate_key_diagnostics(document))
    try:
        configuration = ProxlbConfiguration.model_validate_json(
            json.dumps(values), strict=True
        )
    except ValidationError as error:
        describe = _Hidden(values).describe
        found = pydantic_diagnostics(error, (), _KEYS, describe)
        return None, (*problems, *map(_with_section, found))
    problems += _login_problems(configuration.proxmox_api)
    return (None if problems else configuration), problems


def _with_section(diagnostic: Diagnostic) -> Diagnostic:
    """Return *diagnostic*; that of a misplaced setting names its section."""
    name = diagnostic.path[-1] if diagnostic.path else ""
    sections = [
        section
        for section, field in ProxlbConfiguration.model_fields.items()
        if name in getattr(field.annotation, "model_fields", ())
    ]
    if diagnostic.code is not DiagnosticCode.UNKNOWN_KEY or not sections:
        return diagnostic
    message = f"unknown field here; it belongs to {' or '.join(sections)}"
    return replace(diagnostic, message=message)


def _without_empty(value: object) -> object:
    """Return *value* without keys that have no value; ProxLB uses the default then."""
    if not isinstance(value, dict):
        return value
    return {k: _without_empty(each) for k, each in value.items() if each is not None}


class _Hidden:
    """Description of invalid values that contains no secret."""

    def __init__(self, document: object) -> None:
        section = as_mapping(as_mapping(document).get("proxmox_api"))
        self._secrets = [section[key] for key in SECRETS if key in section]

    def describe(self, value: object) -> str:
        """Return *value* in a message; only its type if it is or has a secret."""
        if value in self._secrets or isinstance(value, dict | list):
            return describe_type(value)
        return repr_value(value)


def _login_problems(api: ApiSection) -> tuple[Diagnostic, ...]:
    at = "proxmox_api"
    code = DiagnosticCode.INCONSISTENT
    if api.password is not None and api.token_secret is not None:
        message = "expected either pass or token_secret, got both"
        return (Diagnostic((at, "pass"), message, code=code),)
    if (api.token_id is None) != (api.token_secret is None):
        name = "token_id" if api.token_id is None else "token_secret"
        message = "is missing; token_id and token_secret belong together"
        return (Diagnostic((at, name), message, code=DiagnosticCode.MISSING_KEY),)
    if api.password is None and api.token_secret is None:
        message = "is missing; expected token_id and token_secret, or pass"
        missing = DiagnosticCode.MISSING_KEY
        return (Diagnostic((at, "token_secret"), message, code=missing),)
    return ()


_KEYS = tuple(
    field.alias or name
    for section in (
        ProxlbConfiguration,
        ApiSection,
        ClusterSection,
        MaintenanceSchedule,
        BalancingSection,
        Pool,
        Psi,
        PsiThresholds,
        ServiceSection,
        CycleSchedule,
        Delay,
        SolverSection,
    )
    for name, field in section.model_fields.items()
)
