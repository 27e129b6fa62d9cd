"""Resolves the content of a pair of brackets to the passages that it cites."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ragstore_client.context._escape import clean_name
from ragstore_client.context._passages import ContextPassage

MAX_NAME: Final = 1_000
"""Maximum number of characters of a name that a reply can cite. Passages with a longer one are cited by number."""

OPENING: Final = "[\u3010\uff3b\u3014"
"""Opening brackets: square, and in Chinese and Japanese texts lenticular, full-width and tortoise shell brackets."""

_MAX_RANGE: Final = 100
_NUMBER: Final = r"\d{1,3}"
_DASH: Final = r"\s*[-\u2010-\u2014]\s*"
_LABEL: Final = re.compile(
    r"\s*(?:sources?|src|quellen?|källor|källa|docs?|documents?|dokument|passages?|refs?|references?|chunks?|from|see|"
    rf"siehe|von|来源|文档)(?:\s*[:\uff1a]\s*|\s+|(?={_NUMBER}(?:{_DASH}{_NUMBER})?\Z))",
    re.IGNORECASE,
)
"""A word before a number or a name. Directly before digits, only if nothing follows them: `doc2.pdf` is a name."""
# A run of spaces is matched from its start only: otherwise a long run would take quadratic time.
_SPACES: Final = r"(?:(?<!\s)\s+)?"
_BETWEEN_NUMBERS: Final = re.compile(_SPACES + r"(?:[,;\u3001\uff0c\uff1b&+]|\b(?:and|und|och|et|y)\b)\s*")
_BETWEEN_NAMES: Final = re.compile(_SPACES + r"[,;\u3001\uff0c\uff1b]\s*")
_NUMBERS: Final = re.compile(rf"({_NUMBER})(?:{_DASH}({_NUMBER}))?")
_CHUNKS: Final = re.compile(rf"(.+)#({_NUMBER}){_DASH}#?({_NUMBER})")
_CHUNK_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_CHUNK_ONLY: Final = re.compile(r"#[\w.-]+")
_BRACKETS: Final = re.compile(r"[\[\]]")
_SUFFIX: Final = re.compile(r"†.*")
_FILE: Final = re.compile(
    r"[^\[\]#]*[^\s\[\]#]\.(?:pdf|docx?|pptx?|xlsx?|odt|ods|odp|rtf|txt|md|html?|csv|tsv|epub|eml|msg)(?:#[\w.:-]{1,64})?",
    re.IGNORECASE,
)
_URL: Final = re.compile(r"https?://[^\s\[\]]+", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[^\s#\[\]]+#[\w-]{1,64}")


class Reference(msgspec.Struct, frozen=True):
    """One citation of a marker.

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


class Item(msgspec.Struct, frozen=True):
    """One item of a marker: a number, a name, or a range. A range is not expanded: `1-99` has few characters.

    Attributes:
        start: where it begins, in characters from the start of the marker's content.
        end: where it ends.
        prefix: the name, or what precedes each number: nothing, or `manual.pdf#`.
        numbers: the numbers; None for a name.
        found: the passages of the numbers that the context has; of a name, under 0.
    """

    start: int
    end: int
    prefix: str
    numbers: Sequence[int] | None
    found: Mapping[int, tuple[ContextPassage, ...]]

    @property
    def count(self) -> int:
        """The number of citations."""
        return 1 if self.numbers is None else len(self.numbers)

    @property
    def known(self) -> bool:
        """Whether the context has a cited passage."""
        return 0 in self.found if self.numbers is None else any(number in self.found for number in self.numbers)

    @property
    def first_label(self) -> str:
        """The label of the first citation."""
        return self.prefix if self.numbers is None else f"{self.prefix}{self.numbers[0]}"

    def references(self) -> Iterator[Reference]:
        """The citations."""
        if self.numbers is None:
            yield Reference(self.start, self.end, self.prefix, self.found.get(0, ()))
            return
        for number in self.numbers:
            yield Reference(self.start, self.end, f"{self.prefix}{number}", self.found.get(number, ()))


_NOTHING: Final[Mapping[int, tuple[ContextPassage, ...]]] = {}


