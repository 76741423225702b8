import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.config.diagnostics import Diagnostic
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.pve_ha.config import ShareUnit, format_datacenter, read_datacenter
from opendrs.pve_ha.status_files import CrsSettings, DatacenterSettings
from support.errors import has_code

USUAL = DatacenterSettings()


def test_read_datacenter_returns_all_settings() -> None:
    text = (
        "keyboard: de\n"
        "crs: ha=static,ha-rebalance-on-start=1,ha-auto-rebalance=yes,"
        "ha-auto-rebalance-threshold=12.5,ha-auto-rebalance-method=topsis,"
        "ha-auto-rebalance-hold-duration=5,ha-auto-rebalance-margin=7\n"
        "ha: shutdown_policy=migrate\n"
    )

    found = read_datacenter(text)

    assert found.warnings == ()
    assert found.settings == DatacenterSettings(
        CrsSettings(
            mode="static",
            rebalance_on_start=True,
            auto_rebalance=True,
            threshold=0.125,
            method="topsis",
            hold=5,
            margin=0.07,
        ),
        "migrate",
    )


def test_shares_may_be_fractions() -> None:
    text = "crs: ha-auto-rebalance-threshold=0.4,ha-auto-rebalance-margin=1.5"

    scheduling = read_datacenter(text, ShareUnit.FRACTION).settings.scheduling

    assert (scheduling.threshold, scheduling.margin) == (0.4, 1.5)


def test_comments_and_other_options_are_ignored_without_warning() -> None:
    found = read_datacenter("# crs: ha=static\n\nmigration: secure\nmac_prefix:\n")

    assert found.settings == USUAL
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("line", "warning", "code"),
    [
        (
            "crs: ha=clever",
            "line 1: crs: bad value of ha: clever",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            "crs: ha-auto-rebalance=2",
            "line 1: crs: bad value of ha-auto-rebalance: 2",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            "crs: ha-auto-rebalance-threshold=101",
            "line 1: crs: bad value of ha-auto-rebalance-threshold: 101",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            "crs: ha-auto-rebalance-margin=-1",
            "line 1: crs: bad value of ha-auto-rebalance-margin: -1",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            "crs: ha-auto-rebalance-hold-duration=nan",
            "line 1: crs: bad value of ha-auto-rebalance-hold-duration: nan",
            DiagnosticCode.INVALID_VALUE,
        ),
        ("crs: static", "line 1: crs: ignored: static", DiagnosticCode.INVALID_VALUE),
        (
            "crs: hat=static",
            "line 1: crs: unknown property hat",
            DiagnosticCode.UNKNOWN_KEY,
        ),
        (
            "ha: shutdown_policy=run",
            "line 1: ha: bad value of shutdown_policy: run",
            DiagnosticCode.INVALID_VALUE,
        ),
        ("nonsense", "line 1: ignored: nonsense", DiagnosticCode.INVALID_VALUE),
    ],
)
def test_invalid_option_is_ignored_with_warning(
    line: str, warning: str, code: DiagnosticCode
) -> None:
    found = read_datacenter(line)

    assert found.settings == USUAL
    assert found.warnings == (Diagnostic.warning((), warning, code),)


def test_duplicate_option_counts_once() -> None:
    found = read_datacenter("crs: ha=static, ha=dynamic")

    assert found.settings.scheduling.mode == "static"
    (warning,) = found.warnings
    assert warning.code is DiagnosticCode.DUPLICATE_KEY
    assert str(warning) == "line 1: crs: duplicate attribute ha"


def test_format_keeps_other_lines() -> None:
    text = "# mine\nkeyboard: de\ncrs: ha=static\nmigration: secure"

    written = format_datacenter(DatacenterSettings(CrsSettings(mode="dynamic")), text)

    assert written == "# mine\nkeyboard: de\nmigration: secure\ncrs: ha=dynamic\n"


def test_defaults_are_not_written() -> None:
    assert format_datacenter(USUAL, "crs: ha=static\nha: shutdown_policy=freeze") == ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            DatacenterSettings(CrsSettings(mode="odd")),
            "crs: ha: expected one of basic, static",
        ),
        (
            DatacenterSettings(CrsSettings(method="odd")),
            "ha-auto-rebalance-method: expected",
        ),
        (
            DatacenterSettings(shutdown_policy="a,b"),
            "ha: shutdown_policy: expected one of",
        ),
    ],
)
def test_invalid_settings_are_not_written(
    settings: DatacenterSettings, message: str
) -> None:
    with pytest.raises(
        ConfigurationError,
        match=message,
        check=has_code(DiagnosticCode.UNKNOWN_VALUE),
    ):
        format_datacenter(settings)


shares = st.floats(0, 1, allow_subnormal=False)
drawn = st.builds(
    DatacenterSettings,
    scheduling=st.builds(
        CrsSettings,
        mode=st.sampled_from(["basic", "static", "dynamic"]),
        rebalance_on_start=st.booleans(),
        auto_rebalance=st.booleans(),
        threshold=shares,
        method=st.sampled_from(["bruteforce", "topsis"]),
        hold=st.integers(0, 10**6),
        margin=shares,
    ),
    shutdown_policy=st.sampled_from(["conditional", "freeze", "failover", "migrate"]),
)


@given(drawn, st.sampled_from(ShareUnit))
def test_read_restores_written_settings(
    settings: DatacenterSettings, share: ShareUnit
) -> None:
    again = read_datacenter(format_datacenter(settings, unit=share), share)

    assert again.settings == settings
    assert again.warnings == ()
