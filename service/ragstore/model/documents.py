"""Documents on their way in and out, by columns, and what selects them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal
from uuid import uuid4

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.schema_marks import schema
from ragstore.model.filters.condition import NO_CONDITION, Condition
from ragstore.model.metadata import Metadata
from ragstore.model.vectors import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents to write, by columns.

    Attributes:
        ids: n ids, no two alike.
        texts: n texts.
        metadatas: n metadatas; an empty one is allowed.
        embeddings: matrix of shape (n, dimension), float32, finite.
    """

    ids: list[str]
    texts: list[str]
    metadatas: list[Metadata]
    embeddings: Matrix

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimension(self) -> int:
        """Numbers in each embedding."""
        return int(self.embeddings.shape[1])


@dataclass(frozen=True, slots=True)
class Write:
    """A batch and what to do with it.

    Attributes:
        kind: `add`: no id may be taken; `upsert`: documents whose ids are taken are replaced whole.
        batch: the documents.
        mark: tells this write from all others, so that an add that is tried again knows what it wrote before.
    """

    kind: Literal["add", "upsert"]
    batch: Batch
    mark: str = field(default_factory=lambda: f"ragstore:{uuid4().hex}")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which documents are meant. Everything that is set must hold.

    Attributes:
        ids: only these ids.
        condition: only documents that meet this.
    """

    ids: tuple[str, ...] | None = None
    condition: Condition = NO_CONDITION

    @property
    def is_everything(self) -> bool:
        """Whether nothing is set."""
        return self.ids is None and self.condition.is_none


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents that were read, by columns, in insertion order.

    Attributes:
        ids: n ids.
        texts: n texts.
        metadatas: n metadatas.
        embeddings: matrix of shape (n, dimension), or None when not asked for.
    """

    ids: list[str]
    texts: list[str]
    metadatas: list[Metadata]
    embeddings: Matrix | None


class Document(Struct, frozen=True, omit_defaults=True):
    """A document as stored."""

    id: Annotated[str, Meta(description="Its id.")]
    text: Annotated[str, Meta(description="Its text.")]
    metadata: Annotated[Metadata, Meta(description="Its metadata.")]
    embedding: Annotated[Vector | UnsetType, schema("StoredEmbedding")] = UNSET


class DocumentPage(Struct, frozen=True):
    """A page of documents, in insertion order."""

    documents: Annotated[list[Document], Meta(description="The page.")]
    count: Annotated[int, Meta(description="Documents in this page.", ge=0)]
    total: Annotated[int | None, Meta(description="Matches altogether, exactly; null when not asked for.")]
