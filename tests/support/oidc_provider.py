"""The OpenID provider of the package oidc-provider-mock, as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from support.dashboard_lab import eventually
from support.network import free_port


@contextmanager
def provider_process(place: Path, users: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Run a provider, and yield its address.

    It is on the host localhost: another site for a browser than 127.0.0.1.

    Args:
        place: A directory for its log.
        users: Groups of each user.
    """
    port = free_port()
    words = ["--port", str(port), "--require-nonce", "true"]
    for user, groups in users.items():
        claims = {"sub": user, "preferred_username": user, "groups": groups}
        words += ["--user-claims", json.dumps(claims)]
    address = f"http://localhost:{port}"
    with (place / "provider.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - of a dependency
            [sys.executable, "-m", "oidc_provider_mock", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: _responds(address), "the provider responds")
        yield address
    finally:
        process.terminate()
        process.wait(120)


def _responds(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/jwks").is_success
    except httpx2.HTTPError:
        return False
