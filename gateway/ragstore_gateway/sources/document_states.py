"""The states of a document of a source during a run, from the known one to its removal."""

from __future__ import annotations

from dataclasses import dataclass

from ragstore_gateway.sources.visit import KnownPage, Visit


class DocumentTaken(Exception):
    """The document of this name belongs to a person, to another source, or to another page that the run has found."""


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document of a source.

    Attributes:
        page: the state of its page for the next visit, without links: the links of all pages would need much memory.
    """

    document_id: str
    page: KnownPage


@dataclass(frozen=True, slots=True)
class Pending:
    """A document whose ingestion has been accepted.

    Attributes:
        ingestion_id: the ingestion.
        document_id: the document.
        visit: the visit of its page, without the content.
        is_new: whether there was no such document before.
        before: the page as it was stored before; None if it was not.
        former: the page whose document it was, if that was another one of the same name; empty otherwise.
    """

    ingestion_id: str
    document_id: str
    visit: Visit
    is_new: bool
    before: KnownPage | None
    former: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """A document whose ingestion has ended.

    Attributes:
        pending: the document.
        is_stored: whether its vectors are stored.
        is_unchanged: whether they were before, so that nothing was embedded.
        chunks: the number of its chunks.
    """

    pending: Pending
    is_stored: bool
    is_unchanged: bool
    chunks: int


@dataclass(frozen=True, slots=True)
class Missing:
    """The documents whose pages a complete run did not find.

    Attributes:
        missing: number of documents that stay for now.
        removed: number of documents that were removed.
    """

    missing: int
    removed: int
