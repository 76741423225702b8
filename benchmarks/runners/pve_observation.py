"""Duration of an observation of Proxmox VE, and the number of its requests.

    PYTHONPATH=tests .venv/bin/python benchmarks/runners/pve_observation.py

The double of Proxmox VE serves 200 nodes and 4,000 guests in a process of its own, over
TLS on loopback. The connections are opened by the first observation. The routes of the
double are those of the API description, which `OPENDRS_SHARED` has.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from threading import Event

from opendrs.controller import SystemClock
from opendrs.platforms.proxmox import ProxmoxPlatform, ProxmoxSettings
from support.https_server import Certificate
from support.pve_clusters import imbalanced_cluster
from support.pve_double import LOGIN, TOKEN_VARIABLE, run_double

VERSION = "9.2.11"
CLOCK = SystemClock()


def serve(nodes: int, guests: int) -> None:
    """Serve a cluster, and print its host and fingerprint."""
    cluster = imbalanced_cluster(VERSION, nodes, guests)
    with run_double(cluster, Certificate()) as running:
        host, fingerprint = running.servers[0].host, running.certificate.fingerprint
        print(host, fingerprint, flush=True)
        Event().wait()


def measure(host: str, fingerprint: str, repetitions: int) -> None:
    """Print the table of *repetitions* observations."""
    os.environ[TOKEN_VARIABLE] = LOGIN
    platform = ProxmoxPlatform(
        "double",
        ProxmoxSettings(
            hosts=(host,), token_env=TOKEN_VARIABLE, fingerprints=(fingerprint,)
        ),
    )
    print("| observation | requests | s | nodes | guests |\n|---|---|---|---|---|")
    for number in range(1, repetitions + 1):
        before, begin = platform.request_count, CLOCK.monotonic()
        snapshot = platform.observe()
        seconds = CLOCK.monotonic() - begin
        requests = platform.request_count - before
        sizes = f"{len(snapshot.nodes)} | {len(snapshot.guests)}"
        print(f"| {number} | {requests} | {seconds:.1f} | {sizes} |")


def main() -> None:
    """Measure, or serve if `--serve` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--guests", type=int, default=4000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help="only serve the cluster")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.nodes, arguments.guests)
        return
    sizes = [f"--nodes={arguments.nodes}", f"--guests={arguments.guests}"]
    with subprocess.Popen(  # noqa: S603 - this program
        [sys.executable, __file__, "--serve", *sizes], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            first_line = server.stdout.readline() if server.stdout else ""
            host, fingerprint = first_line.split()
            measure(host, fingerprint, arguments.repetitions)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
