"""`TextTools`: extraction and splitting, as jobs use them."""

from __future__ import annotations

from typing import Protocol

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.kept_text import KEPT_TEXT
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.claimed_document import ClaimedDocument
from ragstore_gateway.ingestion.errors import IngestionLimit
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan


class TextExtractor(Protocol):
    """Extracts texts; see `ragstore_gateway.extraction`."""

    async def extract(self, content: bytes, *, media_type: str = "", name: str = "") -> Extracted:
        """Extract the text of a document.

        Args:
            content: the document.
            media_type: its media type, as declared.
        """

    async def read_kept(self, content: bytes) -> Extracted:
        """Read an extracted text that was exported.

        Args:
            content: the document.
        """


class TextSplitter(Protocol):
    """Splits texts; see `ragstore_gateway.splitting`."""

    async def split(self, extracted: bytes, chunking: Chunking) -> list[ChunkSpan]:
        """Split a text.

        Args:
            extracted: an `Extracted` as MessagePack.
            chunking: how to split it.
        """


class TextTools:
    """Extracts and splits the texts of documents.

    Args:
        extractor: extracts texts.
        splitter: splits texts.
    """

    def __init__(self, extractor: TextExtractor, splitter: TextSplitter) -> None:
        self._extractor = extractor
        self._splitter = splitter

    async def extract(self, claimed: ClaimedDocument) -> None:
        """Extract the text of a document, whose content is available."""
        claimed.step = "extract"
        row, content = claimed.row, claimed.content or b""
        with metrics.step("extract"):
            if row.media_type == KEPT_TEXT:
                claimed.set_text(await self._extractor.read_kept(content))
            else:
                extracted = await self._extractor.extract(content, media_type=row.media_type, name=row.document_name)
                claimed.set_text(extracted)

    async def split(self, claimed: ClaimedDocument, collection_id: str, chunking: Chunking) -> None:
        """Split the text of a document for a collection.

        Args:
            collection_id: the collection.
            chunking: how its texts are split.

        Raises:
            IngestionLimit: the text is empty.
        """
        claimed.step = "split"
        with metrics.step("split"):
            spans = await self._splitter.split(claimed.encoded, chunking)
        if not spans:
            raise IngestionLimit("The document has no text")
        claimed.spans[collection_id] = spans
