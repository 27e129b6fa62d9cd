"""Errors that end the work on an ingestion in this process; they are not retried."""

from __future__ import annotations


class IngestionLimit(Exception):
    """A document exceeds a limit. The text is the message of its ingestion, without content."""


class IngestionAbandoned(Exception):
    """The ingestion ended while it waited for a retry: it was cancelled, or its document or base was deleted."""


class LeaseLost(Exception):
    """The lease of this process has expired, so that another one may have taken over its ingestions."""
