import pytest

from opendrs.ha.observation import PowerChange
from opendrs.ha.shutdown import plan_shutdown
from opendrs.ha.states import LrmMode
from opendrs.ha.wording import Level, level_of, words_of


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
def test_an_agent_goes_down_as_the_policy_says(
    policy: str, change: str | None, mode: str, *, stops: bool
) -> None:
    power = None if change is None else PowerChange(change)

    plan = plan_shutdown(policy, power, LrmMode.ACTIVE)

    assert (plan.mode, plan.stops_services) == (mode, stops)


@pytest.mark.parametrize("policy", ["conditional", "freeze", "failover", "migrate"])
@pytest.mark.parametrize("change", [None, *PowerChange])
def test_a_maintenance_outlasts_a_shutdown(
    policy: str, change: PowerChange | None
) -> None:
    plan = plan_shutdown(policy, change, LrmMode.MAINTENANCE)

    assert plan.mode is LrmMode.MAINTENANCE


def test_a_policy_without_meaning_is_told() -> None:
    plan = plan_shutdown("nonsense", PowerChange.REBOOT, LrmMode.ACTIVE)

    assert [words_of(event) for event in plan.told] == [
        "got shutdown request with shutdown policy 'nonsense'",
        "unknown shutdown policy 'nonsense', fall back to conditional",
        "reboot LRM, stop and freeze all services",
    ]


def test_the_level_that_the_original_spoils_is_spoilt_here() -> None:
    (told,) = plan_shutdown("freeze", None, LrmMode.MAINTENANCE).told

    assert level_of(told) is Level.CORRUPTED
