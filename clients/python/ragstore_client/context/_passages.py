"""The passages of a context: as a source returns them, and as a context holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ragstore_client._models import ArrayLike, Scalar

MetadataValue: TypeAlias = Scalar | list[Scalar]
"""One metadata value as stored."""

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Vector: TypeAlias = Sequence[float] | Buffer | ArrayLike
else:
    Vector: TypeAlias = object
"""A vector: numbers, a buffer of numbers (`array`, `memoryview`, numpy), or little-endian float32 as `bytes`."""


class Passage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A passage that a source returns.

    Passages are compared by identity, since an embedding may be an array.

    Attributes:
        id: its id in its collection.
        similarity: cosine similarity to the query, 1 - distance; None when the source gives none.
        embedding: its vector, where it was requested (MMR needs it).
        collection: its collection; ids are unique within one.
    """

    id: str
    text: str
    metadata: dict[str, MetadataValue] = {}
    similarity: float | None = None
    embedding: Vector | None = None
    collection: str | None = None

    @property
    def relevance(self) -> float | None:
        """The similarity on a scale from 0 to 1, LangChain4j's relevance; None without a similarity."""
        return to_relevance(self.similarity)


class ContextPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that a context holds.

    Attributes:
        id: its id in its collection.
        text: its text, possibly shortened to a maximum number of characters.
        similarity: cosine similarity to the query; None when the source gave none.
        citation: its citation without brackets, such as `manual.pdf#3`.
        number: its number in the context, from 1.
        tokens: tokens that it adds to the formatted context, its heading included.
    """

    id: str
    text: str
    metadata: dict[str, MetadataValue] = {}
    similarity: float | None = None
    citation: str
    number: int
    tokens: int
    collection: str | None = None

    @property
    def relevance(self) -> float | None:
        """The similarity on a scale from 0 to 1, LangChain4j's relevance; None without a similarity."""
        return to_relevance(self.similarity)


def checked(given: object) -> Passage | None:
    """Check what a source returned as a passage.

    Args:
        given: a value of any type.

    Returns:
        The passage, its similarity as a float; None for what is no passage, or one with a member of a wrong type.
    """
    if not isinstance(given, Passage):
        return None
    texts: tuple[object, ...] = (given.id, given.text, "" if given.collection is None else given.collection)
    metadata: object = given.metadata
    if not all(isinstance(text, str) for text in texts) or not isinstance(metadata, Mapping):
        return None
    similarity: object = given.similarity
    if similarity is None or type(similarity) is float:
        return given
    if not isinstance(similarity, Real):
        return None
    try:
        return msgspec.structs.replace(given, similarity=float(similarity))
    except OverflowError:
        return None


def to_relevance(similarity: float | None) -> float | None:
    """Convert a cosine similarity (-1 to 1) to LangChain4j's relevance (0 to 1): (1 + similarity) / 2."""
    return None if similarity is None else (1.0 + similarity) / 2.0


def to_similarity(relevance: float) -> float:
    """Convert LangChain4j's relevance (0 to 1) to a cosine similarity (-1 to 1)."""
    return 2.0 * relevance - 1.0
