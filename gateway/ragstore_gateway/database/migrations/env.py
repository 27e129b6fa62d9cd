"""alembic's environment: migrates over the connection, and in the transaction, of `database.migrate`."""

from alembic import context

# SQLite cannot alter most of a table; alembic copies the table instead.
context.configure(connection=context.config.attributes["connection"], render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
