"""Finds citations in a text that arrives in chunks.

The scanner decides about a character only when later ones cannot change the decision, so the result does not depend on
where the chunks end. Code blocks, code spans, links, footnotes and escaped brackets contain no citations.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ragstore_client.context._citation_index import OPENING, CitationIndex, Item
from ragstore_client.context._passages import ContextPassage

MAX_CITATIONS: Final = 1_000
"""Maximum number of citations of a reply that are recorded: `[1-100]` is seven characters and a hundred citations."""

_CLOSING: Final = dict(zip(OPENING, "]\u3011\uff3d\u3015", strict=True))
_OPENING: Final = f"[{re.escape(OPENING)}]"
_PLAIN: Final = r"[^\[\u3010\uff3b\u3014`\n]"
_TEXT: Final = re.compile(f"{_PLAIN}+")
# With an opening bracket, if another one or the end of the line follows before it is closed: it begins no marker. All
# of them are skipped together, since a step for each took 2 us. A name with brackets is recognised by its first two.
_TEXT_BEFORE_BRACKETS: Final = re.compile(rf"(?:{_PLAIN}+|{_OPENING}(?={_OPENING}{{2}}|{_OPENING}?\n))+")
_TEXT_WITH_BRACKETS: Final = re.compile(
    rf"(?:{_PLAIN}+|{_OPENING}(?=[^\[\]\u3010\u3011\uff3b\uff3d\u3014\u3015`\n]{{0,200}}(?:{_OPENING}|\n)))+"
)
_BLANK_LINES: Final = re.compile(r"\n+")
_BRACKET: Final = re.compile(r"[\[\]\u3010\u3011\uff3b\uff3d\u3014\u3015\n]")
_MIN_MARKER: Final = 200
"""Number of characters after an opening bracket within which it must be closed, if no name is longer."""
_MAX_CODE_SPAN: Final = 400
"""Maximum length of a code span, in characters. A run of backticks without a partner within it is plain text."""
_PIECE: Final = 1000
"""Number of characters of a chunk that are scanned at a time. Each step moves the rest of the buffer, so a large one
would take quadratic time."""
_MAX_FENCE_LINE: Final = 200
_MAX_PREFIX: Final = 200

_MAYBE_FENCE: Final = re.compile(r"[ \t>]{0,16}(?:`{0,2}|~{0,2})")
_NO_FENCE: Final = re.compile(r"[ \t>]{0,16}[^ \t>`~]|[ \t>]{17}")
_NEXT_FENCE: Final = re.compile(r"\n[ \t>]{0,16}[`~]")
_FENCE_START: Final = re.compile(r"[ \t>]{0,16}(`+|~+)")
_LIST_ITEM: Final = re.compile(r"\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+)?[*_]{0,3}")
_HEADING: Final = re.compile(
    r"[#*_\s>]*(?:sources?|references?|citations?|quellen(?:angaben|verzeichnis)?|belege|källor|referenser|"
    r"来源|參考資料|参考资料|参考文献|引用)[*_\s]*(?:[:\uff1a][*_\s]*)?",
    re.IGNORECASE,
)


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A citation in a reply. A marker such as `[1, 7]` or `[1-3]` contains several.

    Attributes:
        label: the cited number or name, such as `7` or `manual.pdf#3`.
        passages: the cited passages: one, or all of a file that is cited without a chunk; empty if it is invented.
        start: where its text begins in the reply, in characters. Members of a range share their span.
        end: where its text ends.
        marker_start: where the marker's opening bracket is.
        marker_end: the end of the marker, after its closing bracket.
        listed: whether it is an item of a list of sources, so no claim relies on it.
    """

    label: str
    passages: tuple[ContextPassage, ...]
    start: int
    end: int
    marker_start: int
    marker_end: int
    listed: bool = False

    @property
    def invented(self) -> bool:
        """Whether the context has no such passage."""
        return not self.passages


class Segment(msgspec.Struct, frozen=True):
    """A piece of a reply: text without citations, or one whole marker.

    Attributes:
        text: the characters, as in the reply.
        citations: the marker's citations; empty for text.
    """

    text: str
    citations: tuple[Citation, ...] = ()


