"""A controller on the simulated cluster, with the dashboard: `opendrs demo --serve`."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import click
import tomli_w

from opendrs.cli.configuration import load_settings
from opendrs.cli.logs import TEXT, log_to_stderr
from opendrs.cli.monitors import monitor_controller
from opendrs.cli.platform_store import cli_actor, open_to_operate
from opendrs.cli.platforms import ClusterSource
from opendrs.cli.web_context import sign_in_link
from opendrs.cli.wiring import ControllerFactory, cancel_on_signals
from opendrs.config.api_schema import HEALTH_PATH
from opendrs.config.controller_settings import Mode
from opendrs.config.monitoring_settings import split_listen_address
from opendrs.config.settings import Settings
from opendrs.controller import CancellationToken, SystemClock
from opendrs.simulation import SimulatedPlatform, demo_cluster
from opendrs.store import DatabaseAccessStore

COOLDOWN = 60.0  # seconds
INTERVAL = 30.0  # seconds between two cycles
LOAD_VARIATION = 0.35  # of the CPU usage of a guest, over hours
BANDWIDTH = 500e6  # bytes per second on the link of a node
PLATFORM = "simulated"
PROBE_INTERVAL = 0.1  # seconds between two requests to the starting server
PROBE_TIMEOUT = 2.0  # seconds


def run_demo_controller(
    seed: int, mode: Mode, base: Settings, policy: str, changes: Mapping[str, object]
) -> int:
    """Run a controller on the simulated cluster until Ctrl-C, and serve the dashboard.

    All files are in a temporary directory, which is deleted at the end.

    Args:
        seed: Seed of the cluster.
        mode: Mode of the controller.
        base: Settings of policies, and the address of the dashboard, whose port is
            another one if it is in use.
        policy: Name of the policy.
        changes: Settings of the policy that override the configured ones.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="opendrs-demo-")
        )
        config = Path(directory) / "opendrs.toml"
        values = {**base.policy_settings.get(policy, {}), **changes}
        document = _configuration(mode, _free_address(base.web.listen), policy, values)
        config.write_text(tomli_w.dumps(document), encoding="utf-8")
        settings = load_settings(config)
        cancellation = CancellationToken()
        stack.enter_context(log_to_stderr(TEXT, "info"))
        stack.enter_context(cancel_on_signals(cancellation, aborts=True))
        source = _simulated_source(seed)
        observers = stack.enter_context(
            monitor_controller(
                settings,
                source,
                cancellation,
                serving=True,
                serve_words=("serve", str(config), "--level", "warning"),
            )
        )
        parts = ControllerFactory(settings, source, cancellation, stack, observers)
        if not parts.acquire_store():
            return 0
        stack.callback(observers.loop_polled)  # records the last events
        stack.enter_context(_introduction(settings, config))
        controller = parts.create(
            config=config,
            serving=False,
            repair_command=None,
            reconfigure=lambda: None,
        )
        controller.run_forever()
    return 0


def _configuration(
    mode: Mode, address: str, policy: str, policy_settings: Mapping[str, object]
) -> dict[str, object]:
    """Return the configuration.

    The kind of the platform has no effect: only the simulated one is used.
    """
    return {
        "platform": {PLATFORM: {"kind": "file", "path": "cluster.json"}},
        "policy": {"name": policy, policy: policy_settings},
        "controller": {"mode": mode.value, "interval": INTERVAL},
        "limits": {"cooldown": COOLDOWN},
        "store": {"path": "store.sqlite"},
        "web": {"listen": address},
    }


def _free_address(address: str) -> str:
    """Return *address*, with another port if that one is in use."""
    host, port = split_listen_address(address)
    for candidate in (port, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except OSError:
                continue
            return f"{host}:{probe.getsockname()[1]}"
    return address  # the server reports the error


def _simulated_source(seed: int) -> ClusterSource:
    clock = SystemClock()
    platform = SimulatedPlatform(
        replace(demo_cluster(seed), bandwidth=BANDWIDTH),
        clock,
        name=PLATFORM,
        seed=seed,
        bandwidth=BANDWIDTH,
        load_variation=LOAD_VARIATION,
    )
    return ClusterSource(platform=platform, clock=clock, is_persistent=True)


@contextmanager
def _introduction(settings: Settings, config: Path) -> Iterator[None]:
    """Print the introduction in a `with` statement, once the dashboard responds."""
    stopped = threading.Event()

    def introduce() -> None:
        while not stopped.wait(PROBE_INTERVAL):
            if _responds(settings.web.listen):
                _print_introduction(settings, config)
                return

    thread = threading.Thread(target=introduce, name="introduction", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _responds(address: str) -> bool:
    """Return True if the server at *address* responds."""
    host, port = split_listen_address(address)
    connection = HTTPConnection(host, port, timeout=PROBE_TIMEOUT)
    try:
        connection.request("GET", HEALTH_PATH)
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _print_introduction(settings: Settings, config: Path) -> None:
    """Print the address of the dashboard, and how to follow in the terminal."""
    address = f"{settings.web.scheme}://{settings.web.listen}/"
    with open_to_operate(PLATFORM, settings) as store:
        access = DatabaseAccessStore(store)
        link = sign_in_link(access, SystemClock(), cli_actor(), address)
    click.echo(f"dashboard (this link signs in once, within 10 minutes): {link}")
    click.echo(f"commands: opendrs plans {PLATFORM} --config {config}")
    click.echo(f"          opendrs approve {PLATFORM} ID --config {config}")
    click.echo(f"          opendrs access link {PLATFORM} --config {config}")
    click.echo("Ctrl-C stops the demo")
