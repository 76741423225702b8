"""Policies of the literature as settings of consolidate."""

from __future__ import annotations

import pytest

from opendrs.config.policy_loading import build_policy
from opendrs.errors import InvalidSettingError, UnknownPolicyError
from opendrs.model import Limits
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.settings import (
    DetectorKind,
    EvictionRule,
    PlacementStrategy,
)
from opendrs.simulation.baselines import baseline_policy

NAMES = [
    *(
        f"{detector}-{selector}"
        for detector in ("thr", "iqr", "mad", "lr", "lrr")
        for selector in ("mc", "mmt", "mu", "rs")
    ),
    *(f"neat-{each}" for each in ("thr", "iqr", "mad", "lr", "lrr", "otf", "mhod")),
]


def build(name: str) -> Consolidate:
    baseline = baseline_policy(name)
    policy = build_policy("consolidate", baseline.settings, Limits(cooldown=0))
    assert isinstance(policy, Consolidate)
    assert dict(baseline.limits) == {"cooldown": 0.0}
    return policy


@pytest.mark.parametrize("name", NAMES)
def test_each_baseline_builds_without_cooldown(name: str) -> None:
    policy = build(name)

    neat = name.startswith("neat")
    placement = PlacementStrategy.BEST_FIT if neat else PlacementStrategy.POWER_AWARE
    assert policy.placement is placement
    assert policy.max_drained_nodes == policy.max_failed_drains == 10_000


def test_cloudsim_baseline_has_its_parameter() -> None:
    assert build("lr-mmt").detector_parameter == 1.2
    assert build("thr-mu-0.9").detector_parameter == 0.9
    assert build("thr-mu-0.9").guest_selection is EvictionRule.MINIMUM_UTILIZATION
    assert build("mad-rs").detector is DetectorKind.MAD


def test_otf_and_mhod_baselines_have_overload_fraction() -> None:
    policy = build("neat-mhod-0.2")

    assert (policy.detector, policy.detector_parameter) == (DetectorKind.MHOD, 0.8)
    assert (policy.max_overload_fraction, policy.history_length) == (0.2, 100)
    assert build("neat-thr-0.9").detector_parameter == 0.9
    assert build("neat-otf").max_overload_fraction == 0.1


@pytest.mark.parametrize(
    "name",
    ["neat", "neat-x", "neat-thr-x", "neat-thr-0", "npa", "lr", "lr-mmt-nan", ""],
)
def test_unknown_baselines_are_rejected(name: str) -> None:
    with pytest.raises((InvalidSettingError, UnknownPolicyError)):
        baseline_policy(name)
