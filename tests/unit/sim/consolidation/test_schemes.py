"""The policies by their names."""

from __future__ import annotations

import pytest

from opendrs.errors import InvalidSettingError
from opendrs.sim.consolidation import Baseline, Detector, Migrating, Selector, scheme


def test_a_name_says_detector_selector_and_parameter() -> None:
    asked = scheme("thr-mmt-0.9", seed=3)

    assert asked == Migrating(Detector.THR, Selector.MMT, 0.9, 3)
    assert str(asked) == "thr-mmt-0.9"


def test_the_parameter_is_the_published_one_unless_given() -> None:
    assert scheme("lr-mu") == Migrating(Detector.LR, Selector.MU, 1.2)


def test_a_baseline_has_no_selector() -> None:
    assert scheme("dvfs") is Baseline.DVFS


@pytest.mark.parametrize(
    "name", ["", "lr", "lr-", "lr-xy", "xy-mmt", "lr-mmt-x", "lr-mmt-0", "lr-mmt-nan"]
)
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidSettingError):
        scheme(name)
