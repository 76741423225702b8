"""Migrations of the tables of the store, by Alembic."""
