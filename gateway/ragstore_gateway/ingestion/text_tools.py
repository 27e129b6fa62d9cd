"""`TextTools`: extraction and splitting, as jobs use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ragstore.kit.time_slices import rest_if_large
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.extractor import NewDocument
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

    async def extract_together(self, documents: Sequence[NewDocument]) -> list[Extracted | None]:
        """Extract the texts of several small documents.

        Returns:
            The texts; None for a document that has to be extracted alone.
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

    async def split_together(self, extracted: Sequence[bytes], chunking: Chunking) -> list[list[ChunkSpan] | None]:
        """Split several small texts.

        Args:
            extracted: an `Extracted` as MessagePack for each text.
            chunking: how to split them.

        Returns:
            The spans of each text; None for a text that has to be split alone.
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
        await rest_if_large(len(claimed.encoded))

    async def extract_together(self, claimed: Sequence[ClaimedDocument]) -> None:
        """Extract the texts of small documents with one call. A document that fails is left without a text."""
        if len(claimed) < 2:
            return
        documents = [
            NewDocument(
                each.content or b"", each.row.media_type, each.row.document_name, each.row.media_type == KEPT_TEXT
            )
            for each in claimed
        ]
        with metrics.step("extract"):
            texts = await self._extractor.extract_together(documents)
        for each, text in zip(claimed, texts, strict=True):
            if text is not None:
                each.set_text(text)

    async def split_together(self, claimed: Sequence[ClaimedDocument], collection_id: str, chunking: Chunking) -> None:
        """Split the texts of small documents with one call. A document that fails is left without spans.

        Args:
            collection_id: the collection.
            chunking: how its texts are split.
        """
        if len(claimed) < 2:
            return
        with metrics.step("split"):
            spans = await self._splitter.split_together([each.encoded for each in claimed], chunking)
        for each, own in zip(claimed, spans, strict=True):
            if own:
                each.spans[collection_id] = own

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
