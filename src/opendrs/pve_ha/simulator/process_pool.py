"""Parallel simulation of the failure of each node."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection

from opendrs.errors import OpenDRSError
from opendrs.model import NodeId
from opendrs.pve_ha.simulator.failure_impact import FailureImpact
from opendrs.pve_ha.simulator.node_failure import FailureRun, NodeFailureSimulation

MIN_SERVICES_FOR_POOL = 400  # services from which several processes are faster


@contextmanager
def simulate_failures(
    simulation: NodeFailureSimulation,
    nodes: Sequence[NodeId],
    processes: int | None = None,
) -> Iterator[Iterator[FailureImpact]]:
    """Provide an iterator over the impact of the failure of each node, in order.

    The processes are forked after the common start phase. They must be created before
    this process has threads, such as that of a progress bar, so they are created on
    entry.

    Args:
        simulation: Simulation after its start phase.
        nodes: The nodes.
        processes: Number of processes. None: one per core, or only this process if the
            cluster is small or the platform is not Linux.

    Raises:
        OpenDRSError: A process was killed.
    """
    count = _default_process_count(simulation) if processes is None else processes
    if min(count, len(nodes)) < 2:
        yield (simulation.simulate([node]) for node in nodes)
        return
    reader, writer = Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(count, len(nodes)),
        get_context("fork"),
        _initialize_process,
        (simulation, reader, writer),
    )
    try:
        failure_runs = pool.map(_run_failure, nodes)
        yield (
            simulation.impact_of([node], failure_run)
            for node, failure_run in zip(nodes, failure_runs, strict=True)
        )
    except BrokenProcessPool as error:
        raise OpenDRSError(
            "drill: worker process killed, probably out of memory; retry, or "
            "simulate the failure of one node with --fail NODE"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
        reader.close()
        writer.close()


def _default_process_count(simulation: NodeFailureSimulation) -> int:
    if simulation.service_count < MIN_SERVICES_FOR_POOL or sys.platform != "linux":
        return 1
    return len(os.sched_getaffinity(0))


_simulation: NodeFailureSimulation


def _initialize_process(
    simulation: NodeFailureSimulation, reader: Connection, writer: Connection
) -> None:
    """Prepare a process that exits with its parent, however that ends."""
    global _simulation  # noqa: PLW0603 - the only state of the process
    _simulation = simulation
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    writer.close()
    threading.Thread(target=_exit_with_parent, args=(reader,), daemon=True).start()


def _exit_with_parent(reader: Connection) -> None:
    reader.poll(None)
    os._exit(1)


def _run_failure(node: NodeId) -> FailureRun:
    return _simulation.run_failure([node])
