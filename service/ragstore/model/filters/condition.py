"""`Condition`: what documents must meet, as it travels with a question down the stores.

Who merges questions, plans them and asks Chroma all need a filter in Chroma's form, or to tell it from others. Both are
made once, when first asked for.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from ragstore.model.filters import where as metadata_filter
from ragstore.model.filters import where_document as document_filter
from ragstore.model.filters.where import Where
from ragstore.model.filters.where_document import WhereDocument

KEY_BYTES: Final = 16
"""Length of a condition's key. Filters can be megabytes long, and keys of many are remembered."""


# No slots: what is made once is kept beside the fields.
@dataclass(frozen=True, eq=False)
class Condition:
    """What documents must meet. Everything that is set must hold.

    Attributes:
        where: only documents whose metadata this selects.
        where_document: only documents whose text this selects.
    """

    where: Where | None = None
    where_document: WhereDocument | None = None

    @classmethod
    def parse(cls, where: object, where_document: object = None) -> Condition:
        """Read filters given as JSON values; None and `{}` set nothing.

        Raises:
            InvalidFilter: one is not of its language.
        """
        return cls(metadata_filter.parse(where), document_filter.parse(where_document))

    @classmethod
    def parse_text(cls, where: str | None, where_document: str | None = None) -> Condition:
        """Read filters given as JSON texts; None sets nothing.

        Raises:
            InvalidFilter: one is no JSON, or not of its language.
        """
        return cls(
            None if where is None else metadata_filter.parse_text(where),
            None if where_document is None else document_filter.parse_text(where_document),
        )

    @property
    def is_none(self) -> bool:
        """Whether all documents meet it."""
        return self.where is None and self.where_document is None

    @cached_property
    def chroma_where(self) -> dict[str, object] | None:
        """The filter on metadata in Chroma's form."""
        return None if self.where is None else metadata_filter.to_chroma(self.where)

    @cached_property
    def chroma_where_document(self) -> dict[str, object] | None:
        """The filter on text in Chroma's form."""
        return None if self.where_document is None else document_filter.to_chroma(self.where_document)

    @cached_property
    def key(self) -> bytes:
        """Tells it from conditions that ask Chroma something else; empty when all documents meet it."""
        if self.is_none:
            return b""
        asked = msgspec.json.encode((self.chroma_where, self.chroma_where_document))
        return hashlib.blake2b(asked, digest_size=KEY_BYTES).digest()


NO_CONDITION: Final = Condition()
"""Met by all documents."""
