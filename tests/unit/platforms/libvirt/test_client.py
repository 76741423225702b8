"""Hosts are asked with a deadline. The driver test:/// stands for a host."""

from __future__ import annotations

from threading import Event

import pytest

from opendrs.errors import (
    ConfigurationError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import GuestState, NodeId, NodeState
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.platforms.libvirt.client import Host, asked_at_once
from opendrs.platforms.libvirt.library import Connection

libvirt = pytest.importorskip("libvirt")

H1 = NodeId("h1")
DRIVER = "test:///default"


def test_a_host_that_does_not_answer_in_time_is_unavailable() -> None:
    never, host = Event(), Host(H1, DRIVER, timeout=0.01)

    with pytest.raises(
        PlatformUnavailableError, match=r"h1 did not answer within 0.01"
    ):
        host.ask(lambda _: never.wait())
    never.set()


def test_a_call_that_hangs_does_not_hold_up_the_next() -> None:
    never, host = Event(), Host(H1, DRIVER, timeout=5)
    host._timeout = 0.01  # noqa: SLF001 -- only the first call is to hang
    with pytest.raises(PlatformUnavailableError):
        host.ask(lambda _: never.wait())
    host._timeout = 5  # noqa: SLF001

    assert host.ask(lambda connection: connection.getHostname())
    never.set()


def test_one_connection_serves_many_questions() -> None:
    host = Host(H1, DRIVER, timeout=5)

    def identity(connection: Connection) -> int:
        return id(connection)

    assert host.ask(identity) == host.ask(identity)


def test_an_error_of_the_host_is_told_with_its_name(
    capfd: pytest.CaptureFixture[str],
) -> None:
    host = Host(H1, DRIVER, timeout=5)

    with pytest.raises(PlatformError, match="h1 says: Domain not found"):
        host.ask(lambda connection: connection.lookupByName("nobody"))

    assert capfd.readouterr().err == ""


def test_tells_the_hosts_that_answered_from_those_that_did_not() -> None:
    hosts = {
        H1: Host(H1, DRIVER, timeout=5),
        NodeId("h2"): Host(NodeId("h2"), "qemu:///system?socket=/nowhere", timeout=5),
    }

    answers, silent = asked_at_once(
        hosts, lambda host: host.ask(lambda connection: connection.getType())
    )

    assert answers == {"h1": "TEST"}
    assert str(silent[NodeId("h2")]).startswith("h2 cannot be reached: ")


@pytest.mark.parametrize("uri", ["qemu+pigeon://host/system", "qemu+:/"])
def test_a_uri_that_libvirt_cannot_use_is_for_the_operator_to_mend(uri: str) -> None:
    platform = LibvirtPlatform("lab", LibvirtSettings(nodes={"h1": uri}))

    with pytest.raises(ConfigurationError, match=r"nodes\.h1"):
        platform.observe()


def test_reads_a_host_that_does_not_say_everything() -> None:
    settings = LibvirtSettings(nodes={"h1": DRIVER}, sample=0.01)

    seen = LibvirtPlatform("lab", settings).observe()

    assert seen.nodes[H1].state is NodeState.ONLINE
    assert seen.nodes[H1].usage.memory is None
    assert {guest.state for guest in seen.guests.values()} == {GuestState.RUNNING}


def test_two_uris_of_one_host_are_for_the_operator_to_mend() -> None:
    nodes = {"h1": "test:///default", "h2": "test:/default"}
    settings = LibvirtSettings(nodes=nodes, sample=0.01)

    with pytest.raises(ConfigurationError, match="same host as"):
        LibvirtPlatform("lab", settings).observe()


def test_a_host_that_cannot_abort_says_so() -> None:
    host = Host(H1, DRIVER, timeout=5)

    with pytest.raises(UnsupportedError):
        host.ask(lambda connection: connection.lookupByName("test").abortJob())


def test_a_host_that_stays_away_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = {"h1": DRIVER, "h2": "qemu:///system?socket=/nowhere"}
    platform = LibvirtPlatform("lab", LibvirtSettings(nodes=nodes, sample=0.01))

    platform.observe()
    platform.observe()

    (record,) = caplog.records
    assert record.getMessage().startswith("h2 cannot be reached: ")
    assert record.getMessage().endswith("; its guests are not seen")
