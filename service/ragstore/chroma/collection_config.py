"""A collection's configuration and metadata in Chroma's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ragstore.model.collections import DISTANCES, Distance

SYNC_THRESHOLD: Final = 1000
"""Chroma's default. Its minimum is 3."""

EMPTY_METADATA: Final[Mapping[str, None]] = {"ragstore": None}
"""Replaces all metadata by none. Chroma rejects `{}`, and stores nothing for a null (measured with 1.5.9)."""


def index_configuration(distance: Distance, sync_threshold: int) -> dict[str, dict[str, object]]:
    """The configuration of a new collection's index.

    Args:
        distance: the distance.
        sync_threshold: writes after which the index is saved; distributed Chroma ignores it.

    Returns:
        Chroma's `configuration`. Settings that have Chroma's default are left out.
    """
    index: dict[str, object] = {"space": distance}
    if sync_threshold != SYNC_THRESHOLD:
        # Chroma requires a batch size of at most the sync threshold; 100 is its default.
        index |= {"sync_threshold": sync_threshold, "batch_size": min(100, sync_threshold)}
    return {"hnsw": index}


def distance_of(configuration: dict[str, object]) -> Distance:
    """Read a collection's distance from its configuration.

    Args:
        configuration: Chroma's `configuration_json`. Single-node Chroma has an `hnsw` index, distributed Chroma a
            `spann` one.

    Returns:
        The distance; `l2`, which is Chroma's default, where the configuration has none.
    """
    for index in ("hnsw", "spann"):
        settings = configuration.get(index)
        if isinstance(settings, dict) and settings.get("space") in DISTANCES:
            return DISTANCES[settings["space"]]
    return "l2"
