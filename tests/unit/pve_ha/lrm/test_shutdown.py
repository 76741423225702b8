import pytest

from opendrs.pve_ha.log_events import LogLevel
from opendrs.pve_ha.lrm.shutdown import plan_shutdown
from opendrs.pve_ha.observation import PowerChange
from opendrs.pve_ha.states import LrmMode


@pytest.mark.parametrize(
    ("policy", "change", "mode", "stops"),
    [
        ("conditional", "reboot", "restart", True),
        ("conditional", "shutdown", "shutdown", True),
        ("freeze", "reboot", "restart", True),
        ("freeze", "shutdown", "restart", True),
        ("failover", "reboot", "shutdown", True),
        ("failover", "shutdown", "shutdown", True),
        ("migrate", "reboot", "maintenance", False),
        ("migrate", "shutdown", "maintenance", False),
        ("nonsense", "reboot", "restart", True),
        ("nonsense", "shutdown", "shutdown", True),
        ("freeze", None, "restart", False),
    ],
)
def test_shutdown_policy_determines_lrm_mode(
    policy: str, change: str | None, mode: str, *, stops: bool
) -> None:
    power = None if change is None else PowerChange(change)

    plan = plan_shutdown(policy, power, LrmMode.ACTIVE)

    assert (plan.mode, plan.stops_services) == (mode, stops)


@pytest.mark.parametrize("policy", ["conditional", "freeze", "failover", "migrate"])
@pytest.mark.parametrize("change", [None, *PowerChange])
def test_maintenance_continues_during_shutdown(
    policy: str, change: PowerChange | None
) -> None:
    plan = plan_shutdown(policy, change, LrmMode.MAINTENANCE)

    assert plan.mode is LrmMode.MAINTENANCE


def test_unknown_shutdown_policy_is_logged() -> None:
    plan = plan_shutdown("nonsense", PowerChange.REBOOT, LrmMode.ACTIVE)

    assert [event.message for event in plan.log] == [
        "got shutdown request with shutdown policy 'nonsense'",
        "unknown shutdown policy 'nonsense', fall back to conditional",
        "reboot LRM, stop and freeze all services",
    ]


def test_restart_in_maintenance_has_corrupted_level() -> None:
    (event,) = plan_shutdown("freeze", None, LrmMode.MAINTENANCE).log

    assert event.level is LogLevel.CORRUPTED
