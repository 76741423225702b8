"""Instances of the Google ROADEF/EURO challenge 2012: reader and encoder.

A file consists of whitespace-separated integers, plain or compressed by gzip. The model
has resources, machines, services, processes, balances and three weights. An assignment
has the machine of each process.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opendrs.optimizer import GroupSets, IndexLists, Problem, RatioTerm

Integers = npt.NDArray[np.int64]
GZIP = b"\x1f\x8b"


class InstanceError(ValueError):
    """Invalid file; the message names file and field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Processes that run on different machines.

    Attributes:
        spread: Least number of locations of its processes.
        needs: Services that must have a process in each neighborhood with a process of
            this one.
    """

    spread: int
    needs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceBalance:
    """Target ratio between the free amounts of two resources of a machine."""

    first: int
    second: int
    target: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A model of the challenge: M machines, P processes, R resources.

    Attributes:
        transient: Resources that a moved process also uses on its old machine; shape
            (R,).
        load_weight: Weight of the load cost; shape (R,).
        neighborhood: Neighborhood of each machine; shape (M,).
        location: Location of each machine; shape (M,).
        capacity: Capacity of each machine; shape (M, R).
        safety: Load above which load costs; shape (M, R).
        machine_move: Cost of a move from one machine to another; shape (M, M).
        services: Sets of processes.
        service_of: Service of each process; shape (P,).
        requirement: Demand of each process; shape (P, R).
        process_move: Cost of moving each process; shape (P,).
        balances: Target ratios of free amounts.
        weights: Weights of the process, service and machine move cost.
    """

    transient: Integers
    load_weight: Integers
    neighborhood: Integers
    location: Integers
    capacity: Integers
    safety: Integers
    machine_move: Integers
    services: tuple[Service, ...]
    service_of: Integers
    requirement: Integers
    process_move: Integers
    balances: tuple[InstanceBalance, ...]
    weights: tuple[int, int, int]


