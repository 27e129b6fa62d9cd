"""Reports what a reply cites, and what it invented."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from ragstore_client.context._citation_stream import Citation, CitationStream
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
        citations: all citations, in the order of the reply.
        cited: the cited passages, in the order of their first citation. Those that only a list of sources names are
            not among them.
        uncited: the other passages of the context.
    """

    citations: tuple[Citation, ...]
    cited: tuple[ContextPassage, ...]
    uncited: tuple[ContextPassage, ...]

    @property
    def invented(self) -> tuple[Citation, ...]:
        """The citations of which the context has no passage."""
        return tuple(citation for citation in self.citations if citation.invented)


def check_citations(reply: str, context: HasPassages | Sequence[ContextPassage]) -> CitationReport:
    """Check which passages a reply cites.

    Recognised are numbers (`[1]`, `[1, 2]`, `[1-3]`, `[Source 1]`, `【1】`) and names (`[manual.pdf#3]`,
    `[manual.pdf]`, `[https://...]`), outside of code, links and footnotes.

    Args:
        reply: the reply, complete.
        context: the context, or its passages.

    Returns:
        The citations with their spans, the cited passages, and the invented citations.
    """
    passages = context if isinstance(context, Sequence) else context.passages
    stream = CitationStream(passages)
    segments = itertools.chain(stream.feed(reply), stream.finish())
    return report_of((citation for segment in segments for citation in segment.citations), passages)


def report_of(citations: Iterable[Citation], passages: Sequence[ContextPassage]) -> CitationReport:
    """Make the report of citations that a `CitationStream` has found.

    Args:
        citations: the citations of all segments.
        passages: the passages of the context.

    Returns:
        The report.
    """
    found = tuple(citations)
    cited = {id(p): p for citation in found if not citation.listed for p in citation.passages}
    return CitationReport(found, tuple(cited.values()), tuple(p for p in passages if id(p) not in cited))


def without_invented(reply: str, report: CitationReport) -> str:
    """Remove the markers that cite nothing of the context.

    Args:
        reply: the reply.
        report: its report.

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
