"""A snapshot in a file: the format opendrs-snapshot/1, in JSON or TOML."""

from opendrs.platforms.file.complaints import Complaint as Complaint
from opendrs.platforms.file.complaints import Location as Location
from opendrs.platforms.file.complaints import Severity as Severity
from opendrs.platforms.file.complaints import complain as complain
from opendrs.platforms.file.complaints import dotted as dotted
from opendrs.platforms.file.complaints import kind_of as kind_of
from opendrs.platforms.file.complaints import shown as shown
from opendrs.platforms.file.complaints import suggestion as suggestion
from opendrs.platforms.file.complaints import translated as translated
from opendrs.platforms.file.documents import parse as parse
from opendrs.platforms.file.documents import read_text as read_text
from opendrs.platforms.file.documents import repeated_keys as repeated_keys
from opendrs.platforms.file.documents import shown_path as shown_path
from opendrs.platforms.file.forms import FileForm as FileForm
from opendrs.platforms.file.forms import form_of as form_of
from opendrs.platforms.file.forms import require_form as require_form
from opendrs.platforms.file.history import HistoryFile as HistoryFile
from opendrs.platforms.file.history import is_history as is_history
from opendrs.platforms.file.history import read_entry as read_entry
from opendrs.platforms.file.platform import FilePlatform as FilePlatform
from opendrs.platforms.file.platform import FileSettings as FileSettings
from opendrs.platforms.file.portions import MOST_FOUND as MOST_FOUND
from opendrs.platforms.file.reading import check_rules as check_rules
from opendrs.platforms.file.reading import read_snapshot as read_snapshot
from opendrs.platforms.file.reading import (
    snapshot_and_complaints as snapshot_and_complaints,
)
from opendrs.platforms.file.reading import snapshot_from as snapshot_from
from opendrs.platforms.file.writing import document as document
from opendrs.platforms.file.writing import json_line as json_line
from opendrs.platforms.file.writing import json_text as json_text
from opendrs.platforms.file.writing import write_snapshot as write_snapshot
