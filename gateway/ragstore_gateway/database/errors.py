"""The error of a database that the gateway cannot start with."""

from __future__ import annotations

from ragstore.kit.errors import StartFailed


class DatabaseNotUsable(StartFailed):
    """The gateway cannot start with this database."""
