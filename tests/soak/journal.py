"""A journal of the writes of all clients and their results, and a comparison with the stored documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

BATCH_SIZE: Final = 5

EMBEDDING_TAIL: Final = [1.0, 0.5]


def make_document(batch: str, index: int, version: int) -> dict[str, Any]:
    """A document whose parts all contain its batch, its index in the batch, and its version."""
    return {
        "id": f"{batch}/{index}",
        "text": f"{batch} at {index} in version {version} äöü 文",
        "metadata": {"batch": batch, "index": index, "version": version},
        "embedding": [float(version), float(index), *EMBEDDING_TAIL],
    }


def is_unchanged(read: dict[str, Any]) -> bool:
    """Whether a document that was read is as one of its versions was sent. It may lack its embedding."""
    metadata = read["metadata"]
    if not {"batch", "index", "version"} <= metadata.keys():
        return False
    expected = make_document(metadata["batch"], metadata["index"], metadata["version"])
    return all(read[key] == expected[key] for key in expected if key in read)


@dataclass
class Batch:
    """Documents that are written together.

    Attributes:
        name: its name, and the prefix of its ids.
        collection: the collection's name.
        version: the latest version that was sent.
        possible: versions that may be stored; None means that the batch is not stored.
        unsure: whether a write of it failed. It may still happen, so that the batch is not written again.
        kept: False after its client has requested its deletion, which may have failed.
    """

    name: str
    collection: str
    version: int = 0
    possible: set[int | None] = field(default_factory=lambda: {None})
    unsure: bool = False
    kept: bool = True

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Its documents in the latest version."""
        return [make_document(self.name, index, self.version) for index in range(BATCH_SIZE)]

    @property
    def ids(self) -> list[str]:
        """Its ids."""
        return [f"{self.name}/{index}" for index in range(BATCH_SIZE)]

    def written(self, to: int | None, *, acknowledged: bool) -> None:
        """Record the result of a write.

        Args:
            to: the version that was written; None for a deletion.
            acknowledged: whether it was acknowledged; if not, it may have happened, or happen later, or never.
        """
        if acknowledged and not self.unsure:
            self.possible = {to}
        else:
            self.possible.add(to)
            self.unsure |= not acknowledged

    def wrong(self, found: list[dict[str, Any]]) -> str:
        """The error in the stored documents of this batch; an empty string if there is none."""
        versions = {one["metadata"]["version"] for one in found}
        if len(found) not in (0, BATCH_SIZE) or len(versions) > 1:
            return f"{self.name}: {len(found)} of {BATCH_SIZE} documents, of versions {sorted(versions)}"
        version = versions.pop() if versions else None
        if version not in self.possible:
            return f"{self.name}: version {version}, expected one of {self.possible}"
        return "" if all(map(is_unchanged, found)) else f"{self.name}: not as it was sent"


@dataclass
class Journal:
    """All batches.

    Attributes:
        batches: the batches by name; a check drops batches that are known to be deleted.
        sent: number of documents sent.
        acknowledged: number of documents whose write was acknowledged.
        found: number of stored documents at the last check.
        checks: number of checks.
    """

    batches: dict[str, Batch] = field(default_factory=dict)
    sent: int = 0
    acknowledged: int = 0
    found: int = 0
    checks: int = 0

    def check(self, stored: list[dict[str, Any]]) -> list[str]:
        """Compare the stored documents with the journal. No request may be in flight.

        Args:
            stored: all documents of all collections.

        Returns:
            A sentence for each error.
        """
        found: dict[str, list[dict[str, Any]]] = {}
        for one in stored:
            found.setdefault(one["metadata"]["batch"], []).append(one)
        wrong = [f"{name}: was never written" for name in found.keys() - self.batches.keys()]
        for name, batch in list(self.batches.items()):
            wrong += filter(None, [batch.wrong(found.get(name, []))])
            if name in found:
                batch.possible = {found[name][0]["metadata"]["version"]}
                batch.unsure = False
            else:
                del self.batches[name]
        self.found = len(stored)
        self.checks += 1
        return wrong

    def left(self) -> list[Batch]:
        """Stored batches whose deletion was requested and failed."""
        return [batch for batch in self.batches.values() if not batch.kept]