class CitationIndex:
    """The numbers and names that a reply may cite.

    Args:
        passages: the passages of the context. A number that several of them have cites the first one.
    """

    def __init__(self, passages: Sequence[ContextPassage]) -> None:
        self._numbers: dict[int, tuple[ContextPassage, ...]] = {}
        for passage in passages:
            self._numbers.setdefault(passage.number, (passage,))
        by_name: dict[str, list[ContextPassage]] = {}
        for passage in passages:
            for name in _names_of(passage):
                by_name.setdefault(name.casefold(), []).append(passage)
        self._names = {name: tuple(named) for name, named in by_name.items()}
        self._chunks = _by_chunk(self._names)
        # Names without an extension, such as `Handbook#3`, make any `word#3` look like a citation.
        self._plain = any(
            "#" in p.citation and not (_FILE.fullmatch(p.citation) or _URL.match(p.citation)) for p in passages
        )
        self.bracketed = tuple({c for p in passages if _BRACKETS.search(c := p.citation) and _is_citable(c)})
        """The citations that contain brackets themselves."""
        self.max_name = max(map(len, self._names), default=0)
        """Number of characters of the longest name."""

    def resolve(self, content: str) -> list[Item]:
        """Resolve the content of a pair of brackets.

        Args:
            content: the characters between the brackets.

        Returns:
            Its items; empty when the brackets are not a citation.
        """
        end = len(_SUFFIX.sub("", content).rstrip())
        start = len(content) - len(content.lstrip())
        if start >= end:
            return []
        if item := self._named(start, end, content[start:end]):
            return [item]
        numbers = list(self._pieces(content, start, end, _BETWEEN_NUMBERS))
        if all(_NUMBERS.fullmatch(piece) for _, _, piece in numbers):
            return self._resolve_numbers(numbers)
        return self._resolve_names(list(self._pieces(content, start, end, _BETWEEN_NAMES)))

    def _pieces(self, content: str, start: int, end: int, separator: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
        """The pieces between separators, each with its span and without a label such as `Source`."""
        for match in separator.finditer(content, start, end):
            yield self._unlabelled(content, start, match.start())
            start = match.end()
        yield self._unlabelled(content, start, end)

    def _unlabelled(self, content: str, start: int, end: int) -> tuple[int, int, str]:
        label = _LABEL.match(content, start, end)
        # `doc 2.pdf` and `doc2` may be names of the context.
        if label and not self._is_name(content[start:end].strip()):
            start = label.end()
        return start, end, content[start:end]

    def _is_name(self, text: str) -> bool:
        """Whether the context has a name, or several chunks of it as in `doc 2.pdf#3-5`."""
        match = _CHUNKS.fullmatch(text)
        return text.casefold() in self._names or (match is not None and match[1].casefold() in self._chunks)

    def _named(self, start: int, end: int, name: str) -> Item | None:
        passages = self._names.get(name.casefold())
        return None if passages is None else Item(start, end, name, None, {0: passages})

    def _resolve_numbers(self, pieces: list[tuple[int, int, str]]) -> list[Item]:
        items = [item for piece in pieces if (item := self._numbers_of(*piece))]
        if len(items) < len(pieces):
            return []
        # Number 0 belongs to an interval, a vector or an index; alone it may be an invented citation.
        several = len(items) > 1 or items[0].count > 1
        return [] if several and any(item.numbers and item.numbers[0] == 0 for item in items) else items

    def _numbers_of(self, start: int, end: int, piece: str) -> Item | None:
        match = _NUMBERS.fullmatch(piece)
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= first + _MAX_RANGE:
            return None
        return Item(start, end, "", range(first, last + 1), self._numbers)

    def _resolve_names(self, pieces: list[tuple[int, int, str]]) -> list[Item]:
        items: list[Item] = []
        unknown = 0
        source = ""
        for start, end, piece in pieces:
            name = f"{source}{piece}" if _CHUNK_ONLY.fullmatch(piece) and source else piece
            item = self._name_of(start, end, name) or self._numbers_of(start, end, piece)
            if item is None:
                unknown += 1
            else:
                items.append(item)
            source = name.rpartition("#")[0] if "#" in name else name
        return [] if unknown and not any(item.known for item in items) else items

    def _name_of(self, start: int, end: int, name: str) -> Item | None:
        if item := self._named(start, end, name):
            return item
        if (match := _CHUNKS.fullmatch(name)) and int(match[2]) <= int(match[3]) <= int(match[2]) + _MAX_RANGE:
            return self._chunks_of(start, end, match[1], range(int(match[2]), int(match[3]) + 1))
        return Item(start, end, name, None, _NOTHING) if self._looks_like_name(name) else None

    def _chunks_of(self, start: int, end: int, source: str, numbers: range) -> Item | None:
        found = self._chunks.get(source.casefold(), _NOTHING)
        if self._looks_like_name(f"{source}#{numbers[0]}"):
            return Item(start, end, f"{source}#", numbers, found)
        known = [number for number in numbers if number in found]
        return Item(start, end, f"{source}#", known, found) if known else None

    def _looks_like_name(self, name: str) -> bool:
        return bool(_FILE.fullmatch(name) or _URL.fullmatch(name) or (self._plain and _PLAIN.fullmatch(name)))


def _names_of(passage: ContextPassage) -> set[str]:
    url = passage.metadata.get("url")
    names = {passage.citation, clean_name(url) if isinstance(url, str) else ""}
    source, mark, _ = passage.citation.rpartition("#")
    return {name for name in names | ({source} if mark else set()) if name and _is_citable(name)}


def _is_citable(name: str) -> bool:
    return len(name) <= MAX_NAME


def _by_chunk(names: Mapping[str, tuple[ContextPassage, ...]]) -> dict[str, dict[int, tuple[ContextPassage, ...]]]:
    """The passages by source and number, for names such as `manual.pdf#3`."""
    found: dict[str, dict[int, tuple[ContextPassage, ...]]] = {}
    for name, passages in names.items():
        source, _, number = name.rpartition("#")
        if source and _CHUNK_NUMBER.fullmatch(number):
            found.setdefault(source, {})[int(number)] = passages
    return found
