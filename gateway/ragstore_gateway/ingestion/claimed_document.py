"""`ClaimedDocument`: an ingestion that this process works on, with what is known of its document so far."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec

from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.ingestion.collections import Collection
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.splitting.chunk import ChunkSpan

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Extracted).decode


@dataclass(eq=False, slots=True)
class ClaimedDocument:
    """An ingestion of a job.

    Attributes:
        row: the ingestion, as it was claimed.
        targets: the collections to write to.
        content: the document; None if its text is available, or is read later.
        is_interrupted: whether it was begun before. Parts of it may be recorded.
        is_unchanged: whether the document seems to have this content already.
        extracted: its text; None until it is extracted.
        encoded: the text as MessagePack.
        is_text_kept: whether the database has the text.
        spans: the spans of its chunks, by collection.
        vectors: the vectors of its chunks, by collection.
        written: the collections that have all of its chunks, with their number.
        step: the step that it is in, for the log.
        is_cancelled: whether its ingestion was ended by a call to this process.
        task: its own task, if it is not ingested together with others.
    """

    row: IngestionRow
    targets: list[Collection]
    content: bytes | None = None
    is_interrupted: bool = False
    is_unchanged: bool = False
    extracted: Extracted | None = None
    encoded: bytes = b""
    is_text_kept: bool = False
    spans: dict[str, list[ChunkSpan]] = field(default_factory=dict)
    vectors: dict[str, Vectors] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    step: str = "plan"
    is_cancelled: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """The id of the ingestion."""
        return self.row.id

    @property
    def text(self) -> Extracted:
        """The text, which is extracted."""
        assert self.extracted is not None  # noqa: S101  # the steps before have extracted it
        return self.extracted

    def set_text(self, extracted: Extracted) -> None:
        """Set the text that was extracted. The content is not needed any more."""
        self.extracted, self.encoded, self.content = extracted, _encode(extracted), None

    def set_kept_text(self, encoded: bytes) -> None:
        """Set the text that the database has.

        Args:
            encoded: an `Extracted` as MessagePack.
        """
        self.extracted, self.encoded, self.content, self.is_text_kept = _decode(encoded), encoded, None, True

    def replace_target(self, collection: Collection) -> None:
        """Use a newer description of a collection, such as one with a dimension."""
        self.targets = [collection if each.id == collection.id else each for each in self.targets]

    def cancel(self) -> None:
        """Stop: the ingestion was ended by a call to this process. Documents that it is ingested with continue."""
        self.is_cancelled = True
        if self.task is not None:
            self.task.cancel()
