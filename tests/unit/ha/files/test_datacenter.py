import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import ConfigurationError
from opendrs.ha.documents import Datacenter, Scheduling
from opendrs.ha.files import Share, datacenter_text, read_datacenter

USUAL = Datacenter()


def test_the_settings_are_read() -> None:
    text = (
        "keyboard: de\n"
        "crs: ha=static,ha-rebalance-on-start=1,ha-auto-rebalance=yes,"
        "ha-auto-rebalance-threshold=12.5,ha-auto-rebalance-method=topsis,"
        "ha-auto-rebalance-hold-duration=5,ha-auto-rebalance-margin=7\n"
        "ha: shutdown_policy=migrate\n"
    )

    found = read_datacenter(text)

    assert found.warnings == ()
    assert found.settings == Datacenter(
        Scheduling(
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


def test_shares_may_be_written_as_fractions() -> None:
    text = "crs: ha-auto-rebalance-threshold=0.4,ha-auto-rebalance-margin=1.5"

    scheduling = read_datacenter(text, Share.FRACTION).settings.scheduling

    assert (scheduling.threshold, scheduling.margin) == (0.4, 1.5)


def test_comments_and_other_matters_are_passed_over_in_silence() -> None:
    found = read_datacenter("# crs: ha=static\n\nmigration: secure\nmac_prefix:\n")

    assert found.settings == USUAL
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("crs: ha=clever", "line 1: crs: bad value of ha: clever"),
        (
            "crs: ha-auto-rebalance=2",
            "line 1: crs: bad value of ha-auto-rebalance: 2",
        ),
        (
            "crs: ha-auto-rebalance-threshold=101",
            "line 1: crs: bad value of ha-auto-rebalance-threshold: 101",
        ),
        (
            "crs: ha-auto-rebalance-margin=-1",
            "line 1: crs: bad value of ha-auto-rebalance-margin: -1",
        ),
        (
            "crs: ha-auto-rebalance-hold-duration=nan",
            "line 1: crs: bad value of ha-auto-rebalance-hold-duration: nan",
        ),
        ("crs: static", "line 1: crs: ignored: static"),
        ("crs: hat=static", "line 1: crs: unknown property hat"),
        ("ha: shutdown_policy=run", "line 1: ha: bad value of shutdown_policy: run"),
        ("nonsense", "line 1: ignored: nonsense"),
    ],
)
def test_what_cannot_be_is_passed_over_with_a_warning(line: str, warning: str) -> None:
    found = read_datacenter(line)

    assert found.settings == USUAL
    assert found.warnings == (warning,)


def test_an_option_that_stands_twice_counts_once() -> None:
    found = read_datacenter("crs: ha=static, ha=dynamic")

    assert found.settings.scheduling.mode == "static"
    assert found.warnings == ("line 1: crs: duplicate attribute ha",)


def test_writing_leaves_all_else_as_it_is() -> None:
    text = "# mine\nkeyboard: de\ncrs: ha=static\nmigration: secure"

    written = datacenter_text(Datacenter(Scheduling(mode="dynamic")), text)

    assert written == "# mine\nkeyboard: de\nmigration: secure\ncrs: ha=dynamic\n"


def test_the_usual_is_not_written() -> None:
    assert datacenter_text(USUAL, "crs: ha=static\nha: shutdown_policy=freeze") == ""


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (Datacenter(Scheduling(mode="odd")), "crs: ha must be one of basic, static"),
        (Datacenter(Scheduling(method="odd")), "ha-auto-rebalance-method must be"),
        (Datacenter(shutdown_policy="a,b"), "ha: shutdown_policy must be one of"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(
    settings: Datacenter, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        datacenter_text(settings)


shares = st.floats(0, 1, allow_subnormal=False)
drawn = st.builds(
    Datacenter,
    scheduling=st.builds(
        Scheduling,
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


@given(drawn, st.sampled_from(Share))
def test_reading_what_was_written_gives_it_back(
    settings: Datacenter, share: Share
) -> None:
    again = read_datacenter(datacenter_text(settings, share=share), share)

    assert again.settings == settings
    assert again.warnings == ()
