"""Reports what a reply cites, and what it invented."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from ragstore_client.context._citation_stream import MAX_CITATIONS, Citation, CitationStream
from ragstore_client.context._passages import ContextPassage


class HasPassages(Protocol):
    """A context."""

    @property
    def passages(self) -> Sequence[ContextPassage]:
        """Its passages."""
        ...


class CitationReport(msgspec.Struct, frozen=True):
    """The citations of a reply.

    Attributes:
        citations: the citations, in the order of the reply.
        cited: the cited passages, in the order of their first citation, without passages that only a list of sources
            names.
        uncited: the other passages of the context.
        unrecorded: the number of citations beyond the maximum. Nothing else in the report depends on them.
    """

    citations: tuple[Citation, ...]
    cited: tuple[ContextPassage, ...]
    uncited: tuple[ContextPassage, ...]
    unrecorded: int = 0

    @property
    def invented(self) -> tuple[Citation, ...]:
        """The citations of which the context has no passage."""
        return tuple(citation for citation in self.citations if citation.invented)


def check_citations(
    reply: str, context: HasPassages | Sequence[ContextPassage], *, max_citations: int = MAX_CITATIONS
) -> CitationReport:
    """Check which passages a reply cites.

    Recognised are numbers (`[1]`, `[1, 2]`, `[1-3]`, `[Source 1]`, `【1】`) and names (`[manual.pdf#3]`,
    `[manual.pdf]`, `[https://...]`), outside of code, links and footnotes.

    Args:
        reply: the reply, complete.
        context: the context, or its passages.
        max_citations: maximum number of citations that are recorded: `[1-100]` is seven characters and a hundred
            citations. Further citations are only counted, in `unrecorded`.

    Returns:
        The citations with their spans, the cited passages, and the invented citations.
    """
    passages = context if isinstance(context, Sequence) else context.passages
    stream = CitationStream(passages, max_citations=max_citations)
    segments = itertools.chain(stream.feed(reply), stream.finish())
    found = [citation for segment in segments for citation in segment.citations]
    return report_of(found, passages, unrecorded=stream.unrecorded)


def report_of(
    citations: Iterable[Citation], passages: Sequence[ContextPassage], *, unrecorded: int = 0
) -> CitationReport:
    """Make the report of citations that a `CitationStream` has found.

    Args:
        citations: the citations of all segments.
        passages: the passages of the context.
        unrecorded: the stream's `unrecorded`.

    Returns:
        The report.
    """
    found = tuple(citations)
    # Citations of the same passages share one tuple: a thousand citations of a file of a thousand chunks are cheap.
    groups = {id(citation.passages): citation.passages for citation in found if not citation.listed}
    cited = {id(p): p for group in groups.values() for p in group}
    uncited = tuple(p for p in passages if id(p) not in cited)
    return CitationReport(found, tuple(cited.values()), uncited, unrecorded)


def without_invented(reply: str, report: CitationReport) -> str:
    """Remove the markers that cite nothing of the context.

    Returns:
        The reply without markers whose citations are all invented, and without the spaces before them. Markers that
        cite a passage as well are kept.
    """
    kept = {citation.marker_start for citation in report.citations if not citation.invented}
    removed = {c.marker_start: c.marker_end for c in report.citations if c.marker_start not in kept}
    pieces: list[str] = []
    position = 0
    for start, end in removed.items():
        pieces.append(reply[position:start].rstrip(" "))
        position = end
    return "".join((*pieces, reply[position:]))
