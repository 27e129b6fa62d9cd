"""Resolves the content of a pair of brackets to the passages that it cites."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ragstore_client.context._escape import clean_name
from ragstore_client.context._passages import ContextPassage

_MAX_RANGE: Final = 100
_NUMBER: Final = r"\d{1,3}"
_DASH: Final = r"\s*[-\u2010-\u2014]\s*"
_LABEL: Final = re.compile(
    r"\s*(?:sources?|src|quellen?|källor|källa|docs?|documents?|dokument|passages?|refs?|references?|chunks?|from|see|"
    r"siehe|von|来源|文档)(?:\s*[:\uff1a]\s*|\s+|(?=\d))",
    re.IGNORECASE,
)
# A run of spaces is matched from its start only: otherwise a long run would take quadratic time.
_SPACES: Final = r"(?:(?<!\s)\s+)?"
_BETWEEN_NUMBERS: Final = re.compile(_SPACES + r"(?:[,;\u3001\uff0c\uff1b&+]|\b(?:and|und|och|et|y)\b)\s*")
_BETWEEN_NAMES: Final = re.compile(_SPACES + r"[,;\u3001\uff0c\uff1b]\s*")
_NUMBERS: Final = re.compile(rf"({_NUMBER})(?:{_DASH}({_NUMBER}))?")
_CHUNKS: Final = re.compile(rf"(.+)#({_NUMBER}){_DASH}#?({_NUMBER})")
_CHUNK_ONLY: Final = re.compile(r"#[\w.-]+")
_SUFFIX: Final = re.compile(r"†.*")
_FILE: Final = re.compile(
    r"[^\[\]#]*[^\s\[\]#]\.(?:pdf|docx?|pptx?|xlsx?|odt|ods|odp|rtf|txt|md|html?|csv|tsv|epub|eml|msg)(?:#[\w.:-]{1,64})?",
    re.IGNORECASE,
)
_URL: Final = re.compile(r"https?://[^\s\[\]]+", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[^\s#\[\]]+#[\w-]{1,64}")


class Reference(msgspec.Struct, frozen=True):
    """One item of a marker.

    Attributes:
        start: where it begins, in characters from the start of the marker's content.
        end: where it ends.
        label: the number or name, such as `1` or `manual.pdf#3`.
        passages: the passages that it cites; empty when there are none.
    """

    start: int
    end: int
    label: str
    passages: tuple[ContextPassage, ...]


class CitationIndex:
    """The numbers and names that a reply may cite.

    Args:
        passages: the passages of the context.
    """

    def __init__(self, passages: Sequence[ContextPassage]) -> None:
        self._numbers = {passage.number: (passage,) for passage in passages}
        self._names: dict[str, list[ContextPassage]] = {}
        for passage in passages:
            for name in _names_of(passage):
                self._names.setdefault(name.casefold(), []).append(passage)
        # Names without an extension, such as `Handbook#3`, make any `word#3` look like a citation.
        self._plain = any(
            "#" in p.citation and not (_FILE.fullmatch(p.citation) or _URL.match(p.citation)) for p in passages
        )
        self.bracketed = tuple({p.citation for p in passages if "[" in p.citation or "]" in p.citation})
        """The citations that contain brackets themselves."""
        self.max_name = max(map(len, self._names), default=0)
        """Number of characters of the longest name."""

    def resolve(self, content: str) -> list[Reference]:
        """Resolve the content of a pair of brackets.

        Args:
            content: the characters between the brackets.

        Returns:
            Its items; empty when the brackets are not a citation.
        """
        end = len(_SUFFIX.sub("", content).rstrip())
        start = len(content) - len(content.lstrip())
        if passages := self._named(content[start:end]):
            return [Reference(start, end, content[start:end], passages)]
        numbers = list(_pieces(content, start, end, _BETWEEN_NUMBERS))
        if all(_NUMBERS.fullmatch(piece) for _, _, piece in numbers):
            return self._resolve_numbers(numbers)
        return self._resolve_names(list(_pieces(content, start, end, _BETWEEN_NAMES)))

    def _named(self, name: str) -> tuple[ContextPassage, ...]:
        return tuple(self._names.get(name.casefold(), ()))

    def _resolve_numbers(self, pieces: list[tuple[int, int, str]]) -> list[Reference]:
        references = [reference for piece in pieces for reference in self._numbers_of(*piece)]
        # Number 0 belongs to an interval, a vector or an index; alone it may be an invented citation.
        if len(references) < len(pieces) or (len(references) > 1 and any(int(r.label) == 0 for r in references)):
            return []
        return references

    def _numbers_of(self, start: int, end: int, piece: str) -> list[Reference]:
        match = _NUMBERS.fullmatch(piece)
        if match is None:
            return []
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= first + _MAX_RANGE:
            return []
        return [Reference(start, end, str(n), self._numbers.get(n, ())) for n in range(first, last + 1)]

    def _resolve_names(self, pieces: list[tuple[int, int, str]]) -> list[Reference]:
        references: list[Reference] = []
        unknown = 0
        source = ""
        for start, end, piece in pieces:
            name = f"{source}{piece}" if _CHUNK_ONLY.fullmatch(piece) and source else piece
            found = list(self._names_of(start, end, name)) or self._numbers_of(start, end, piece)
            unknown += not found
            references += found
            source = name.rpartition("#")[0] if "#" in name else name
        known = any(reference.passages for reference in references)
        return [] if unknown and not known else references

    def _names_of(self, start: int, end: int, name: str) -> Iterator[Reference]:
        if passages := self._named(name):
            yield Reference(start, end, name, passages)
        elif (match := _CHUNKS.fullmatch(name)) and int(match[2]) <= int(match[3]) <= int(match[2]) + _MAX_RANGE:
            for index in range(int(match[2]), int(match[3]) + 1):
                yield from self._names_of(start, end, f"{match[1]}#{index}")
        elif _FILE.fullmatch(name) or _URL.fullmatch(name) or (self._plain and _PLAIN.fullmatch(name)):
            yield Reference(start, end, name, ())


def _names_of(passage: ContextPassage) -> set[str]:
    url = passage.metadata.get("url")
    names = {passage.citation, clean_name(url) if isinstance(url, str) else ""}
    source, mark, _ = passage.citation.rpartition("#")
    return {name for name in names | ({source} if mark else set()) if name}


def _pieces(content: str, start: int, end: int, separator: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
    """The pieces between separators, each with its span and without a label such as `Source`."""
    for match in separator.finditer(content, start, end):
        yield _unlabelled(content, start, match.start())
        start = match.end()
    yield _unlabelled(content, start, end)


def _unlabelled(content: str, start: int, end: int) -> tuple[int, int, str]:
    if label := _LABEL.match(content, start, end):
        start = label.end()
    return start, end, content[start:end]
