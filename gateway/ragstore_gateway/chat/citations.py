"""The citations in a response, within limits: `[1-100]` is seven characters and a hundred citations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragstore_client.context import Citation, CitationStream, ContextPassage

MAX_CITATIONS: Final = 1_000
"""Maximum number of citations of a response that are recorded. What follows them is not searched."""

MAX_CHARACTERS: Final = 200_000
"""Maximum number of characters of a response that are searched."""

MAX_CHOICES: Final = 128
"""Maximum number of choices in progress; OpenAI's maximum of `n`. Further ones are not searched."""

_PIECE: Final = 200


class ResponseCitations:
    """The citations in the choices of a response.

    Args:
        passages: the passages in the prompt.
    """

    def __init__(self, passages: Sequence[ContextPassage]) -> None:
        self._passages = passages
        self._scanners: dict[int, CitationStream] = {}
        self._citations: dict[int, list[Citation]] = {}
        self._characters = MAX_CHARACTERS
        self._left = MAX_CITATIONS

    def feed(self, index: int, text: str) -> None:
        """Add text to a choice."""
        if index not in self._scanners:
            if len(self._scanners) >= MAX_CHOICES:
                return
            self._scanners[index] = CitationStream(self._passages)
            self._citations[index] = []
        for start in range(0, min(len(text), self._characters), _PIECE):
            if not self._left:
                return
            self._record(index, text[start : start + _PIECE])
        self._characters = max(0, self._characters - len(text))

    def end(self, index: int) -> list[Citation]:
        """End a choice, and return its citations."""
        if index not in self._scanners:
            return []
        self._record(index, None)
        del self._scanners[index]
        return self._citations.pop(index)

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
