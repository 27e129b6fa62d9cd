"""`NamePatterns`: which names a key may use, such as `repo_*`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from typing import Final


class NamePatterns:
    """A set of names, given by patterns.

    Args:
        patterns: patterns in the syntax of file names, such as `repo_*`; None for all names.

    Attributes:
        matches_all: whether the patterns are all names.
    """

    def __init__(self, patterns: Sequence[str] | None) -> None:
        self.matches_all = patterns is None
        # Without a pattern, nothing matches. An empty expression would match every name.
        self._match = re.compile("|".join(map(translate, patterns or ())) or r"(?!)").match

    def matches(self, name: str) -> bool:
        """Whether a name is one of them."""
        return self.matches_all or self._match(name) is not None


ALL_NAMES: Final = NamePatterns(None)
