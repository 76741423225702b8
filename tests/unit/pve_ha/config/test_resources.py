import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.config.diagnostics import Diagnostic
from opendrs.errors import DiagnosticCode
from opendrs.model import NodeId
from opendrs.pve_ha.config import ResourceConfig, format_resources, read_resources
from opendrs.pve_ha.states import RequestedState, ServiceId
from opendrs.pve_ha.status_files import ServiceConfig

ONE = ServiceId("vm:101")


def test_read_resources_returns_all_properties() -> None:
    text = (
        "vm: 101\n\tstate stopped\n\tgroup mine\n\tfailback 0\n"
        "\tmax_restart 3\n\tmax_relocate 0\n\tcomment a%3A b\n"
    )

    found = read_resources(text)

    assert found.warnings == ()
    assert found.resources == {
        ONE: ResourceConfig(
            state=RequestedState.STOPPED,
            group="mine",
            failback=False,
            max_restart=3,
            max_relocate=0,
            comment="a: b",
        )
    }


def test_missing_properties_have_defaults() -> None:
    found = read_resources("ct: 100\n")

    assert found.resources == {
        ServiceId("ct:100"): ResourceConfig(
            state=RequestedState.STARTED, failback=True, max_restart=1, max_relocate=1
        )
    }


def test_enabled_is_read_as_started() -> None:
    found = read_resources("vm: 101\n\tstate enabled\n")

    assert found.resources[ONE].state is RequestedState.STARTED


@pytest.mark.parametrize(
    ("line", "warning", "code"),
    [
        ("state on", "line 2: bad value of state: on", DiagnosticCode.INVALID_VALUE),
        (
            "max_restart -1",
            "line 2: bad value of max_restart: -1",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            "max_relocate many",
            "line 2: bad value of max_relocate: many",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            "failback yes",
            "line 2: bad value of failback: yes",
            DiagnosticCode.INVALID_VALUE,
        ),
        ("group 1st", "line 2: bad value of group: 1st", DiagnosticCode.INVALID_VALUE),
        ("node node1", "line 2: unknown property node", DiagnosticCode.UNKNOWN_KEY),
        ("state", "line 2: bad value of state: None", DiagnosticCode.INVALID_VALUE),
    ],
)
def test_invalid_property_is_dropped(
    line: str, warning: str, code: DiagnosticCode
) -> None:
    found = read_resources(f"vm: 101\n\t{line}\n")

    assert found.resources == {ONE: ResourceConfig()}
    assert found.warnings == (Diagnostic.warning((), warning, code),)


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("vm: web", DiagnosticCode.INVALID_VALUE),
        ("vm: 99", DiagnosticCode.INVALID_VALUE),
        ("vm: 0101", DiagnosticCode.INVALID_VALUE),
        ("fa: 101", DiagnosticCode.UNKNOWN_VALUE),
    ],
)
def test_invalid_service_is_skipped(header: str, code: DiagnosticCode) -> None:
    found = read_resources(f"{header}\n\tstate started\n")

    assert found.resources == {}
    message = f"line 1: invalid section {header}"
    assert found.warnings == (Diagnostic.warning((), message, code),)


def test_later_section_of_duplicate_service_counts() -> None:
    found = read_resources("vm: 101\n\tmax_restart 2\n\nvm: 101\n\tmax_restart 5\n")

    assert found.resources[ONE].max_restart == 5


def test_service_config_has_node_and_lock() -> None:
    resource = ResourceConfig(max_restart=2, group="mine")

    assert resource.to_service_config(NodeId("node1"), lock="backup") == ServiceConfig(
        node=NodeId("node1"),
        state="started",
        max_restart=2,
        group="mine",
        lock="backup",
    )


services = st.builds(
    lambda kind, number: ServiceId(f"{kind}:{number}"),
    st.sampled_from(["vm", "ct"]),
    st.integers(100, 999_999_999),
)
comments = st.none() | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda text: text == text.strip())
resources = st.builds(
    ResourceConfig,
    state=st.sampled_from(RequestedState),
    group=st.none() | st.text(alphabet="ab_-1", max_size=3).map("g1{}".format),
    failback=st.booleans(),
    max_restart=st.integers(0, 9),
    max_relocate=st.integers(0, 9),
    comment=comments,
)


@given(st.dictionaries(services, resources, max_size=4))
def test_read_restores_written_resources(
    known: dict[ServiceId, ResourceConfig],
) -> None:
    again = read_resources(format_resources(known))

    assert again.resources == known
    assert list(again.resources) == list(known)
    assert again.warnings == ()