class _Numbers:
    """Numbers of a file, read in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._numbers = _read(path)
        self._next = 0

    def block(self, field: str, rows: int, columns: int) -> Integers:
        """Read *rows* x *columns* numbers of at least 0."""
        count = rows * columns
        taken = self._numbers[self._next : self._next + count]
        if len(taken) < count:
            raise InstanceError(
                f"{self.path}: ends within {field}: {count} numbers were expected, "
                f"{len(taken)} are left"
            )
        if count and taken.min() < 0:
            at = self._next + int(np.argmin(taken)) + 1
            raise InstanceError(
                f"{self.path}: {field} has {taken.min()} (number {at} of the file); "
                "numbers from 0 were expected"
            )
        if count and taken.max() >= 1 << 53:
            raise InstanceError(
                f"{self.path}: {field} has {taken.max()}, which is not below 2^53"
            )
        self._next += count
        return taken.reshape(rows, columns)

    def row(self, field: str, columns: int) -> list[int]:
        """Read *columns* numbers."""
        return [int(number) for number in self.block(field, 1, columns)[0]]

    def one(self, field: str) -> int:
        """Read one number."""
        return self.row(field, 1)[0]

    def below(self, field: str, values: Integers | tuple[int, ...], count: int) -> None:
        """Raise InstanceError unless all *values* are below *count*."""
        for value in values:
            if value >= count:
                raise InstanceError(
                    f"{self.path}: {field} has {value}; there are only {count}, "
                    "counted from 0"
                )

    def end(self) -> None:
        """Raise InstanceError if numbers are left."""
        left = len(self._numbers) - self._next
        if left:
            raise InstanceError(f"{self.path}: {left} numbers follow after the end")


def _read(path: Path) -> Integers:
    try:
        data = path.read_bytes()
        if data.startswith(GZIP):
            data = gzip.decompress(data)
        words = data.split()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InstanceError(f"{path}: cannot be read: {reason}") from error
    try:
        return np.array(words, dtype=np.bytes_).astype(np.int64)
    except (ValueError, OverflowError):
        return np.array([_whole(path, word) for word in words], dtype=np.int64)


def _whole(path: Path, word: bytes) -> int:
    """Return *word* as a number, or raise InstanceError."""
    try:
        number = int(word)
    except ValueError:
        shown = word[:30].decode(errors="replace")
        raise InstanceError(f"{path}: {shown!r} is not a whole number") from None
    if abs(number) >= 1 << 63:
        raise InstanceError(f"{path}: {number} is not below 2^53")
    return number


def read_instance(path: Path) -> Instance:
    """Return the model in *path*.

    Raises:
        InstanceError: It cannot be read, or does not hold what it should.
    """
    numbers = _Numbers(path)
    count = numbers.one("the number of resources")
    resources = numbers.block("resources", count, 2)
    machines = numbers.one("the number of machines")
    rows = numbers.block("machines", machines, 2 + 2 * count + machines)
    services = _services(numbers)
    processes = numbers.block(
        "processes", numbers.one("the number of processes"), count + 2
    )
    numbers.below("the service of a process", processes[:, 0], len(services))
    balances = _balances(numbers, count)
    first, second, third = numbers.row("the weights of moving", 3)
    numbers.end()
    return Instance(
        transient=resources[:, 0],
        load_weight=resources[:, 1],
        neighborhood=rows[:, 0],
        location=rows[:, 1],
        capacity=rows[:, 2 : 2 + count],
        safety=rows[:, 2 + count : 2 + 2 * count],
        machine_move=rows[:, 2 + 2 * count :],
        services=services,
        service_of=processes[:, 0],
        requirement=processes[:, 1:-1],
        process_move=processes[:, -1],
        balances=balances,
        weights=(first, second, third),
    )


def _services(numbers: _Numbers) -> tuple[Service, ...]:
    found = []
    for _ in range(numbers.one("the number of services")):
        spread, count = numbers.row("services", 2)
        needs = tuple(numbers.row("the services a service depends on", count))
        found.append(Service(spread=spread, needs=needs))
    for service in found:
        numbers.below("the services a service depends on", service.needs, len(found))
    return tuple(found)


def _balances(numbers: _Numbers, resources: int) -> tuple[InstanceBalance, ...]:
    found = []
    for _ in range(numbers.one("the number of balances")):
        first, second, target = numbers.row("balances", 3)
        numbers.below("the resources of a balance", (first, second), resources)
        weight = numbers.one("the weight of a balance")
        found.append(
            InstanceBalance(first=first, second=second, target=target, weight=weight)
        )
    return tuple(found)


def read_assignment(path: Path, instance: Instance) -> Integers:
    """Return the machine of each process, from *path*.

    Raises:
        InstanceError: It cannot be read, or does not fit *instance*.
    """
    numbers = _Numbers(path)
    found: Integers = numbers.block("the assignment", 1, len(instance.service_of))[0]
    numbers.below("the assignment", found, len(instance.capacity))
    numbers.end()
    return found


def encode_problem(instance: Instance, origin: Integers) -> Problem:
    """Return *instance*, whose processes are at *origin*, as a problem."""
    by_process, by_service, by_machine = instance.weights
    machines = len(instance.capacity)
    weights = instance.load_weight.astype(np.float64)
    return Problem(
        capacity=instance.capacity.astype(np.float64),
        demand=instance.requirement.astype(np.float64),
        origin=origin,
        class_of=np.zeros(len(origin), dtype=np.int64),
        allowed=np.ones((1, machines), dtype=np.bool_),
        transient=instance.transient > 0,
        group_sets=_group_sets(instance),
        location=instance.location,
        neighborhood=instance.neighborhood,
        safety_capacity=instance.safety.astype(np.float64),
        excess_weight=np.tile(weights, (machines, 1)),
        ratio_terms=tuple(
            RatioTerm(
                first=each.first,
                second=each.second,
                target=each.target,
                weight=each.weight,
            )
            for each in instance.balances
        ),
        move_cost=(by_process * instance.process_move).astype(np.float64),
        pair_cost=(by_machine * instance.machine_move).astype(np.float64),
        set_move_weight=by_service,
    )


def _group_sets(instance: Instance) -> GroupSets:
    count = len(instance.services)
    each = IndexLists.of([[service] for service in instance.service_of.tolist()])
    return GroupSets(
        members=each.inverse(count),
        strict=np.ones(count, dtype=np.bool_),
        anti_affinity_weight=np.zeros(count),
        spread=np.array([each.spread for each in instance.services], dtype=np.int64),
        needs=IndexLists.of([list(each.needs) for each in instance.services]),
    )
