"""Policies of the literature are settings of consolidate."""

from __future__ import annotations

import pytest

from opendrs.controller.selection import build_policy
from opendrs.errors import InvalidSettingError
from opendrs.model import Limits
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.strategy import Detection, Leaving, Placement
from opendrs.sim.consolidation.classics import classic

NAMES = [
    *(
        f"{detector}-{selector}"
        for detector in ("thr", "iqr", "mad", "lr", "lrr")
        for selector in ("mc", "mmt", "mu", "rs")
    ),
    *(f"neat-{each}" for each in ("thr", "iqr", "mad", "lr", "lrr", "otf", "mhod")),
]


def built(name: str) -> Consolidate:
    found = classic(name)
    policy = build_policy("consolidate", found.settings, Limits(cooldown=0))
    assert isinstance(policy, Consolidate)
    assert dict(found.limits) == {"cooldown": 0.0}
    return policy


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_built_and_leaves_no_guest_alone(name: str) -> None:
    policy = built(name)

    neat = name.startswith("neat")
    placement = Placement.BEST_FIT if neat else Placement.POWER_AWARE
    assert policy.placement is placement
    assert policy.emptied == policy.attempts == 10_000


def test_a_policy_of_cloudsim_has_its_parameter() -> None:
    assert built("lr-mmt").parameter == 1.2
    assert built("thr-mu-0.9").parameter == 0.9
    assert built("thr-mu-0.9").selection is Leaving.MINIMUM_UTILISATION
    assert built("mad-rs").detector is Detection.MAD


def test_otf_and_mhod_of_neat_have_a_bound_instead() -> None:
    policy = built("neat-mhod-0.2")

    assert (policy.detector, policy.parameter) == (Detection.MHOD, 0.8)
    assert (policy.bound, policy.history) == (0.2, 100)
    assert built("neat-thr-0.9").parameter == 0.9
    assert built("neat-otf").bound == 0.1


@pytest.mark.parametrize(
    "name",
    ["neat", "neat-x", "neat-thr-x", "neat-thr-0", "npa", "lr", "lr-mmt-nan", ""],
)
def test_others_are_refused(name: str) -> None:
    with pytest.raises(InvalidSettingError):
        classic(name)
