from .clock import SystemClock as SystemClock
from .consent import RecordedDecision as RecordedDecision
from .cycle import CycleContext as CycleContext
from .cycle import evaluations as evaluations
from .cycle import run_cycle as run_cycle
from .enrichment import enrich_snapshot as enrich_snapshot
from .enrichment import (
    forget_ended_migrations as forget_ended_migrations,
)
from .execution_context import CancellationToken as CancellationToken
from .execution_context import ExecutionContext as ExecutionContext
from .execution_context import ExecutionObserver as ExecutionObserver
from .execution_context import NullObserver as NullObserver
from .executor import ExecutionReport as ExecutionReport
from .executor import execute as execute
from .explanation import Explanation as Explanation
from .explanation import excluded_nodes as excluded_nodes
from .explanation import explain as explain
from .explanation import explain_decision as explain_decision
from .history import correct_times as correct_times
from .recovery import recover as recover
from .replay import ReplayedDecision as ReplayedDecision
from .replay import replay as replay
