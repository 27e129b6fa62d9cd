"""A collection's configuration and metadata in Chroma's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from ragstore.model.collections import DEFAULT_HNSW, DISTANCES, SPACE, Distance, HnswParameters
from ragstore.model.metadata import CollectionMetadata

SYNC_THRESHOLD: Final = 1000
"""Chroma's default. Its minimum is 3."""

EMPTY_METADATA: Final[Mapping[str, None]] = {"ragstore": None}
"""Replaces all metadata by none. Chroma rejects `{}`, and stores nothing for a null (measured with 1.5.9)."""


def index_configuration(
    distance: Distance, sync_threshold: int, hnsw: HnswParameters = DEFAULT_HNSW
) -> dict[str, dict[str, object]]:
    """The configuration of a new collection's index.

    Args:
        sync_threshold: writes after which the index is saved; distributed Chroma ignores it.
        hnsw: further parameters of the index.

    Returns:
        Chroma's `configuration`. Settings that have Chroma's default are left out.
    """
    index: dict[str, object] = {"space": distance, **msgspec.to_builtins(hnsw)}
    if sync_threshold != SYNC_THRESHOLD:
        # Chroma requires a batch size of at most the sync threshold; 100 is its default.
        index |= {"sync_threshold": sync_threshold, "batch_size": min(100, sync_threshold)}
    return {"hnsw": index}


def distance_of(configuration: Mapping[str, object]) -> Distance:
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


DEFAULT_INDEX: Final[Mapping[object, object]] = {
    "space": "l2",
    "ef_construction": 100,
    "ef_search": 100,
    "max_neighbors": 16,
    "resize_factor": 1.2,
    "batch_size": 100,
    "sync_threshold": 1000,
}
"""Chroma's default `hnsw` configuration (measured with 1.5.9), which it reports for collections of Chroma 0.5 and 0.6.
The number of threads is not listed: it depends on the machine."""


def hnsw_of(configuration: Mapping[str, object]) -> HnswParameters:
    """Read the parameters of a collection's index from its configuration.

    Args:
        configuration: Chroma's `configuration_json`. Distributed Chroma has a `spann` index, which has no `hnsw` ones.

    Returns:
        The parameters that are not Chroma's defaults.
    """
    index = configuration.get("hnsw")
    return hnsw_parameters(index) if isinstance(index, Mapping) else DEFAULT_HNSW


def hnsw_parameters(index: Mapping[str, object]) -> HnswParameters:
    """The parameters of an index that are not Chroma's defaults."""
    given = {name: index.get(name) for name in HnswParameters.__struct_fields__}
    return HnswParameters(
        **{name: value for name, value in given.items() if isinstance(value, int) and value != DEFAULT_INDEX[name]}
    )


def legacy_distance(configuration: Mapping[str, object], metadata: CollectionMetadata) -> Distance | None:
    """The distance of a collection that Chroma 0.5 or 0.6 created, if its metadata alone names it.

    Those versions take the distance from the metadata key `hnsw:space`, and store a configuration of defaults next to
    it. Chroma 1.5.9 computes distances as the metadata says and reports the stored configuration. Chroma 1 itself folds
    the metadata into a configuration of defaults, so a collection that it created never has both.

    Args:
        configuration: Chroma's `configuration_json`.
        metadata: the collection's metadata.

    Returns:
        The distance; None if the configuration is right.
    """
    index = configuration.get("hnsw")
    named = DISTANCES.get(metadata.get(SPACE))
    if named in (None, "l2") or not isinstance(index, dict) or configuration.get("spann"):
        return None
    return named if all(DEFAULT_INDEX.get(key, value) == value for key, value in index.items()) else None
