"""Hosts are asked with a deadline. The driver test:/// stands for a host."""

from __future__ import annotations

import subprocess
import sys
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
from opendrs.platforms.libvirt.client import (
    LibvirtConnection,
    RawConnection,
    load_library,
    query_all,
)

libvirt = pytest.importorskip("libvirt")
H1 = NodeId("h1")
DRIVER = "test:///default"


def test_a_host_that_does_not_answer_in_time_is_unavailable() -> None:
    never, host = Event(), LibvirtConnection(H1, DRIVER, timeout=0.01)

    with pytest.raises(PlatformUnavailableError, match=r"h1: timeout after 0.01"):
        host.query(lambda _: never.wait())
    never.set()


def test_a_call_that_hangs_does_not_hold_up_the_next() -> None:
    never, host = Event(), LibvirtConnection(H1, DRIVER, timeout=60)
    host._timeout = 0.01  # noqa: SLF001 -- only the first call is to hang
    with pytest.raises(PlatformUnavailableError):
        host.query(lambda _: never.wait())
    host._timeout = 60  # noqa: SLF001

    assert host.query(lambda connection: connection.getHostname())
    never.set()


def test_connection_is_reused() -> None:
    host = LibvirtConnection(H1, DRIVER, timeout=60)

    def identity(connection: RawConnection) -> int:
        return id(connection)

    assert host.query(identity) == host.query(identity)


def test_host_error_names_the_host(
    capfd: pytest.CaptureFixture[str],
) -> None:
    host = LibvirtConnection(H1, DRIVER, timeout=60)

    with pytest.raises(PlatformError, match="h1: Domain not found"):
        host.query(lambda connection: connection.lookupByName("nobody"))

    assert capfd.readouterr().err == ""


def test_query_all_separates_unreachable_hosts() -> None:
    hosts = {
        H1: LibvirtConnection(H1, DRIVER, timeout=60),
        NodeId("h2"): LibvirtConnection(
            NodeId("h2"), "qemu:///system?socket=/nowhere", timeout=60
        ),
    }

    answers, silent = query_all(
        hosts, lambda host: host.query(lambda connection: connection.getType())
    )

    assert answers == {"h1": "TEST"}
    assert str(silent[NodeId("h2")]).startswith("h2: unreachable: ")


@pytest.mark.parametrize("uri", ["qemu+pigeon://host/system", "qemu+:/"])
def test_unusable_uri_is_a_configuration_error(uri: str) -> None:
    platform = LibvirtPlatform("lab", LibvirtSettings(nodes={"h1": uri}))

    with pytest.raises(ConfigurationError, match=r"nodes\.h1"):
        platform.observe()


def test_host_with_partial_response_is_read() -> None:
    settings = LibvirtSettings(nodes={"h1": DRIVER}, sample=0.01)

    seen = LibvirtPlatform("lab", settings).observe()

    assert seen.nodes[H1].state is NodeState.ONLINE
    assert seen.nodes[H1].usage.memory is None
    assert {guest.state for guest in seen.guests.values()} == {GuestState.RUNNING}


def test_two_uris_of_one_host_are_a_configuration_error() -> None:
    nodes = {"h1": "test:///default", "h2": "test:/default"}
    settings = LibvirtSettings(nodes=nodes, sample=0.01)

    with pytest.raises(ConfigurationError, match="same host as"):
        LibvirtPlatform("lab", settings).observe()


def test_host_without_abort_is_reported() -> None:
    host = LibvirtConnection(H1, DRIVER, timeout=60)

    with pytest.raises(UnsupportedError):
        host.query(lambda connection: connection.lookupByName("test").abortJob())


def test_unreachable_host_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = {"h1": DRIVER, "h2": "qemu:///system?socket=/nowhere"}
    platform = LibvirtPlatform("lab", LibvirtSettings(nodes=nodes, sample=0.01))

    platform.observe()
    platform.observe()

    (record,) = caplog.records
    assert record.getMessage().startswith("h2: unreachable: ")
    assert record.getMessage().endswith("; its guests are not observed")


def test_loading_the_package_does_not_load_libvirt() -> None:
    code = "import sys, opendrs.platforms.libvirt; sys.exit('libvirt' in sys.modules)"

    done = subprocess.run(  # noqa: S603 -- this very Python
        [sys.executable, "-c", code], check=False
    )

    assert done.returncode == 0


def test_missing_library_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)
    load_library.cache_clear()
    settings = LibvirtSettings(nodes={"h1": "test:///default"})

    with pytest.raises(ConfigurationError, match=r"pip install .\.\[libvirt\]"):
        LibvirtPlatform("lab", settings).observe()
