"""Why a transfer ends early, and the exit code that tells it.

    TransferFailed              1   the service refused or cannot be reached, or a file cannot be used
    ├── NotVerified             3   a file is damaged or cut short, or what is stored is not what was sent
    └── CollectionChanged       4   documents were deleted while the collection was read

0 is success, 2 a wrong command line (click's own code), 130 an interruption. No text holds a document's text, metadata
or embedding.
"""

from __future__ import annotations

from typing import ClassVar, Final

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells have it."""


class TransferFailed(Exception):
    """A transfer cannot go on. The text is for the person who started it."""

    exit_code: ClassVar[int] = 1


class NotVerified(TransferFailed):
    """Something is not what it is said to be."""

    exit_code = 3


class CollectionChanged(TransferFailed):
    """A collection lost documents while it was read, so the pages do not fit together."""

    exit_code = 4
