"""Stores of the controller: in memory, in an SQLite file, in PostgreSQL."""

from opendrs.store.database import Access as Access
from opendrs.store.lease import LeaseHolder as LeaseHolder
from opendrs.store.memory import MemoryStore as MemoryStore
from opendrs.store.operator import OPERATOR_PREFIX as OPERATOR_PREFIX
from opendrs.store.operator import OperatorStore as OperatorStore
from opendrs.store.postgresql import PostgresqlStore as PostgresqlStore
from opendrs.store.requests import DatabaseRequestStore as DatabaseRequestStore
from opendrs.store.sqlite import SqliteStore as SqliteStore
