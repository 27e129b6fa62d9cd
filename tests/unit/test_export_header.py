"""The header of an export whose metadata and distance differ."""

from __future__ import annotations

import io

import pytest

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.format import Checksum, ExportReader
from ragstore_client import Distance


@pytest.mark.parametrize(
    ("distance", "space", "expected"), [("l2", "cosine", "cosine"), ("l2", "ip", "ip"), ("l2", "l2", "l2")]
)
def test_an_export_of_an_old_collection_by_an_earlier_version_has_the_distance_of_its_metadata(
    distance: Distance, space: str, expected: str
) -> None:
    collection = CountedCollection("notes", {"hnsw:space": space}, 0, 2, distance)
    reader = ExportReader(io.BytesIO(Checksum().header(collection)))
    assert reader.collection.distance == expected
