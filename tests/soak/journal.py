"""What callers wrote and what they were told, batch by batch, and whether that is what is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

BATCH: Final = 5

EMBEDDING_TAIL: Final = [1.0, 0.5]


def made(batch: str, place: int, version: int) -> dict[str, Any]:
    """A document whose every part tells its batch, its place in it, and its version."""
    return {
        "id": f"{batch}/{place}",
        "text": f"{batch} at {place} in version {version} äöü 文",
        "metadata": {"batch": batch, "place": place, "version": version},
        "embedding": [float(version), float(place), *EMBEDDING_TAIL],
    }


def is_as_made(read: dict[str, Any]) -> bool:
    """Whether a document that was read, in whatever version, is as it was sent; its embedding need not be there."""
    told = read["metadata"]
    if not {"batch", "place", "version"} <= told.keys():
        return False
    whole = made(told["batch"], told["place"], told["version"])
    return all(read[key] == whole[key] for key in whole if key in read)


@dataclass
class Batch:
    """Documents that are written together.

    Attributes:
        name: its name, and the beginning of its ids.
        collection: where it is.
        version: the newest that was sent.
        possible: versions that may be there; None stands for nothing.
        unsure: whether a write of it failed. It may still happen, so the batch is written no more.
        kept: whether its caller still has to do with it; it asked for its deletion otherwise, which may have failed.
    """

    name: str
    collection: str
    version: int = 0
    possible: set[int | None] = field(default_factory=lambda: {None})
    unsure: bool = False
    kept: bool = True

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Its documents in the newest version."""
        return [made(self.name, place, self.version) for place in range(BATCH)]

    @property
    def ids(self) -> list[str]:
        """Its ids."""
        return [f"{self.name}/{place}" for place in range(BATCH)]

    def written(self, to: int | None, *, acknowledged: bool) -> None:
        """Note how a write ended.

        Args:
            to: the version that it wrote; None for a deletion.
            acknowledged: whether it was acknowledged; otherwise it happened, will yet, or never.
        """
        if acknowledged and not self.unsure:
            self.possible = {to}
        else:
            self.possible.add(to)
            self.unsure |= not acknowledged

    def wrong(self, found: list[dict[str, Any]]) -> str:
        """What is wrong with the documents of this batch that are there; nothing when it is as it should be."""
        versions = {one["metadata"]["version"] for one in found}
        if len(found) not in (0, BATCH) or len(versions) > 1:
            return f"{self.name}: {len(found)} of {BATCH} documents, of versions {sorted(versions)}"
        version = versions.pop() if versions else None
        if version not in self.possible:
            return f"{self.name}: version {version}, where one of {self.possible} was to be expected"
        return "" if all(map(is_as_made, found)) else f"{self.name}: not as it was sent"


@dataclass
class Books:
    """All batches.

    Attributes:
        batches: by name; those that are known to be gone are dropped when they are checked.
        sent: documents sent.
        acknowledged: those of them that were acknowledged.
        found: documents that were there when it was last checked.
        checks: how often the whole was checked.
    """

    batches: dict[str, Batch] = field(default_factory=dict)
    sent: int = 0
    acknowledged: int = 0
    found: int = 0
    checks: int = 0

    def check(self, there: list[dict[str, Any]]) -> list[str]:
        """Compare everything that is there with what was told, when nothing is under way any more.

        Args:
            there: all documents of all collections.

        Returns:
            A sentence for each thing that is wrong.
        """
        found: dict[str, list[dict[str, Any]]] = {}
        for one in there:
            found.setdefault(one["metadata"]["batch"], []).append(one)
        wrong = [f"{name}: nobody wrote it" for name in found.keys() - self.batches.keys()]
        for name, batch in list(self.batches.items()):
            wrong += filter(None, [batch.wrong(found.get(name, []))])
            if name in found:
                batch.possible = {found[name][0]["metadata"]["version"]}
                batch.unsure = False
            else:
                del self.batches[name]
        self.found = len(there)
        self.checks += 1
        return wrong

    def left(self) -> list[Batch]:
        """Batches that are there though their callers asked for their deletion, which failed."""
        return [batch for batch in self.batches.values() if not batch.kept]
