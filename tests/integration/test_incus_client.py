"""Client of Incus over real TLS and a real socket, with servers that fail."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.platforms.incus import IncusPlatform, client
from opendrs.platforms.incus.client import IncusClient, IncusNotFoundError
from support.incus_documents import double, instance
from support.incus_double import Failure, IncusDouble, TlsFiles, serve_socket

UNUSED = "https://127.0.0.1:9"  # nothing listens there
SHORT = 1.0  # seconds; an idle machine answers in some milliseconds


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def cluster() -> IncusDouble:
    return double(instance("v1"))


@pytest.fixture
def connected(tls: TlsFiles, cluster: IncusDouble) -> Iterator[IncusClient]:
    with tls.serve(cluster) as url:
        yield IncusClient(tls.settings(url))


def test_read_with_client_certificate_returns_metadata(connected: IncusClient) -> None:
    assert connected.read("/1.0") == double().server


def test_read_over_unix_socket_returns_metadata(
    cluster: IncusDouble, tmp_path: Path
) -> None:
    with serve_socket(cluster, tmp_path / "unix.socket") as settings:
        assert IncusClient(settings).read("/1.0") == double().server


def test_read_first_member_down_uses_the_next(
    tls: TlsFiles, cluster: IncusDouble
) -> None:
    with tls.serve(cluster) as url:
        assert IncusClient(tls.settings(UNUSED, url)).read("/1.0") == double().server


def test_read_no_member_up_is_unavailable(tls: TlsFiles) -> None:
    with pytest.raises(PlatformUnavailableError) as caught:
        IncusClient(tls.settings(UNUSED)).read("/1.0", attempts=1)

    assert len(caught.value.details) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_read_without_socket_is_unavailable(
    cluster: IncusDouble, tmp_path: Path
) -> None:
    with serve_socket(cluster, tmp_path / "unix.socket") as settings:
        pass

    with pytest.raises(PlatformUnavailableError):
        IncusClient(settings).read("/1.0", attempts=1)

    gc.collect()  # httpcore2 does not close a unix socket that cannot be connected


@pytest.mark.parametrize("pinned", ["file", "fingerprint"])
def test_another_certificate_of_the_same_authority_is_rejected_before_a_request(
    tls: TlsFiles, cluster: IncusDouble, pinned: str
) -> None:
    pin = (
        {}
        if pinned == "file"
        else {"server_certificate": None, "fingerprint": tls.fingerprint()}
    )
    with tls.serve(cluster, "renewed") as url, pytest.raises(PermissionDeniedError):
        IncusClient(tls.settings(url, **pin)).read("/1.0")

    assert cluster.requests == []


def test_changed_certificate_names_both_fingerprints(
    tls: TlsFiles, cluster: IncusDouble
) -> None:
    settings = {"server_certificate": None, "fingerprint": tls.fingerprint()}
    with (
        tls.serve(cluster, "renewed") as url,
        pytest.raises(PermissionDeniedError) as caught,
    ):
        IncusClient(tls.settings(url, **settings)).read("/1.0")

    assert tls.fingerprint("cluster") in str(caught.value)
    assert tls.fingerprint("renewed") in str(caught.value)


def test_fingerprint_of_the_cluster_is_accepted(
    tls: TlsFiles, cluster: IncusDouble
) -> None:
    pin = {"server_certificate": None, "fingerprint": tls.fingerprint().upper()}
    with tls.serve(cluster) as url:
        assert IncusClient(tls.settings(url, **pin)).read("/1.0") == double().server


@pytest.mark.parametrize("name", ["certificate", "key", "server_certificate"])
@pytest.mark.parametrize("content", [None, "no PEM"])
def test_unreadable_file_is_a_configuration_error(
    tls: TlsFiles, tmp_path: Path, name: str, content: str | None
) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_text(content)

    with pytest.raises(ConfigurationError) as caught:
        IncusClient(tls.settings(UNUSED, **{name: file}))

    assert name in str(caught.value)


def test_missing_key_is_taken_from_systemd_credentials(
    tls: TlsFiles, cluster: IncusDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tls.directory))
    key = Path("/nonexistent/client.key")

    with tls.serve(cluster) as url:
        assert IncusClient(tls.settings(url, key=key)).read("/1.0") == double().server


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (403, "not authorized", PermissionDeniedError),
        (500, "Certificate is restricted", PermissionDeniedError),
        (500, 'User does not have permissions for project "a"', PermissionDeniedError),
        (404, "Instance not found", IncusNotFoundError),
        (503, "Cluster member is offline", PlatformUnavailableError),
        (500, "Server isn't ready yet", PlatformUnavailableError),
        (500, "Target cluster member is unavailable", PlatformUnavailableError),
        (500, "Missing event connection with target", PlatformUnavailableError),
        (400, "Instances with backups cannot be moved", PlatformError),
    ],
)
def test_error_of_incus_has_the_class_of_what_to_do(
    cluster: IncusDouble,
    connected: IncusClient,
    status: int,
    message: str,
    error: type[PlatformError],
) -> None:
    cluster.failures = [Failure("/1.0/x", status=status, message=message)]

    with pytest.raises(error) as caught:
        connected.read("/1.0/x", attempts=1)

    assert type(caught.value) is error


@pytest.mark.parametrize(
    "failure",
    [
        Failure("x", status=200, body=b""),
        Failure("x", status=200, body=b'{"type": "sync", "metadata": '),
        Failure("x", status=200, body=b"[]"),
        Failure("x", status=502, body=b"<html>proxy</html>"),
        Failure("x", status=200, body=b"[" * 100_000),
    ],
    ids=["empty", "truncated", "list", "html", "deep"],
)
def test_answer_that_is_not_of_incus_is_unexpected(
    cluster: IncusDouble, connected: IncusClient, failure: Failure
) -> None:
    cluster.failures = [failure]

    with pytest.raises(UnexpectedResponseError):
        connected.read("/1.0/x")

    assert len(cluster.requests) == 1


def test_oversized_answer_is_unexpected(
    cluster: IncusDouble, connected: IncusClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_BODY_SIZE", 1000)
    cluster.failures = [Failure("x", status=200, body=b" " * 2000)]

    with pytest.raises(UnexpectedResponseError):
        connected.read("/1.0/x")


@pytest.mark.parametrize(
    "failure",
    [Failure("x", delay=1000), Failure("x", status=200, body=b"x" * 100, drip=10)],
    ids=["silent", "dripping"],
)
def test_slow_answer_ends_at_the_deadline(
    cluster: IncusDouble, tls: TlsFiles, failure: Failure
) -> None:
    cluster.failures = [failure]
    before = monotonic()

    with tls.serve(cluster) as url, pytest.raises(PlatformUnavailableError):
        IncusClient(tls.settings(url, timeout=SHORT)).read("/1.0/x", attempts=1)

    assert monotonic() - before < 1000


def test_unavailable_read_is_repeated(
    cluster: IncusDouble, connected: IncusClient
) -> None:
    cluster.failures = [Failure("x", status=503)]
    cluster.failures[0].act = cluster.failures.clear

    with pytest.raises(IncusNotFoundError):
        connected.read("/1.0/x")

    assert len(cluster.requests) == 2


def test_start_is_sent_once(cluster: IncusDouble, tls: TlsFiles) -> None:
    cluster.failures = [Failure("POST", status=503)]

    with tls.serve(cluster) as one, tls.serve(cluster) as two:
        connected = IncusClient(tls.settings(one, two))
        with pytest.raises(PlatformUnavailableError):
            connected.write("POST", "/1.0/instances/v1", {"target": "h2"}, {})

    assert len(cluster.starts()) == 1


def test_start_that_times_out_is_sent_once(cluster: IncusDouble, tls: TlsFiles) -> None:
    cluster.failures = [Failure("POST", delay=1000)]

    for timeout in (SHORT, 10.0, 60.0):  # a busy machine may not send it in time
        with tls.serve(cluster) as url, pytest.raises(PlatformUnavailableError):
            IncusClient(tls.settings(url, timeout=timeout)).write(
                "POST", "/1.0/instances/v1", {"target": "h2"}, {}
            )
        if cluster.starts():
            break

    assert len(cluster.starts()) == 1


def test_requests_at_the_same_time_are_limited(
    cluster: IncusDouble, tls: TlsFiles
) -> None:
    active: list[int] = []

    def count() -> None:
        active.append(len(cluster.requests))

    cluster.failures = [Failure("state", delay=0.3, act=count)]
    with tls.serve(cluster) as url:
        platform = IncusPlatform("lab", tls.settings(url, max_requests=1))
        snapshot = platform.observe()

    assert len(active) == 3
    assert not any(node.reachable for node in snapshot.nodes.values())


def test_secrets_are_not_in_representations(tls: TlsFiles) -> None:
    settings = tls.settings(UNUSED)
    key = (tls.directory / "client.key").read_text().splitlines()[1]

    assert key not in repr(settings)
    assert key not in repr(IncusClient(settings))
