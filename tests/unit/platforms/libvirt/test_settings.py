"""Settings that cannot be are refused at once, all together, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import InvalidSettingError
from opendrs.platforms.libvirt import LibvirtSettings

NODES = {"h1": "qemu+ssh://root@h1/system", "h2": "qemu+tls://h2:16514/system"}


def problems_of(**changes: Any) -> tuple[str, ...]:  # noqa: ANN401
    with pytest.raises(InvalidSettingError) as caught:
        LibvirtSettings(**{"nodes": NODES, **changes})
    return caught.value.messages


def test_needs_nothing_but_nodes() -> None:
    settings = LibvirtSettings(nodes=NODES)

    assert settings.auto_converge
    assert not settings.post_copy
    assert settings.bandwidth is None


def test_peers_use_the_connection_uri_unless_another_is_given() -> None:
    settings = LibvirtSettings(
        nodes=NODES, migration_uris={"h2": "qemu+tcp://10.0.0.2/system"}
    )

    assert settings.peer_uri("h1") == NODES["h1"]
    assert settings.peer_uri("h2") == "qemu+tcp://10.0.0.2/system"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": {}}, "nodes: expected at least one node with its URI, got none"),
        (
            {"network_capacity": 10.0},
            "network_capacity: expected 1024 to 1e+15 bytes/s, got 10",
        ),
        (
            {"nodes": {"": "qemu:///system"}},
            "nodes: expected a name for each node, got an empty one",
        ),
        (
            {"nodes": {"a": "qemu:///system", "b": "qemu:///system"}},
            "nodes.b: same URI as a; each node needs its own",
        ),
        (
            {"nodes": {"a": "my host"}},
            "nodes.a: expected a URI such as qemu+ssh://root@host/system",
        ),
        (
            {"migration_uris": {"h3": "qemu+tcp://h3/system"}},
            "migration_uris.h3: unknown node; expected a name in nodes",
        ),
        (
            {"labels": {"h3": ("ssd",)}},
            "labels.h3: unknown node; expected a name in nodes",
        ),
        (
            {"bandwidth": 1000},
            (
                "bandwidth: expected at least 1048576 bytes/s "
                "(the minimum of libvirt), got 1000"
            ),
        ),
        ({"sample": 0.0}, "sample: expected more than 0 s, got 0.0"),
        (
            {"timeout": float("nan")},
            "timeout: expected more than 0 s, got nan",
        ),
        (
            {"post_copy_after": float("inf")},
            "post_copy_after: expected more than 0 s, got inf",
        ),
        (
            {"timeout": 1e300},
            "timeout: expected at most 86400 s, got 1e+300",
        ),
        (
            {"shared_storage": ("srv/vms",)},
            "shared_storage: expected absolute paths, got 'srv/vms'",
        ),
    ],
)
def test_invalid_setting_is_reported(changes: Mapping[str, Any], message: str) -> None:
    assert problems_of(**changes) == (message,)


def test_all_invalid_settings_are_reported() -> None:
    assert len(problems_of(bandwidth=0, sample=-1, labels={"h3": ()})) == 3


@pytest.mark.parametrize(
    "uri",
    [
        "qemu+ssh://root:sesame@h1/system",
        "qemu+ssh://root:ses@me@h1/system",
        "qemu+ssh://root:ses/ame@h1:22/system",
        "qemu+tcp://h1/system?password=sesame",
        "esx://h1/?auth_token=sesame",
    ],
)
@pytest.mark.parametrize("where", ["nodes", "migration_uris"])
def test_password_is_rejected_and_not_repeated(uri: str, where: str) -> None:
    (message,) = problems_of(**{where: {**NODES, "h1": uri}})

    assert "contains a password" in message
    assert "ses" not in message


@pytest.mark.parametrize(
    "uri",
    [
        "qemu:///system?socket=/run/a@b:c/libvirt-sock",
        "qemu+ssh://root@h1:22/system?keyfile=/home/a@b/id",
        "qemu+ssh://h1:2222/system?keyfile=/home/a@b/id",
        "qemu+tcp://[2001:db8::1]:16509/system",
        "test:///default",
    ],
)
def test_takes_uris_that_hold_no_password(uri: str) -> None:
    assert LibvirtSettings(nodes={"h1": uri}).nodes["h1"] == uri


@given(password=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=9))
def test_no_password_is_ever_repeated(password: str) -> None:
    uri = f"qemu+ssh://root:{password}@host/system"
    try:
        LibvirtSettings(nodes={"h1": uri})
    except InvalidSettingError as error:
        assert password not in str(error)  # noqa: PT017
