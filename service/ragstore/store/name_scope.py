"""`NameScope`: which collections a caller may see, and which of them the caller may change.

The collections of a reserved prefix, such as `kb_`, belong to the gateway. A key may change one of them only if one of
the key's patterns names the prefix: the pattern begins with it and matches the name. `*` names no prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate


class NameScope:
    """The names that a caller may see, and may change.

    Args:
        patterns: patterns of names, in the syntax of file names, such as `repo_*`; None for all names.
        reserved: the reserved prefixes.
        reads_reserved: whether the caller sees collections of reserved prefixes that match the patterns but that no
            pattern names: admins do, and callers of a store without keys.
    """

    def __init__(
        self, patterns: Sequence[str] | None, reserved: Sequence[str] = (), *, reads_reserved: bool = False
    ) -> None:
        self._reserved = tuple(reserved)
        self._reads_reserved = reads_reserved
        self._matches = _matcher(["*"] if patterns is None else patterns)
        self._is_named = _matcher([pattern for pattern in patterns or () if pattern.startswith(self._reserved)])
        self._has_all = patterns is None and (reads_reserved or not self._reserved)

    @property
    def sees_everything(self) -> bool:
        """Whether the caller sees every collection."""
        return self._has_all

    def is_visible(self, name: str) -> bool:
        """Whether a collection exists for the caller."""
        if self._reads_reserved or not name.startswith(self._reserved):
            return self._matches(name)
        return self._is_named(name)

    def is_writable(self, name: str) -> bool:
        """Whether the caller may change a collection."""
        return self._is_named(name) if name.startswith(self._reserved) else self._matches(name)

    def may_write_prefix(self, prefix: str) -> bool:
        """Whether the caller may change collections of a reserved prefix."""
        return self._is_named(f"{prefix}x")


def _matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    if not patterns:
        return lambda _: False
    match = re.compile("|".join(map(translate, patterns))).match
    return lambda name: match(name) is not None
