"""What to do about a snapshot."""

from opendrs.policies.base import Decision as Decision
from opendrs.policies.base import Policy as Policy
from opendrs.policies.base import Reason as Reason
