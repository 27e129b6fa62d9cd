r"""The size of a regular expression of Rust's `regex` crate once its repetitions are written out.

The crate's engine is linear in the text, but its time for each character grows with the expression:
`(?:\w{1,8}\s){20}\d` takes 0.3 s a megabyte, and `(?:\w{1,8}\s){5}\d` 4 ms (Chroma 1.5.9). Classes of Unicode
characters, such as `\w` and `.`, are the expensive ones. Embedded Chroma executes one call at a time: all others wait.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_UNICODE_CLASSES: Final = 100
"""Maximum number of classes of Unicode characters."""

MAX_SIZE: Final = 2_000
"""Maximum number of characters and classes."""

_REPETITION: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}[?]?")
_GROUP: Final = re.compile(r"\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:|[a-zA-Z-]+(?=\))))?")
_ESCAPE: Final = re.compile(
    r"\\(?:[pPxuU]\{[^}]*\}|[pP].|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL
)
_UNICODE_ESCAPES: Final = frozenset("wWdDsSpP")
_SIMPLE: Final = "*+?"


class RegexSize(NamedTuple):
    """A size.

    Attributes:
        total: number of characters and classes.
        unicode_classes: number of classes of Unicode characters among them.
    """

    total: int
    unicode_classes: int

    def plus(self, other: RegexSize) -> RegexSize:
        """The size of both."""
        return RegexSize(self.total + other.total, self.unicode_classes + other.unicode_classes)

    def times(self, count: int) -> RegexSize:
        """The size of several copies."""
        return RegexSize(self.total * count, self.unicode_classes * count)


_NOTHING: Final = RegexSize(0, 0)
_CHARACTER: Final = RegexSize(1, 0)
_UNICODE_CLASS: Final = RegexSize(1, 1)


def is_too_large(pattern: str) -> bool:
    """Whether a regular expression is larger than the service accepts."""
    size = regex_size(pattern)
    return size.total > MAX_SIZE or size.unicode_classes > MAX_UNICODE_CLASSES


def regex_size(pattern: str) -> RegexSize:
    """The size of a regular expression. Of one that is not valid, which Chroma rejects, it is an estimate."""
    # Sizes of the groups that are open, each as what precedes its last atom, and that atom.
    before: list[RegexSize] = [_NOTHING]
    atom: list[RegexSize] = [_NOTHING]
    index = 0
    while index < len(pattern):
        letter = pattern[index]
        if repetition := _REPETITION.match(pattern, index):
            minimum, comma, maximum = repetition.groups()
            atom[-1] = atom[-1].times(max(int(maximum or minimum) + (comma is not None and not maximum), 1))
            index = repetition.end()
            continue
        if letter in _SIMPLE:
            index += 1
            continue
        if letter == ")" and len(before) > 1:
            group = before.pop().plus(atom.pop())
            before[-1], atom[-1] = before[-1].plus(atom[-1]), group
            index += 1
            continue
        if group_start := _GROUP.match(pattern, index):
            before.append(_NOTHING)
            atom.append(_NOTHING)
            index = group_start.end()
            continue
        size, index = _atom(pattern, index)
        before[-1], atom[-1] = before[-1].plus(atom[-1]), size
    total = _NOTHING
    for size in (*before, *atom):
        total = total.plus(size)
    return total


def _atom(pattern: str, index: int) -> tuple[RegexSize, int]:
    """The size of a character or a class, and the index after it."""
    letter = pattern[index]
    if letter == "[":
        return _class(pattern, index)
    if escape := _ESCAPE.match(pattern, index):
        is_class = pattern[index + 1] in _UNICODE_ESCAPES
        return (_UNICODE_CLASS if is_class else _CHARACTER), escape.end()
    return (_UNICODE_CLASS if letter == "." else _CHARACTER), index + 1


def _class(pattern: str, start: int) -> tuple[RegexSize, int]:
    """The size of a class in brackets, which may contain others, and the index after it."""
    is_unicode, depth, index = pattern.startswith("[^", start), 0, start
    while index < len(pattern):
        letter = pattern[index]
        if escape := _ESCAPE.match(pattern, index):
            is_unicode |= pattern[index + 1] in _UNICODE_ESCAPES
            index = escape.end()
            continue
        is_unicode |= not letter.isascii()
        # A bracket that closes directly after the one that opens is a character.
        is_first = pattern[index - 1] == "[" or pattern[index - 2 : index] == "[^"
        if letter == "[":
            depth += 1
        elif letter == "]" and not is_first:
            depth -= 1
            if not depth:
                return (_UNICODE_CLASS if is_unicode else _CHARACTER), index + 1
        index += 1
    return (_UNICODE_CLASS if is_unicode else _CHARACTER), index
