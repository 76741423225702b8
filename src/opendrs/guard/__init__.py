"""A second opinion on every plan. Shares no code with the policies."""

from opendrs.guard.budget import room_for as room_for
from opendrs.guard.refusal import Objection as Objection
from opendrs.guard.refusal import Refusal as Refusal
from opendrs.guard.review import objection as objection
