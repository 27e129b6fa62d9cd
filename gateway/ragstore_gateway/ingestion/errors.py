"""The error of an ingestion that a retry does not help."""

from __future__ import annotations


class IngestionLimit(Exception):
    """A document exceeds a limit. The text is the message of its ingestion, without content."""
