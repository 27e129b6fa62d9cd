"""Names of the hidden collections of a rebuild. Lists leave them out.

A rebuild copies a collection to a hidden one, and exchanges their names: the old collection gets a hidden name, then
the copy gets the name. Both hidden names contain the id of the old collection, and the copy's metadata has the name
until the exchange. So the exchange can be undone if Chroma's process ends between the two steps.
"""

from __future__ import annotations

from typing import Final

from ragstore.chroma.first_write import LOCK_PREFIX

COPY_PREFIX: Final = f"{LOCK_PREFIX}copy-"
"""Begins the name of a copy that is not complete."""

REPLACED_PREFIX: Final = f"{LOCK_PREFIX}replaced-"
"""Begins the name of an old collection after the exchange."""

NAME_KEY: Final = "collection"
"""Metadata key of a copy: the name that it is to get."""


def copy_name(collection_id: str) -> str:
    """The name of the copy of a collection."""
    return COPY_PREFIX + collection_id


def replaced_name(collection_id: str) -> str:
    """The name of a collection after its copy got its name."""
    return REPLACED_PREFIX + collection_id
