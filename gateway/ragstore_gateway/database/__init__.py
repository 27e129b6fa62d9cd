"""The gateway's state in SQLite or PostgreSQL: engine, sessions and migrations."""
