"""Why a transfer ends early, and its exit code.

    TransferFailed              1   the service rejected a request or cannot be reached, or a file cannot be used
    ├── NotVerified             3   a file is damaged or truncated, or a stored document differs from what was sent
    └── CollectionChanged       4   documents were deleted while the collection was read

0 is success, 2 a wrong command line (click's own code), 130 an interruption. No message contains a document's text,
metadata or embedding.
"""

from __future__ import annotations

from typing import ClassVar, Final

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as in shells."""


class TransferFailed(Exception):
    """A transfer cannot continue. The text is for the person who started it."""

    exit_code: ClassVar[int] = 1


class NotVerified(TransferFailed):
    """Content differs from what it should be."""

    exit_code = 3


class CollectionChanged(TransferFailed):
    """Documents were deleted while the collection was read, so its pages do not fit together."""

    exit_code = 4
