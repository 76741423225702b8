"""Stores of the controller: in memory, and in an SQLite file."""

from opendrs.store.memory import MemoryStore as MemoryStore
from opendrs.store.sqlite import SqliteStore as SqliteStore
from opendrs.store.sqlite_requests import SqliteRequestStore as SqliteRequestStore
