"""Translation of the sections `service` and `solver`."""

from __future__ import annotations

from opendrs.config.controller_settings import MAX_INTERVAL
from opendrs.config.diagnostics import KeyPath
from opendrs.config.proxlb.schema import ServiceSection, SolverSection
from opendrs.config.proxlb.translation import Translation, present_settings

_SECONDS = {"hours": 3600, "minutes": 60}
_LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "CRITICAL": "error"}


def translate_service(service: ServiceSection, result: Translation) -> None:
    """Add the interval of the controller to *result*."""
    for name, path in present_settings(service, "service"):
        match name:
            case "daemon":
                _daemon(service, path, result)
            case "schedule":
                _schedule(service, path, result)
            case "delay":
                if service.delay.enable:
                    detail = "start opendrs run later, such as by a timer of systemd"
                    result.unsupported(path, detail)
                else:
                    result.taken(path, "", "no delay: nothing is to be set")
            case "enable_ha":
                if service.enable_ha:
                    detail = (
                        "run OpenDRS on one machine, which may be a guest under HA; a "
                        "second one does not know the record of the first"
                    )
                    result.unsupported(path, detail)
                else:
                    result.taken(path, "", "off: nothing is to be set")
            case "log_level":
                level = _LEVELS[service.log_level]
                target = f"opendrs run --level {level}"
                if service.log_level == "CRITICAL":
                    result.differs(path, target, "the highest level is error")
                else:
                    result.taken(path, target)


def _daemon(service: ServiceSection, path: KeyPath, result: Translation) -> None:
    if service.daemon:
        result.taken(path, "opendrs run")
    else:
        detail = "one cycle, also from a timer"
        result.taken(path, "opendrs run --once", detail)


def _schedule(service: ServiceSection, path: KeyPath, result: Translation) -> None:
    seconds = service.schedule.interval * _SECONDS[service.schedule.format]
    interval = min(seconds, MAX_INTERVAL)
    result.controller["interval"] = interval
    target = f"controller.interval = {interval}"
    if seconds > MAX_INTERVAL:
        result.differs(path, target, "the longest interval is a day")
    else:
        result.taken(path, target)


def translate_solver(solver: SolverSection, result: Translation) -> None:
    """Add the settings of the solver to *result*; OpenDRS has none for it."""
    for name, path in present_settings(solver, "solver"):
        match name:
            case "enable" | "mode" if not solver.enable:
                result.taken(path, "", "off: nothing is to be set")
            case "mode" if solver.mode == "shadow":
                detail = "opendrs plan and compare show plans without migrations"
                result.differs(path, "", detail)
            case "enable" | "mode":
                detail = "the policy optimize searches and orders all migrations"
                result.differs(path, "policy.name = optimize", detail)
            case "timeout_seconds":
                target = "opendrs plan --time-limit SECONDS"
                detail = "a number of searched moves is the limit otherwise"
                result.differs(path, target, detail)
            case "log_dir":
                detail = "the record has all decisions; nothing is to be set"
                result.unsupported(path, detail)
            case "use_reservations":
                detail = "limits.reserved_memory always applies; nothing is to be set"
                result.unsupported(path, detail)
            case "active_step_retries" | "fallback_to_greedy":
                detail = (
                    "each cycle plans again from the present state; nothing is to be "
                    "set"
                )
                result.unsupported(path, detail)
