"""The errors of an ingestion that a retry does not help."""

from __future__ import annotations


class IngestionLimit(Exception):
    """A document exceeds a limit. The text is the message of its ingestion, without content."""


class IngestionAbandoned(Exception):
    """The ingestion ended while it waited for a retry: it was cancelled, or its document or base was deleted."""
