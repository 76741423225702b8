"""Duration of an observation of OpenStack, and the number of its requests.

    PYTHONPATH=tests .venv/bin/python benchmarks/runners/openstack_observation.py

The double of Nova and Placement serves 200 hosts and 4,000 servers over loopback, in
the same process: the seconds include the responses. From the second observation on,
inventories and traits are known.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from opendrs.controller import SystemClock
from opendrs.platforms.openstack import OpenStackPlatform
from support.nova_double import CloudServer, NovaDouble, served

CLOCK = SystemClock()
GROUPED = 4  # one server in so many begins a server group of two


def create_cloud(hosts: int, servers: int) -> NovaDouble:
    """Return a cloud with soft anti-affinity groups of two servers."""
    names = [f"h{number}" for number in range(hosts)]
    drawn = [CloudServer(f"s{n}", names[n % hosts]) for n in range(servers)]
    cloud = NovaDouble(names, *drawn)
    cloud.groups = [
        {
            "id": f"g{n}",
            "name": f"g{n}",
            "policy": "soft-anti-affinity",
            "members": [drawn[n].id, drawn[n + 1].id],
        }
        for n in range(0, servers - 1, GROUPED)
    ]
    return cloud


def measure(cloud: NovaDouble, repetitions: int) -> None:
    """Print the table of *repetitions* observations."""
    print("| observation | requests | s | nodes | guests |\n|---|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as directory,
        served(cloud, Path(directory)) as double,
    ):
        platform = OpenStackPlatform("double", double.settings)
        for number in range(1, repetitions + 1):
            before, begin = len(cloud.requests), CLOCK.monotonic()
            snapshot = platform.observe()
            seconds = CLOCK.monotonic() - begin
            requests = len(cloud.requests) - before
            sizes = f"{len(snapshot.nodes)} | {len(snapshot.guests)}"
            print(f"| {number} | {requests} | {seconds:.1f} | {sizes} |")


def main() -> None:
    """Measure the size of the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--servers", type=int, default=4000)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    measure(create_cloud(arguments.hosts, arguments.servers), arguments.repetitions)


if __name__ == "__main__":
    main()
