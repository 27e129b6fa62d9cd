"""Names passages: the citation of each one, and the source that it belongs to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ragstore_client._exceptions import describe
from ragstore_client.context._escape import clean_name
from ragstore_client.context._passages import MetadataValue, Passage

logger = logging.getLogger("ragstore_client.context")

Names: TypeAlias = Mapping[str, str] | Callable[[Passage], str | None]
"""File names by `file_id` or `document_id`, or a function that returns a passage's file name, or None.

A function that raises an exception counts as one that returns None.
"""

_FILE_IDS: Final = ("file_id", "document_id")
_NAME_FIELDS: Final = ("file_name", "document_name", "source", "url")
_CHUNK_FIELDS: Final = ("chunk_index", "chunk_ix")


def citation_of(passage: Passage, names: Names | None = None) -> str:
    """The citation of a passage, without brackets: `manual.pdf#3`.

    Args:
        names: file names that override the names in the metadata.

    Returns:
        The source's name, and `#` with the chunk's index where the metadata has one (`chunk_index`, `chunk_ix`); the
        passage's id where it has no name. Control characters, line breaks and hidden characters are replaced by spaces.
    """
    name = _name(passage, names)
    if name is None:
        return clean_name(passage.id)
    chunk = next((value for key in _CHUNK_FIELDS if _is_index(value := passage.metadata.get(key))), None)
    return clean_name(name if chunk is None else f"{name}#{chunk}")


def source_of(passage: Passage, names: Names | None = None) -> str:
    """The name of the source that a passage belongs to, such as `manual.pdf`.

    Args:
        names: file names that override the names in the metadata.

    Returns:
        The name from `names`, else `file_name`, `document_name`, `source` or `url` of the metadata, else the passage's
        id. Control characters, line breaks and hidden characters are replaced by spaces.
    """
    name = _name(passage, names)
    return clean_name(passage.id) if name is None else name


def _name(passage: Passage, names: Names | None) -> str | None:
    """The name of a passage's file, as one line; None where it has none."""
    given = [_given_name(passage, names), *(passage.metadata.get(key) for key in _NAME_FIELDS)]
    cleaned = (clean_name(name) for name in given if isinstance(name, str))
    return next((name for name in cleaned if name), None)


def _given_name(passage: Passage, names: Names | None) -> object:
    if callable(names):
        try:
            return names(passage)
        except Exception as error:  # noqa: BLE001 - third-party code; a citation by the metadata is better than none
            logger.warning("Naming a passage failed, using its metadata: %s", describe(error))
            return None
    identifiers = [passage.metadata.get(key) for key in _FILE_IDS] if names else []
    found = [names.get(each) for each in identifiers if names and isinstance(each, str)]
    return next((name for name in found if name), None)


def _is_index(value: MetadataValue | None) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool)
    return isinstance(value, str) and bool(value.strip())
