"""`VisibleSearch`: the nearest visible chunks of a collection, however many invisible ones are nearer.

A collection also has chunks that no search may find: foreign chunks, and chunks of documents that are being written or
removed. They may fill any page of passages. A search that they fill is repeated without their revisions and, if they
have none, within the visible revisions only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from ragstore.filters import where as language
from ragstore.filters.grammar import InvalidFilter
from ragstore_client import Where
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, OWNER_KEY, REVISION_KEY, Passage
from ragstore_gateway.engines.ranking import ranked
from ragstore_gateway.ingestion.revisions import Published, Revisions, document_of, is_visible, revision_of

SPARE: Final = 5
"""Number of passages fetched beyond the requested ones, because some may be invisible."""

GROWTH: Final = 4
"""A search that invisible passages fill is repeated with this many times its limit."""

MAX_ROUNDS: Final = 12
"""Maximum number of times that a search is sent, because of invisible passages or documents that changed during it."""

MAX_HIDDEN: Final = 100
"""Maximum number of revisions that a search excludes."""

MAX_REVISIONS: Final = 2000
"""Maximum number of revisions that one search is restricted to. More are searched with several."""

CLOCK_SKEW: Final = timedelta(seconds=1)
"""Maximum difference between the clocks of two replicas."""

Fetch: TypeAlias = Callable[[int, Where | None], Awaitable[list[Passage]]]
"""Returns at most so many passages, nearest first, within a further filter."""


@dataclass(frozen=True, slots=True)
class FoundChunks:
    """The chunks that a search has found.

    Attributes:
        visible: chunks of visible revisions, by descending score.
        invisible: the others.
        below: visible chunks whose relevance is less than the minimum of the search, by descending relevance.
        revisions: the visible revisions of the documents that were found, at the moment of the last check.
    """

    visible: Sequence[Passage]
    invisible: Sequence[Passage]
    below: Sequence[Passage] = ()
    revisions: Mapping[str, Published] = field(default_factory=dict)


class VisibleSearch:
    """Searches collections for visible chunks.

    Args:
        revisions: the revisions of documents.
    """

    def __init__(self, revisions: Revisions) -> None:
        self._revisions = revisions

    async def search(self, base_id: str, fetch: Fetch, max_results: int, owner: str = "") -> FoundChunks:
        """Find the nearest visible chunks.

        Args:
            base_id: the knowledge base.
            fetch: searches its collection.
            max_results: maximum number of visible chunks.
            owner: marks the chunks of the base in a collection that also has records of others, which are all visible;
                empty elsewhere.
        """
        limit = min(max_results + SPARE, MAX_PASSAGES)
        since = datetime.now(UTC) - CLOCK_SKEW
        confirmed: Mapping[str, Published] = {}
        hidden: dict[str, str] = {}
        invisible: dict[str, Passage] = {}
        visible: list[Passage] = []
        for _ in range(MAX_ROUNDS):
            passages = await fetch(limit, {REVISION_KEY: {"$nin": sorted(hidden)}} if hidden else None)
            documents = {document_of(passage) for passage in passages}
            current = await self._revisions.current(base_id, documents | set(hidden.values()))
            visible = []
            dropped: list[Passage] = []
            for passage in passages:
                (visible if is_visible(passage, current, owner) else dropped).append(passage)
            invisible |= {passage.id: passage for passage in dropped}
            if _has_changed(current, confirmed, hidden, since):
                confirmed = current
                hidden = _still_hidden(hidden, current)
                continue
            confirmed = current
            if len(visible) >= max_results or len(passages) < limit:
                break
            before = len(hidden)
            hidden |= await self._hideable(dropped, hidden)
            if len(hidden) == before and limit == MAX_PASSAGES:
                visible, confirmed = await self._search_current(base_id, fetch, max_results, owner)
                break
            limit = min(GROWTH * limit, MAX_PASSAGES)
        return FoundChunks(visible[:max_results], list(invisible.values()), revisions=confirmed)

    async def _hideable(self, dropped: Iterable[Passage], hidden: Mapping[str, str]) -> dict[str, str]:
        """Further revisions to exclude: the invisible revisions with most passages.

        A foreign chunk may name the revision of another document, which must stay visible.
        """
        counts = Counter(revision for passage in dropped if (revision := revision_of(passage)) not in hidden)
        candidates = await self._revisions.hidden(counts)
        chosen = sorted(candidates, key=lambda revision: -counts[revision])[: MAX_HIDDEN - len(hidden)]
        return {revision: candidates[revision] for revision in chosen}

    async def _search_current(
        self, base_id: str, fetch: Fetch, max_results: int, owner: str
    ) -> tuple[list[Passage], Mapping[str, Published]]:
        """Search for the visible revisions only, so that no foreign chunk fills a page.

        Revisions that become visible meanwhile are searched, too.

        Returns:
            The visible chunks, and the visible revisions of the documents that were found.
        """
        limit = min(max_results, MAX_PASSAGES)
        searched: set[str] = set()
        found = await fetch(limit, {OWNER_KEY: {"$ne": owner}}) if owner else []
        for _ in range(MAX_ROUNDS):
            visible = await self._revisions.all_current(base_id)
            added = sorted(visible - searched)
            if not added:
                break
            for start in range(0, len(added), MAX_REVISIONS):
                found += await fetch(limit, {REVISION_KEY: {"$in": added[start : start + MAX_REVISIONS]}})
            searched |= visible
        current = await self._revisions.current(base_id, {document_of(passage) for passage in found})
        return ranked((passage for passage in found if is_visible(passage, current, owner)), limit, 0.0), current


def narrowed(where: Where | None, clause: Where | None) -> Where | None:
    """A filter with a further clause; without the clause if both together exceed the maxima of a filter.

    Args:
        where: a filter.
        clause: the clause; None for none.
    """
    if not where or clause is None:
        return clause if clause is not None else where
    # Beside the keys of the filter, so that the clause adds no level.
    both: Where = {"$and": [where, clause]} if clause.keys() & where.keys() else {**where, **clause}
    try:
        language.parse(both)
    except InvalidFilter:
        return where
    return both


def _has_changed(
    current: Mapping[str, Published], confirmed: Mapping[str, Published], hidden: Mapping[str, str], since: datetime
) -> bool:
    """Whether a document became visible, or was replaced, while a search ran.

    The search may have read chunks of its new revision before all of them were written, and may have excluded it. A
    revision that was visible at an earlier check was complete before the search.

    Args:
        current: the visible revisions after the search, by document.
        confirmed: the visible revisions at the check before it.
        hidden: the revisions that the search excluded, with their documents.
        since: when the first search began, less the difference between clocks.
    """
    return len(_still_hidden(hidden, current)) < len(hidden) or any(
        published.published_on >= since and confirmed.get(document) != published
        for document, published in current.items()
    )


def _still_hidden(hidden: Mapping[str, str], current: Mapping[str, Published]) -> dict[str, str]:
    visible = {published.revision for published in current.values()}
    return {revision: document for revision, document in hidden.items() if revision not in visible}
