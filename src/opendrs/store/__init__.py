"""Stores of the controller: in memory, in an SQLite file, in PostgreSQL."""

from opendrs.store.memory import MemoryStore as MemoryStore
from opendrs.store.postgresql import PostgresqlStore as PostgresqlStore
from opendrs.store.requests import DatabaseRequestStore as DatabaseRequestStore
from opendrs.store.sqlite import SqliteStore as SqliteStore
