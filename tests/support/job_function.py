"""Function of jobs that do what a test requires of their process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from opendrs.api.job_process import ReportProgress
from opendrs.errors import ConfigurationError, StoreError


@dataclass(frozen=True)
class ExampleAnswers:
    """Answers that show which process gives them, or that it gives none.

    Attributes:
        directory: Contains the file `started` once a question has been received.
    """

    directory: Path

    def __call__(
        self, kind: str, question: Mapping[str, Any], report: ReportProgress
    ) -> Any:  # noqa: ANN401 - plain values
        """Return the answer to a question."""
        (self.directory / "started").touch()
        match kind:
            case "process":
                return os.getpid()
            case "sleep":
                Event().wait(question["seconds"])
            case "backtest":
                while True:
                    report("half of it")
                    Event().wait(0.1)
            case "exit":
                os._exit(1)
            case "reject":
                raise ConfigurationError("unknown node 'zz'")
            case "damage":
                raise StoreError("store: damaged")
            case "defect":
                raise LookupError("no such key")
        return {"kind": kind, **question}
