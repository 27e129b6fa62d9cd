"""Documents to write and documents that were read, by columns, and selections of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal
from uuid import uuid4

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.schema_marks import schema
from ragstore.model.filters.condition import NO_CONDITION, Condition
from ragstore.model.large_bodies.packed_embeddings import Embeddings
from ragstore.model.large_bodies.packed_metadata import PackedMetadata
from ragstore.model.large_bodies.packed_text import Text
from ragstore.model.metadata import Metadata
from ragstore.model.vectors import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents to write, by columns.

    Attributes:
        ids: n ids. They are distinct, except in a batch that a stream just decoded.
        texts: n texts.
        metadatas: n metadatas; an empty one is allowed.
        embeddings: matrix of shape (n, dimension), float32, finite.
        unique_ids: the ids that are random UUIDs of the service. No other document has one of them.
    """

    ids: list[str]
    texts: Sequence[Text]
    metadatas: Sequence[PackedMetadata]
    embeddings: Embeddings
    unique_ids: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimension(self) -> int:
        """Dimension of the embeddings."""
        return int(self.embeddings.shape[1])


@dataclass(frozen=True, slots=True)
class Write:
    """A batch and the operation to write it with.

    Attributes:
        kind: `add` rejects existing ids; `upsert` replaces documents with existing ids completely.
        batch: the documents.
        write_token: write token, unique to this write, by which a retried add recognizes what it wrote before.
    """

    kind: Literal["add", "upsert"]
    batch: Batch
    write_token: str = field(default_factory=lambda: f"ragstore:{uuid4().hex}")


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of documents. All criteria that are set must hold.

    Attributes:
        ids: the ids to select from; None for all.
        condition: filters over metadata and text.
    """

    ids: tuple[str, ...] | None = None
    condition: Condition = NO_CONDITION

    @property
    def is_everything(self) -> bool:
        """Whether it selects all documents of a collection."""
        return self.ids is None and self.condition.is_none


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents that were read, by columns, in insertion order.

    Attributes:
        ids: n ids.
        texts: n texts.
        metadatas: n metadatas.
        embeddings: matrix of shape (n, dimension), or None if not requested.
    """

    ids: list[str]
    texts: list[str]
    metadatas: list[Metadata]
    embeddings: Matrix | None


@dataclass(frozen=True, slots=True)
class StoredEmbeddings:
    """Embeddings that were read, in any order.

    Attributes:
        ids: n ids.
        rows: matrix of shape (n, dimension).
    """

    ids: list[str]
    rows: Matrix


class Document(Struct, frozen=True, omit_defaults=True):
    """A stored document."""

    id: Annotated[str, Meta(description="Its id.")]
    text: Annotated[str, Meta(description="Its text; empty if the request excludes texts.")]
    metadata: Annotated[Metadata, Meta(description="Its metadata.")]
    embedding: Annotated[Vector | UnsetType, schema("StoredEmbedding")] = UNSET


class DocumentPage(Struct, frozen=True):
    """A page of documents, in insertion order."""

    documents: Annotated[list[Document], Meta(description="The documents on this page.")]
    count: Annotated[int, Meta(description="Number of documents on this page.", ge=0)]
    total: Annotated[int | None, Meta(description="Exact number of all matches; null if not requested.")]
    next: Annotated[
        str | UnsetType, Meta(description="The cursor for `after` that lists the next page; absent on the last one.")
    ] = UNSET
