"""Stores of the controller: in memory, in an SQLite file, in PostgreSQL."""

from opendrs.store.access import DatabaseAccessStore as DatabaseAccessStore
from opendrs.store.backup import backup_sqlite as backup_sqlite
from opendrs.store.cycle_records import Retention as Retention
from opendrs.store.database import Access as Access
from opendrs.store.database import DatabaseStore as DatabaseStore
from opendrs.store.events import DatabaseEventLog as DatabaseEventLog
from opendrs.store.history import History as History
from opendrs.store.lease import Lease as Lease
from opendrs.store.memory import MemoryStore as MemoryStore
from opendrs.store.operator import OPERATOR_PREFIX as OPERATOR_PREFIX
from opendrs.store.operator import OperatorStore as OperatorStore
from opendrs.store.plans import DatabasePlanStore as DatabasePlanStore
from opendrs.store.postgresql import PostgresqlStore as PostgresqlStore
from opendrs.store.requests import DatabaseRequestStore as DatabaseRequestStore
from opendrs.store.sqlite import SqliteStore as SqliteStore
