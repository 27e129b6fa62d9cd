"""Runs and files of sources, and entries of the audit ledger, as structs.

Unknown fields of a response are ignored, so that a newer gateway can send more.
"""

from __future__ import annotations

from typing import Any

import msgspec


class AcceptedRun(msgspec.Struct, frozen=True, rename="camel"):
    """A run that has begun."""

    run_id: str
    source: str


class SourceRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run of a source.

    Attributes:
        status: `running`, `completed`, `incomplete`, `failed`, `interrupted` or `cancelled`.
        reason: why it is not completed, such as `max_pages`; empty otherwise.
        trigger: `manual` or `schedule`.
        version: the version of the knowledge base that it used.
        added: number of new pages or files.
        changed: number of pages or files whose content has changed.
        unchanged: number of pages or files whose content has not changed.
        missing: number of pages or files that were not found, and whose documents stay for now.
        removed: number of pages or files whose documents were removed.
        failed: number of pages or files that could not be read or ingested.
        skipped: number of pages or files that are no documents of the source.
        chunks: number of chunks that were embedded.
        finished_on: when it ended; empty before.
    """

    run_id: str
    source: str
    status: str
    started_on: str
    reason: str = ""
    trigger: str = ""
    version: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    missing: int = 0
    removed: int = 0
    failed: int = 0
    skipped: int = 0
    chunks: int = 0
    finished_on: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether it is not running any more."""
        return self.status != "running"


class SourceRunList(msgspec.Struct, frozen=True):
    """A page of the runs of a source, newest first.

    Attributes:
        total: number of runs that are kept.
    """

    runs: list[SourceRun]
    total: int


class SourceFile(msgspec.Struct, frozen=True, rename="camel"):
    """A file of a source of uploaded files.

    Attributes:
        media_type: its media type, as declared; may be empty.
        bytes: its size.
        hash: SHA-256 of its media type and its content.
        status: `indexed` if searches find it, `changed` if they find an earlier content, `waiting` before its first
            run.
    """

    name: str
    media_type: str
    bytes: int
    hash: str
    status: str
    uploaded_on: str


class SourceFileList(msgspec.Struct, frozen=True, rename="camel"):
    """A page of the files of a source, by name.

    Attributes:
        total: number of its files.
        total_bytes: size of all its files.
    """

    files: list[SourceFile]
    total: int
    total_bytes: int


class StoredFiles(msgspec.Struct, frozen=True):
    """The uploaded files that are stored. The next run ingests them."""

    stored: list[SourceFile]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry of the audit ledger.

    Attributes:
        sequence: number of the entry, from 1, without gaps.
        kind: `retrieval`, `deletion` of a conversation, or `feedback` on a step.
        conversation: id of the conversation; empty for none.
        key: name of the caller's key; empty without keys.
        assistant: name of the assistant; empty for none.
        data: the traces of a retrieval by key, the number of deleted `steps`, or `step` and `helpful`.
        previous_hash: hash of the entry before it; zeros for the first one.
        hash: SHA-256 of all other fields.
    """

    sequence: int
    id: str
    created_on: str
    kind: str
    hash: str
    conversation: str = ""
    key: str = ""
    request_id: str = ""
    assistant: str = ""
    assistant_id: str = ""
    assistant_version: int = 0
    data: dict[str, Any] = {}
    previous_hash: str = ""


class AuditPage(msgspec.Struct, frozen=True):
    """A page of the audit ledger, the oldest entry first.

    Attributes:
        next: `after` of the next page; None if there is none.
    """

    entries: list[AuditEntry]
    next: int | None = None


class StoredFeedback(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Feedback on a reply, as it is stored.

    Attributes:
        step: id of the step of the conversation.
        helpful: whether the reply was helpful.
        comment_kept: whether the comment is stored, too.
    """

    step: str
    helpful: bool
    comment_kept: bool = False
