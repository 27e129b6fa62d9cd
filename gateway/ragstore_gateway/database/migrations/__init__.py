"""Migrations of the database, run by alembic when the gateway starts."""
