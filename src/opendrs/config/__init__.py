"""File formats, diagnostics and settings of the configuration."""

from opendrs.config.diagnostics import Diagnostic as Diagnostic
from opendrs.config.diagnostics import DiagnosticCode as DiagnosticCode
from opendrs.config.diagnostics import KeyPath as KeyPath
from opendrs.config.diagnostics import Severity as Severity
from opendrs.config.diagnostics import error_diagnostics as error_diagnostics
from opendrs.config.diagnostics import path_text as path_text
from opendrs.config.diagnostics import pydantic_diagnostics as pydantic_diagnostics
from opendrs.config.diagnostics import raise_diagnostics as raise_diagnostics
from opendrs.config.diagnostics import run_checks as run_checks
from opendrs.config.diagnostics import suggestion as suggestion
from opendrs.config.formats import FileFormat as FileFormat
from opendrs.config.formats import detect_format as detect_format
from opendrs.config.formats import require_format as require_format
from opendrs.config.parsing import display_path as display_path
from opendrs.config.parsing import (
    duplicate_key_diagnostics as duplicate_key_diagnostics,
)
from opendrs.config.parsing import parse as parse
from opendrs.config.parsing import read_text as read_text
from opendrs.config.snapshot_history import HistoryFile as HistoryFile
from opendrs.config.snapshot_history import is_history as is_history
from opendrs.config.snapshot_history import read_history as read_history
from opendrs.config.snapshot_history import (
    read_history_snapshot as read_history_snapshot,
)
from opendrs.config.snapshot_reading import read_snapshot as read_snapshot
from opendrs.config.snapshot_reading import (
    snapshot_and_diagnostics as snapshot_and_diagnostics,
)
from opendrs.config.snapshot_reading import snapshot_from as snapshot_from
from opendrs.config.snapshot_reading import validate_rules as validate_rules
from opendrs.config.snapshot_validation import MAX_DIAGNOSTICS as MAX_DIAGNOSTICS
from opendrs.config.snapshot_writing import json_line as json_line
from opendrs.config.snapshot_writing import json_text as json_text
from opendrs.config.snapshot_writing import snapshot_document as snapshot_document
from opendrs.config.snapshot_writing import write_snapshot as write_snapshot
