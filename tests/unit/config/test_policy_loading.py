"""Policies of other packages are found by their entry point."""

from pathlib import Path

import pytest

from opendrs.config.policy_loading import build_policy
from opendrs.errors import ConfigurationError, InvalidSettingError
from opendrs.model import DEFAULT_LIMITS

MODULE = """
from dataclasses import dataclass
from opendrs.model import Limits

@dataclass(frozen=True, kw_only=True)
class Patient:
    limits: Limits
    calm: int = 3

class Plain:
    pass
"""


def installed(
    directory: Path, monkeypatch: pytest.MonkeyPatch, package: str, points: str
) -> None:
    """Put a package with these entry points where Python finds packages."""
    (directory / f"{package}.py").write_text(MODULE)
    facts = directory / f"{package}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\n")
    (facts / "entry_points.txt").write_text(f"[opendrs.policies]\n{points}\n")
    monkeypatch.syspath_prepend(directory)


def test_entry_point_policy_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "drs_patient", "patient = drs_patient:Patient")

    policy = build_policy("patient", {"calm": 7})

    assert vars(policy) == {"calm": 7, "limits": DEFAULT_LIMITS}
    with pytest.raises(InvalidSettingError, match=r"calm: expected a whole number"):
        build_policy("patient", {"calm": "much"})


def test_duplicate_policy_name_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("drs_one", "drs_two"):
        installed(tmp_path, monkeypatch, package, f"twin = {package}:Patient")

    with pytest.raises(ConfigurationError, match="policy twin: provided twice"):
        build_policy("twin")


def test_a_policy_that_cannot_be_loaded_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "drs_gone", "gone = drs_nowhere:Patient")

    with pytest.raises(ConfigurationError, match="policy gone: cannot load"):
        build_policy("gone")


def test_a_class_without_settings_is_no_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "drs_plain", "plain = drs_plain:Plain")

    with pytest.raises(ConfigurationError, match="policy plain: expected a dataclass"):
        build_policy("plain")
