"""The error of a database that the gateway cannot start with."""

from __future__ import annotations


class DatabaseNotUsable(Exception):
    """The gateway cannot start with this database. The text is one line for the operator, without secrets."""
