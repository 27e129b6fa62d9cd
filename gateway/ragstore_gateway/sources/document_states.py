"""The states of a document of a source during a run, from the known one to its removal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ragstore_gateway.sources.visit import KnownPage, Visit

MEDIA_TYPE_LENGTH: Final = 255
"""Maximum length of a stored media type."""


class DocumentTaken(Exception):
    """The document of this name belongs to a person, to another source, or to another page that the run has found."""


class PageNotStorable(Exception):
    """The database rejects a value of the page."""


@dataclass(frozen=True, slots=True)
class ChangedPage:
    """A page whose document is to be ingested.

    Attributes:
        name: name of the document.
        visit: the visit of the page, with its content.
        before: the page as it is stored; None if it is not.
    """

    name: str
    visit: Visit
    before: KnownPage | None


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


def page_values(page: KnownPage) -> dict[str, object]:
    """The columns of `SourceDocumentRow` that have the state of a page."""
    return {
        "content_hash": page.content_hash,
        "etag": page.etag.replace("\0", ""),
        "last_modified": page.last_modified.replace("\0", ""),
        "links": list(page.links),
        "characters": page.characters,
        "title": page.title.replace("\0", ""),
        "media_type": page.media_type[:MEDIA_TYPE_LENGTH],
    }


def media_type_of(visit: Visit) -> str:
    """The media type of a document, as it is stored."""
    return visit.media_type[:MEDIA_TYPE_LENGTH]
