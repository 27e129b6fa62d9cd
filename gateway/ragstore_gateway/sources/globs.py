"""`Glob`: a path glob, matched in linear time."""

from __future__ import annotations

import re
from typing import Final

_ANY_SEGMENTS: Final = "**"
_STARS: Final = re.compile(r"\*+")


class Glob:
    """A pattern of the path of a URL.

    `*` matches any characters of one segment, `?` one character, and a segment `**` any number of segments. A pattern
    without a slash is matched with the last segment of a path, another one with the whole path.
    """

    def __init__(self, pattern: str) -> None:
        text = pattern if "/" in pattern else f"{_ANY_SEGMENTS}/{pattern}"
        segments = text.removeprefix("/").split("/")
        if segments[-1] == "" and len(segments) > 1:
            # `/archive/` is the folder with all that is in it.
            segments[-1] = _ANY_SEGMENTS
        self._segments = [None if each == _ANY_SEGMENTS else _segment(each) for each in segments]

    def matches(self, path: str) -> bool:
        """Whether the pattern matches a path, as a whole.

        Args:
            path: the path. A slash at its end makes no difference.
        """
        names = path.removeprefix("/").removesuffix("/").split("/")
        pattern = self._segments
        at = name = 0
        # Where to continue after a mismatch: behind the last `**`, which takes one more segment. The first match of
        # what is between two of them is as good as any later one, so that no earlier `**` is tried again.
        retry_at, retry_name = -1, 0
        while name < len(names):
            segment = pattern[at] if at < len(pattern) else None
            if at < len(pattern) and segment is None:
                retry_at, retry_name = at + 1, name
                at += 1
            elif segment is not None and segment.fullmatch(names[name]):
                at += 1
                name += 1
            elif retry_at >= 0:
                retry_name += 1
                at, name = retry_at, retry_name
            else:
                return False
        return all(each is None for each in pattern[at:])


def _segment(pattern: str) -> re.Pattern[str]:
    """The pattern of one segment. Each part between two stars is an atomic group, so that none is tried again."""
    first, *others = (re.escape(part).replace(r"\?", ".") for part in _STARS.split(pattern))
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    groups = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{groups}.*{last}" if last else f"{first}{groups}.*", re.DOTALL)
