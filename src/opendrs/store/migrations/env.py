"""Environment of Alembic: migrate over the connection that the store has opened."""

from __future__ import annotations

from alembic import context

from opendrs.store.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