class CitationStream:
    """Splits a reply that arrives in chunks into text and citations.

    Text is returned immediately unless it may be part of a marker; a marker is never split.

    Args:
        passages: the passages of the context.
        max_citations: maximum number of citations that are recorded. Markers that follow them are text.

    Attributes:
        unrecorded: the number of citations beyond the maximum.
    """

    def __init__(self, passages: Sequence[ContextPassage], *, max_citations: int = MAX_CITATIONS) -> None:
        self._index = CitationIndex(passages)
        self._left = max_citations
        self.unrecorded = 0
        self._text = _text_pattern(self._index.bracketed)
        self._buffer = ""
        self._offset = 0
        """Position of the buffer in the reply."""
        self._line = ""
        """The current line up to the buffer, at most `_MAX_PREFIX` characters of it."""
        self._previous = ""
        """The character before the buffer."""
        self._after_brackets = False
        """Whether brackets that are not a marker end directly before the buffer."""
        self._fence = ""
        """The fence of the open code block; empty outside of one."""
        self._in_list = False
        """Whether the current line follows the heading of a list of sources."""

    def feed(self, chunk: str) -> list[Segment]:
        """Add a chunk.

        Args:
            chunk: the next characters of the reply.

        Returns:
            The segments that are decided by now, in order.
        """
        segments: list[Segment] = []
        for start in range(0, len(chunk), _PIECE):
            self._buffer += chunk[start : start + _PIECE]
            segments += self._scan(final=False)
        return segments

    def finish(self) -> list[Segment]:
        """End the reply.

        Returns:
            The rest of it.
        """
        return list(self._scan(final=True))

    def _scan(self, *, final: bool) -> Iterator[Segment]:
        text = ""
        while self._buffer:
            segment = self._step(final=final)
            if segment is None:
                break
            if segment.citations:
                if text:
                    yield Segment(text)
                    text = ""
                yield segment
            else:
                text += segment.text
        if text:
            yield Segment(text)

    def _step(self, *, final: bool) -> Segment | None:
        """The next piece, or None if more characters are needed to decide."""
        if not self._line and self._previous in ("", "\n"):
            fence = self._fence_line(final=final)
            if fence != 0:
                return None if fence is None else self._take(fence)
        if self._fence:
            return self._take(self._code_lines())
        if text := self._text.match(self._buffer):
            return self._take(text.end())
        if lines := _BLANK_LINES.match(self._buffer):
            return self._take(lines.end())
        first = self._buffer[0]
        if first == "`":
            length = self._code_span(final=final)
            return None if length is None else self._take(length)
        return self._brackets(first, final=final)

    def _code_lines(self) -> int:
        """Number of characters of the rest of a line of a code block, and of the lines after it that cannot end it."""
        fence = _NEXT_FENCE.search(self._buffer)
        return fence.start() + 1 if fence else self._buffer.rfind("\n") + 1 or len(self._buffer)

    def _take(self, length: int, citations: tuple[Citation, ...] = (), *, brackets: bool = False) -> Segment:
        """Move characters from the buffer to a segment."""
        text, self._buffer = self._buffer[:length], self._buffer[length:]
        self._offset += length
        self._previous = text[-1]
        self._after_brackets = brackets
        before, newline, after = text.rpartition("\n")
        if newline:
            if not self._fence:
                # Only blank lines are taken together with the end of a line, and those end no list.
                self._end_line(self._line + before.partition("\n")[0])
            self._line = ""
        self._line = (self._line + after)[:_MAX_PREFIX]
        return Segment(text, citations)

    def _end_line(self, line: str) -> None:
        line = line[:_MAX_PREFIX]
        if _HEADING.fullmatch(line.rstrip("\r")):
            self._in_list = True
        elif self._in_list and line.strip() and not _opens_item(line):
            self._in_list = False

    def _fence_line(self, *, final: bool) -> int | None:
        """Number of characters of a line that opens or closes a code block; 0 if it does neither; None if undecided."""
        if _NO_FENCE.match(self._buffer):
            return 0
        line, newline, _ = self._buffer.partition("\n")
        complete = bool(newline) or final
        if not complete and _MAYBE_FENCE.fullmatch(line):
            return None
        match = _FENCE_START.match(line)
        if match is None or len(match[1]) < 3:
            return 0
        if len(line) >= _MAX_FENCE_LINE:
            return 0
        if not complete:
            return None
        fence, rest = match[1], line[match.end() :]
        if self._fence:
            if fence[0] != self._fence[0] or len(fence) < len(self._fence) or rest.strip():
                return 0
            self._fence = ""
        elif fence[0] == "`" and "`" in rest:
            return 0
        else:
            self._fence = fence
        return len(line) + len(newline)

    def _code_span(self, *, final: bool) -> int | None:
        """Number of characters of a code span, or of a run of backticks that opens none; None if undecided."""
        start = self._buffer[:_MAX_CODE_SPAN]
        run = len(start) - len(start.lstrip("`"))
        if run == _MAX_CODE_SPAN:
            return run
        if run == len(self._buffer) and not final:
            return None
        window = self._buffer[run : run + _MAX_CODE_SPAN]
        line, newline, _ = window.partition("\n")
        closing = re.search(rf"(?<!`)`{{{run}}}(?!`)", line)
        if closing and (closing.end() < len(window) or final or len(window) == _MAX_CODE_SPAN):
            return run + closing.end()
        decided = newline or final or len(window) == _MAX_CODE_SPAN
        return run if decided else None

    def _brackets(self, opening: str, *, final: bool) -> Segment | None:
        """A marker, or what is known to be none."""
        if self._previous == "\\":
            return self._take(1)
        length = self._bracketed_name(opening, final=final)
        if length is None:
            return None
        if length == 0:
            limit = max(_MIN_MARKER, self._index.max_name + 2)
            end = _BRACKET.search(self._buffer, 1, limit)
            if end is None and not final and len(self._buffer) < limit:
                return None
            if end is None or end[0] != _CLOSING[opening]:
                return self._take(1)
            length = end.end()
        items = self._index.resolve(self._buffer[1 : length - 1])
        known = any(item.known for item in items)
        at_start = not self._line.strip()
        if items and (at_start or not known):
            # `[7](url)` is a link, and `[7]: url` at the start of a line defines one.
            if len(self._buffer) == length and not final:
                return None
            following = self._buffer[length : length + 1]
            if (following == "(" and not known) or (following == ":" and at_start):
                items = []
        if not items or self._is_index(items) or self._after_brackets:
            return self._take(length, brackets=not items)
        return self._take(length, self._citations(items, length))

    def _is_index(self, items: list[Item]) -> bool:
        """Whether `[0]` follows a word, as in `values[0]`."""
        return items[0].first_label == "0" and bool(re.match(r"[\w)\]]", self._previous))

    def _citations(self, items: list[Item], length: int) -> tuple[Citation, ...]:
        """The citations of a marker, up to the maximum."""
        listed = self._in_list and _LIST_ITEM.fullmatch(self._line) is not None
        references = itertools.chain.from_iterable(item.references() for item in items)
        citations = tuple(
            Citation(
                label=reference.label,
                passages=reference.passages,
                start=self._offset + 1 + reference.start,
                end=self._offset + 1 + reference.end,
                marker_start=self._offset,
                marker_end=self._offset + length,
                listed=listed,
            )
            for reference in itertools.islice(references, self._left)
        )
        self._left -= len(citations)
        self.unrecorded += sum(item.count for item in items) - len(citations)
        return citations

    def _bracketed_name(self, opening: str, *, final: bool) -> int | None:
        """Number of characters of a marker whose name contains brackets; 0 if there is none; None if undecided."""
        for name in self._index.bracketed:
            expected = name + _CLOSING[opening]
            given = self._buffer[1 : 1 + len(expected)]
            if given == expected:
                return 1 + len(expected)
            if not final and len(self._buffer) <= len(expected) and expected.startswith(given):
                return None
        return 0


def _text_pattern(bracketed: Sequence[str]) -> re.Pattern[str]:
    """The pattern of text that contains no marker, for names with brackets."""
    if not bracketed:
        return _TEXT_WITH_BRACKETS
    return _TEXT if any(name[0] in OPENING and name[1:2] in OPENING for name in bracketed) else _TEXT_BEFORE_BRACKETS


def _opens_item(line: str) -> bool:
    match = _LIST_ITEM.match(line)
    return match is not None and (match.end() > 0 or line[:1] in OPENING)
