"""Codes of diagnostics: each kind of error in a file has its own."""

from pathlib import Path

import pytest

from opendrs.cli.platforms import PLATFORMS
from opendrs.config import DiagnosticCode, snapshot_and_diagnostics
from opendrs.config.diagnostics import Severity
from opendrs.config.parsing import parse_json, parse_toml
from opendrs.config.plausibility import find_implausible, find_incomplete
from opendrs.config.settings_reading import settings_and_diagnostics
from support.builders import cluster

NODE = '{"capacity": {"cpu": 4, "memory": 68719476736}, "state": "online"}'
GUEST = '{"node": "a", "kind": "vm"}'
SNAPSHOT = (
    '{"format": "opendrs-snapshot/1", "taken_at": "2026-11-21T00:00:00Z", '
    f'"nodes": {{"a": {NODE}}}, "guests": {{"vm": {GUEST}}}, "rules": []}}'
)


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ("limit = 1", DiagnosticCode.UNKNOWN_KEY, ("limit",)),
        (
            "[limits]\ncooldwon = 1",
            DiagnosticCode.UNKNOWN_KEY,
            ("limits", "cooldwon"),
        ),
        (
            "[store]",
            DiagnosticCode.MISSING_KEY,
            ("store", "path"),
        ),
        (
            '[limits]\ncooldown = "soon"',
            DiagnosticCode.INVALID_VALUE,
            ("limits", "cooldown"),
        ),
        (
            "[limits]\nmax_parallel_migrations = 1.5",
            DiagnosticCode.WRONG_TYPE,
            ("limits", "max_parallel_migrations"),
        ),
        ("limits = 1", DiagnosticCode.WRONG_TYPE, ("limits",)),
        (
            "[controller]\ninterval = 0",
            DiagnosticCode.OUT_OF_RANGE,
            ("controller", "interval"),
        ),
        (
            '[policy]\nname = "ballance"',
            DiagnosticCode.UNKNOWN_NAME,
            ("policy", "name"),
        ),
        (
            '[policy.balance]\nload_model = "guess"',
            DiagnosticCode.UNKNOWN_VALUE,
            ("policy", "balance", "load_model"),
        ),
        (
            '[platform.lab]\nkind = "vmware"',
            DiagnosticCode.UNKNOWN_VALUE,
            ("platform", "lab", "kind"),
        ),
        (
            "[platform.lab]",
            DiagnosticCode.MISSING_KEY,
            ("platform", "lab", "kind"),
        ),
        (
            '[[rules]]\nkind = "affinity"\nguests = ["x", "x"]',
            DiagnosticCode.DUPLICATE_NAME,
            ("rules", 0, "guests"),
        ),
    ],
)
def test_configuration_error_has_code(
    text: str, code: DiagnosticCode, path: tuple[str | int, ...]
) -> None:
    document = parse_toml(text, "FILE")

    _, diagnostics = settings_and_diagnostics(document, "FILE", Path(), PLATFORMS)

    assert [(each.code, each.path) for each in diagnostics] == [(code, path)]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"state"', '"stat"', DiagnosticCode.UNKNOWN_KEY),
        ('"kind": "vm"', '"uptime": 3', DiagnosticCode.MISSING_KEY),
        ('"online"', '"on"', DiagnosticCode.UNKNOWN_VALUE),
        ('"cpu": 4', '"cpu": "4"', DiagnosticCode.WRONG_TYPE),
        ('"cpu": 4', '"cpu": -4', DiagnosticCode.OUT_OF_RANGE),
        ('"node": "a"', '"node": "b"', DiagnosticCode.UNKNOWN_NAME),
        (
            '"node": "a"',
            '"node": "a", "migrating_to": "a"',
            DiagnosticCode.INCONSISTENT,
        ),
        ('"kind": "vm"', '"kind": "vm", "kind": "vm"', DiagnosticCode.DUPLICATE_KEY),
        (
            '"rules": []',
            '"rules": [{"kind": "pin", "guests": []}]',
            DiagnosticCode.OUT_OF_RANGE,
        ),
        ("2026-11-21T00:00:00Z", "yesterday", DiagnosticCode.INVALID_VALUE),
    ],
)
def test_snapshot_error_has_code(old: str, new: str, code: DiagnosticCode) -> None:
    document = parse_json(SNAPSHOT.replace(old, new), "FILE")

    _, diagnostics = snapshot_and_diagnostics(document, "FILE")

    assert [each.code for each in diagnostics] == [code]


def test_implausible_number_has_code() -> None:
    snapshot = cluster({"a": 59.0}, {})

    codes = {each.code for each in find_implausible(snapshot)}

    assert codes == {DiagnosticCode.IMPLAUSIBLE}


def test_missing_metric_is_an_incomplete_warning() -> None:
    snapshot = cluster({"a": None}, {})

    found = {(each.code, each.severity) for each in find_incomplete(snapshot)}

    assert found == {(DiagnosticCode.INCOMPLETE, Severity.WARNING)}
