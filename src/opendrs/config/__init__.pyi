from .diagnostics import Diagnostic as Diagnostic
from .diagnostics import DiagnosticCode as DiagnosticCode
from .diagnostics import KeyPath as KeyPath
from .diagnostics import Severity as Severity
from .diagnostics import error_diagnostics as error_diagnostics
from .diagnostics import path_text as path_text
from .diagnostics import pydantic_diagnostics as pydantic_diagnostics
from .diagnostics import raise_diagnostics as raise_diagnostics
from .diagnostics import run_checks as run_checks
from .diagnostics import suggestion as suggestion
from .formats import FileFormat as FileFormat
from .formats import detect_format as detect_format
from .formats import require_format as require_format
from .parsing import display_path as display_path
from .parsing import (
    duplicate_key_diagnostics as duplicate_key_diagnostics,
)
from .parsing import parse as parse
from .parsing import read_text as read_text
from .snapshot_history import HistoryFile as HistoryFile
from .snapshot_history import is_history as is_history
from .snapshot_history import read_history as read_history
from .snapshot_history import (
    read_history_snapshot as read_history_snapshot,
)
from .snapshot_reading import read_snapshot as read_snapshot
from .snapshot_reading import (
    snapshot_and_diagnostics as snapshot_and_diagnostics,
)
from .snapshot_reading import snapshot_from as snapshot_from
from .snapshot_reading import validate_rules as validate_rules
from .snapshot_validation import MAX_DIAGNOSTICS as MAX_DIAGNOSTICS
from .snapshot_writing import json_line as json_line
from .snapshot_writing import json_text as json_text
from .snapshot_writing import snapshot_document as snapshot_document
from .snapshot_writing import write_snapshot as write_snapshot
