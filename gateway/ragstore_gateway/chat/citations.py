"""The citations in a response, within limits: `[1-100]` is seven characters and a hundred citations."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import islice
from typing import Final

from ragstore_client.context import Citation, CitationReport, CitationStream, ContextPassage, report_of
from ragstore_gateway.chat.annotations import Annotation, annotations_by_number, annotations_of, key_of
from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.chat.source_list import source_list

MAX_CITATIONS: Final = 1_000
"""Maximum number of citations of a response that are recorded. What follows them is not searched."""

MAX_ANNOTATIONS: Final = 1_000
"""Maximum number of annotations of a response: a citation of a file has one for each of its passages in the prompt."""

MAX_CHARACTERS: Final = 200_000
"""Maximum number of characters of a response that are searched."""

MAX_CHOICES: Final = 128
"""Maximum number of choices in progress; OpenAI's maximum of `n`. Further ones are not searched."""

PIECE: Final = 200
"""Number of characters that are searched in one step: up to 0.6 ms for a text that is made to be slow."""


class ResponseCitations:
    """The citations in the choices of a response.

    Args:
        passages: the passages in the prompt.
        by_number: whether annotations are in the order of their numbers, without gaps.
    """

    def __init__(self, passages: Sequence[PromptPassage], *, by_number: bool = False) -> None:
        self._order = annotations_by_number if by_number else annotations_of
        # A number that several passages share cites the best one.
        self._passages = sorted(passages, key=lambda passage: passage.is_further)
        self._by_number = {passage.number: passage for passage in passages if not passage.is_further}
        self._by_id = {key_of(passage): passage for passage in passages}
        self._scanners: dict[int, CitationStream] = {}
        self._citations: dict[int, list[Citation]] = {}
        self._characters = MAX_CHARACTERS
        self._left = MAX_CITATIONS
        self._annotations_left = MAX_ANNOTATIONS

    def feed(self, index: int, text: str) -> Generator[None, None, None]:
        """Add text to a choice, a piece in each step."""
        if index not in self._scanners:
            if len(self._scanners) >= MAX_CHOICES:
                return
            self._scanners[index] = CitationStream(self._passages)
            self._citations[index] = []
        searched = min(len(text), self._characters)
        self._characters -= searched
        for start in range(0, searched, PIECE):
            if not self._left:
                return
            self._record(index, text[start : min(start + PIECE, searched)])
            yield

    def end(self, index: int) -> list[Citation]:
        """End a choice, and return its citations."""
        if index not in self._scanners:
            return []
        self._record(index, None)
        del self._scanners[index]
        return self._citations.pop(index)

    def annotations(self, citations: Iterable[Citation]) -> list[Annotation]:
        """The annotations of citations, as far as the response may have more."""
        found = list(islice(self._order(citations, self._by_id), self._annotations_left))
        self._annotations_left -= len(found)
        return found

    def source_list(self, citations: Sequence[Citation]) -> str:
        """The list of the cited sources; see `source_list`."""
        return source_list(citations, self._by_number)

    @property
    def open(self) -> list[int]:
        """The choices that have not ended."""
        return list(self._scanners)

    def _record(self, index: int, text: str | None) -> None:
        scanner = self._scanners[index]
        segments = scanner.finish() if text is None else scanner.feed(text)
        found = [citation for segment in segments for citation in segment.citations][: self._left]
        self._left -= len(found)
        self._citations[index].extend(found)


def checked_citations(reply: str, passages: Sequence[ContextPassage]) -> Generator[None, None, CitationReport]:
    """Check which passages a reply cites, a piece in each step; see `check_citations`.

    Args:
        passages: the passages in the prompt.
    """
    stream = CitationStream(passages)
    found: list[Citation] = []
    for start in range(0, len(reply), PIECE):
        found += [citation for segment in stream.feed(reply[start : start + PIECE]) for citation in segment.citations]
        yield
    found += [citation for segment in stream.finish() for citation in segment.citations]
    return report_of(found, passages, unrecorded=stream.unrecorded)
