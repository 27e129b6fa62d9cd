"""Changes of the metadata of documents, whose texts and embeddings stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ragstore.filters.values import MetadataValue
from ragstore.model.metadata import Metadata

MetadataPatch: TypeAlias = dict[str, MetadataValue | None]
"""New values by key; None removes a key."""

UpdateMode: TypeAlias = Literal["merge", "replace"]


@dataclass(frozen=True, slots=True)
class MetadataUpdates:
    """New metadata of documents.

    Attributes:
        mode: `merge` keeps the keys that a patch does not name, as in RFC 7396; `replace` removes them.
        ids: n distinct ids.
        patches: n patches, with valid keys and values.
    """

    mode: UpdateMode
    ids: list[str]
    patches: list[MetadataPatch]

    def __len__(self) -> int:
        return len(self.ids)

    def updated(self, row: int, before: Metadata) -> Metadata:
        """The metadata of one document after the update.

        Args:
            row: which of the n documents.
            before: its metadata before.
        """
        kept = before if self.mode == "merge" else {}
        merged = {**kept, **self.patches[row]}
        return {key: value for key, value in merged.items() if value is not None}
