"""`UrlPatterns`: globs of the URLs that a source ignores. Matching takes time linear in the length of a URL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from yarl import URL

UNSUPPORTED: Final = frozenset("[]{}\\#")
"""Characters that mean something in the globs of other programs. No path has them, except encoded."""

_SEGMENT: Final = "*"
_ANY: Final = "**"
_OPTIONAL: Final = ""
"""Before a `**` and a slash that may both be missing."""


@dataclass(frozen=True, slots=True)
class _Glob:
    """A glob as the sets of its positions, one bit each: position n is reached when n tokens are matched.

    Attributes:
        literals: the positions from which a character leads to the next one, by character.
        loops: the positions that any character keeps: those of `**`.
        segment_loops: the positions that any character but a slash keeps: those of `*`.
        skips: the positions that include a later one, with the number of positions between them.
        end: the last position.
        with_query: whether it is matched with the query, too.
        last_segment: whether it is matched with the last segment of a path only.
    """

    literals: dict[str, int]
    loops: int
    segment_loops: int
    skips: tuple[tuple[int, int], ...]
    end: int
    with_query: bool
    last_segment: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a glob.

        Args:
            text: the glob.

        Raises:
            ValueError: it is not one, with the reason.
        """
        if any(each in UNSUPPORTED or each.isspace() or not each.isprintable() for each in text):
            raise ValueError("Must be a glob with the wildcards * and **, without spaces and without []{}\\\\#")
        if "/" in text and not text.startswith(("/", _SEGMENT)):
            raise ValueError("Must begin with / or * if it has a /")
        return cls._of(_tokens(text), "?" in text, "/" not in text)

    @classmethod
    def _of(cls, tokens: list[str], with_query: bool, last_segment: bool) -> Self:
        literals: dict[str, int] = {}
        loops = segment_loops = 0
        skips = []
        for index, token in enumerate(tokens):
            if token == _OPTIONAL:
                skips += [(1 << index, 1), (1 << index, 3)]
            elif token in (_ANY, _SEGMENT):
                # A wildcard may match nothing, so that its position includes the next one.
                skips.append((1 << index, 1))
                if token == _ANY:
                    loops |= 1 << index
                else:
                    segment_loops |= 1 << index
            else:
                literals[token] = literals.get(token, 0) | 1 << index
        return cls(literals, loops, segment_loops, tuple(skips), 1 << len(tokens), with_query, last_segment)

    def matches(self, path: str, query: str) -> bool:
        """Whether it matches all of a path, or of a path with its query."""
        text = f"{path}?{query}" if self.with_query else path
        if self.last_segment:
            text = text[path.rfind("/") + 1 :]
        reached = self._skipped(1)
        for character in text:
            kept = reached & self.loops
            if character != "/":
                kept |= reached & self.segment_loops
            reached = self._skipped(kept | (reached & self.literals.get(character, 0)) << 1)
            if not reached:
                return False
        return bool(reached & self.end)

    def _skipped(self, reached: int) -> int:
        for position, length in self.skips:
            if reached & position:
                reached |= position << length
        return reached


class UrlPatterns:
    """Globs of URLs.

    `*` matches any characters but a slash, `**` any characters, and `/**/` a slash, too. A glob without a slash is
    matched with the last segment of a path; one with a `?` with the path and its query. Encoded characters are decoded.

    Args:
        patterns: the globs.

    Raises:
        ValueError: one of them is none.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._globs = [_Glob.parse(each) for each in patterns]

    def match(self, url: str) -> bool:
        """Whether any of the globs matches a URL.

        Args:
            url: an absolute URL.
        """
        if not self._globs:
            return False
        parsed = URL(url)
        return any(glob.matches(parsed.path, parsed.query_string) for glob in self._globs)


def check_pattern(text: str) -> None:
    """Check a glob.

    Args:
        text: the glob.

    Raises:
        ValueError: it is not one, with the reason.
    """
    _Glob.parse(text)


def _tokens(text: str) -> list[str]:
    """The characters of a glob and its wildcards."""
    tokens: list[str] = []
    index = 0
    while index < len(text):
        if text.startswith(_ANY, index):
            while text.startswith(_SEGMENT, index):
                index += 1
            optional = tokens[-1:] == ["/"] and text.startswith("/", index)
            tokens += [_OPTIONAL, _ANY] if optional else [_ANY]
        else:
            tokens.append(text[index])
            index += 1
    return tokens
