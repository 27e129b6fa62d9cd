"""`NameScope`: which collections a caller may see, and which of them the caller may change.

The collections of a reserved prefix, such as `kb_`, belong to the gateway. A key may change one of them only if one of
the key's patterns names the prefix: the pattern begins with it and matches the name. `*` names no prefix.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstore.kit.auth.name_patterns import NamePatterns


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
        self._matches = NamePatterns(patterns).matches
        named = [pattern for pattern in patterns or () if pattern.startswith(self._reserved)]
        self._is_named = NamePatterns(named).matches
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
