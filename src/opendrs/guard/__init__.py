"""Independent check of each step on a fresh snapshot."""

from opendrs.guard.budgets import check_budgets as check_budgets
from opendrs.guard.checks import check as check
from opendrs.guard.concurrency import check_concurrency as check_concurrency
from opendrs.guard.rejection import Rejection as Rejection
from opendrs.guard.rejection import RejectionReason as RejectionReason
