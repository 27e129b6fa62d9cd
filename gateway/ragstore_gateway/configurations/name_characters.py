"""The characters that no name has: what a reader does not see can make one name look like another, or end its line."""

from __future__ import annotations

import re
from typing import Final

from ragstore.kit.errors import InvalidRequest

UNSEEN: Final = r"\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""The members of a class of a regular expression: controls (C0, C1), separators of lines and paragraphs, marks,
overrides and isolates of bidirectional texts, and invisible characters. Joiners, which Persian and Hindi need, are none
of them."""

NEW_NAME: Final = rf"^[^\s{UNSEEN}]([^{UNSEEN}]*[^\s{UNSEEN}])?$(?!\n)"
"""The names that bases, assistants and vector stores can be given."""

RULE: Final = "Must have no control, bidirectional, separator or invisible characters"

_UNSEEN: Final = re.compile(f"[{UNSEEN}]")
_NEW_NAME: Final = re.compile(NEW_NAME)


def has_unseen(name: str) -> bool:
    """Whether a name has a character that no name has."""
    return _UNSEEN.search(name) is not None


def check_characters(name: str, path: str) -> None:
    """Check the characters of a name that is written.

    The types of stored configurations do not have this rule: names that are older than it stay readable.

    Args:
        path: path of the field, for the error.

    Raises:
        InvalidRequest: it has a character that no name has, or a space at either end.
    """
    if _NEW_NAME.search(name) is None:
        raise InvalidRequest.at(path, f"{RULE}, and no space at either end")


def in_one_line(name: str) -> str:
    """A name as it is written in a prompt: without characters that no name has, and with single spaces."""
    return " ".join(_UNSEEN.sub(" ", name).split())
