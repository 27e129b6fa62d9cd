"""`Condition`: the filters of a query or selection.

The layers that batch queries, plan filters and call Chroma need a filter in Chroma's language, or a key that identifies
it. Both are computed once, on first use.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from ragstore.filters import where as metadata_filter
from ragstore.filters.where import Where
from ragstore.model.filters import chroma_where
from ragstore.model.filters import where_document as document_filter
from ragstore.model.filters.where_document import WhereDocument

KEY_BYTES: Final = 16
"""Size of a condition's key. Filters can have megabytes, and the keys of many filters are cached."""


# No slots: cached properties are stored in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class Condition:
    """Filters over metadata and text. All that are set must hold.

    Attributes:
        where: the filter over metadata.
        where_document: the filter over text.
    """

    where: Where | None = None
    where_document: WhereDocument | None = None

    @classmethod
    def parse(cls, where: object, where_document: object = None) -> Condition:
        """Parse filters from JSON values. None and `{}` select everything.

        Raises:
            InvalidFilter: a filter is invalid.
        """
        return cls(metadata_filter.parse(where), document_filter.parse(where_document))

    @classmethod
    def parse_text(cls, where: str | None, where_document: str | None = None) -> Condition:
        """Parse filters from JSON texts, as query parameters have them. None and an empty text select everything.

        Raises:
            InvalidFilter: a text is not JSON, or a filter is invalid.
        """
        return cls(
            metadata_filter.parse_text(where) if where else None,
            document_filter.parse_text(where_document) if where_document else None,
        )

    @property
    def is_none(self) -> bool:
        """Whether it selects everything."""
        return self.where is None and self.where_document is None

    @cached_property
    def is_exact_here(self) -> bool:
        """Whether `where.matches` selects exactly the documents that Chroma selects. It does not apply text filters."""
        return self.where_document is None and (self.where is None or chroma_where.is_exact(self.where))

    @cached_property
    def chroma_where(self) -> dict[str, object] | None:
        """The filter over metadata in Chroma's language."""
        return None if self.where is None else chroma_where.to_chroma(self.where)

    @cached_property
    def chroma_where_document(self) -> dict[str, object] | None:
        """The filter over text in Chroma's language."""
        return None if self.where_document is None else document_filter.to_chroma(self.where_document)

    @cached_property
    def key(self) -> bytes:
        """Identifies the filters as Chroma receives them; empty if they select everything."""
        if self.is_none:
            return b""
        encoded = msgspec.json.encode((self.chroma_where, self.chroma_where_document))
        return hashlib.blake2b(encoded, digest_size=KEY_BYTES).digest()


NO_CONDITION: Final = Condition()
"""Selects everything."""
