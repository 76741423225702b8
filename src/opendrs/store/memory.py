"""Store in memory without a database, for dry runs and tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from opendrs.model import StepId, value_as_text, value_from_text
from opendrs.ports import CycleRecord, StepRecord


class MemoryStore:
    """Implementation of `opendrs.ports.Store` in the memory of the process."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._records: dict[tuple[str, StepId], StepRecord] = {}
        self._cycles: deque[tuple[str, datetime, str]] = deque(maxlen=MAX_CYCLES)

    def require_lease(self) -> None:
        """Do nothing: no other process can use this store."""

    def load(self, key: str) -> Mapping[str, object] | None:
        """Return the value saved under *key*, or None."""
        text = self._values.get(key)
        return None if text is None else value_from_text(text)

    def load_all(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return the values saved under keys that begin with *prefix*, by key."""
        return {
            key: value_from_text(text)
            for key, text in sorted(self._values.items())
            if key.startswith(prefix)
        }

    def save(self, key: str, value: Mapping[str, object]) -> None:
        """Save *value* under *key*."""
        self._values[key] = value_as_text(value)

    def replace(
        self, key: str, before: Mapping[str, object], after: Mapping[str, object]
    ) -> bool:
        """Save *after* under *key* if the saved value is *before*."""
        if self.load(key) != before:
            return False
        self.save(key, after)
        return True

    def write(self, record: StepRecord) -> None:
        """Add *record*, or replace the one of the same run and step."""
        self._records[record.run, record.step] = record

    def unfinished(self) -> tuple[StepRecord, ...]:
        """Return the records without an outcome, oldest first."""
        return tuple(r for r in self._sorted_records() if r.outcome is None)

    def recent(self, since: datetime) -> tuple[StepRecord, ...]:
        """Return the records intended or ended at or after *since*."""
        return tuple(
            r
            for r in self._sorted_records()
            if r.intended_at >= since
            or (r.ended_at is not None and r.ended_at >= since)
        )

    def correct_times(self, now: datetime) -> int:
        """Set recorded times after *now* to *now*; return the number of changes."""
        corrected = {
            key: replace(
                record,
                intended_at=min(record.intended_at, now),
                ended_at=record.ended_at and min(record.ended_at, now),
            )
            for key, record in self._records.items()
            if max(record.intended_at, record.ended_at or now) > now
        }
        self._records.update(corrected)
        ahead = sum(time > now for _, time, _ in self._cycles)
        cycles = [(run, min(time, now), text) for run, time, text in self._cycles]
        self._cycles = deque(cycles, maxlen=MAX_CYCLES)
        return len(corrected) + ahead

    def records_of(self, run: str) -> tuple[StepRecord, ...]:
        """Return the records of *run*, oldest first."""
        return tuple(r for r in self._sorted_records() if r.run == run)

    def record_cycle(self, cycle: CycleRecord) -> None:
        """Add the record of a cycle; keep the newest `MAX_CYCLES`."""
        text = value_as_text(cycle.document)
        self._cycles.append((cycle.run, cycle.decided_at, text))

    def cycles(self) -> Iterator[CycleRecord]:
        """Yield the records of cycles, oldest first."""
        for run, time, text in tuple(self._cycles):
            document = value_from_text(text)
            yield CycleRecord(run=run, decided_at=time, document=document)

    def _sorted_records(self) -> list[StepRecord]:
        return sorted(self._records.values(), key=lambda record: record.intended_at)


MAX_CYCLES = 300  # cycle records that are kept: a day with five-minute intervals
