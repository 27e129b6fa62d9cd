"""A merged write has the effect of its writes one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragstore.chroma.merging import merge
from ragstore.errors import DocumentsExist
from ragstore.model.documents import Batch, Write
from ragstore.model.large_bodies.packed_embeddings import Embeddings, PackedEmbeddings, pack_row
from ragstore.model.metadata import Metadata

IDS = st.sampled_from("abcde")
METADATAS: st.SearchStrategy[Metadata] = st.dictionaries(
    st.sampled_from("xyz"), st.integers(0, 3) | st.lists(st.integers(0, 3), min_size=1, max_size=2), max_size=3
)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Documents that differ from all others in their vectors and texts."""
    ids = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
    numbers = draw(st.lists(st.integers(0, 10**6), min_size=len(ids), max_size=len(ids)))
    return Batch(
        ids,
        [str(number) for number in numbers],
        [draw(METADATAS) for _ in ids],
        draw(st.sampled_from((_matrix, _packed)))(numbers),
    )


def _matrix(numbers: list[int]) -> Embeddings:
    return np.array([[number, -number] for number in numbers], dtype=np.float32)


def _packed(numbers: list[int]) -> Embeddings:
    return PackedEmbeddings([pack_row(row) for row in _matrix(numbers)])


WRITES: st.SearchStrategy[list[Write]] = st.lists(
    st.builds(Write, st.sampled_from(("add", "upsert")), batches()), min_size=1, max_size=8
)

Stored = dict[str, tuple[object, Mapping[str, object], list[float]]]


def _applied(writes: list[Write], stored: Stored) -> list[tuple[str, ...] | None]:
    """Apply writes one after another; returns the ids that caused each rejection."""
    outcomes: list[tuple[str, ...] | None] = []
    for write in writes:
        batch = write.batch
        taken = tuple(key for key in batch.ids if write.kind == "add" and key in stored)
        outcomes.append(taken or None)
        if not taken:
            for key, text, metadata, vector in zip(
                batch.ids, batch.texts, batch.metadatas, batch.embeddings[:].tolist(), strict=True
            ):
                stored[key] = (text, metadata, vector)
    return outcomes


@given(before=st.dictionaries(IDS, METADATAS), writes=WRITES)
def test_a_merged_write_has_the_effect_of_its_writes_one_after_another(
    before: dict[str, Metadata], writes: list[Write]
) -> None:
    expected: Stored = {key: ("", metadata, [0.0, 0.0]) for key, metadata in before.items()}
    stored = dict(expected)
    outcomes = _applied(writes, expected)
    merged = merge("c", writes, before)
    for key, text, written, vector in zip(
        merged.records.ids,
        merged.records.texts,
        merged.records.metadatas,
        merged.records.embeddings[:].tolist(),
        strict=True,
    ):
        # Chroma merges: a null removes a key.
        metadata = {**before.get(key, {}), **(written or {})}
        stored[key] = (text, {name: value for name, value in metadata.items() if value is not None}, vector)
    assert stored == expected
    assert list(stored) == list(expected)
    assert [outcome.ids if isinstance(outcome, DocumentsExist) else outcome for outcome in merged.outcomes] == outcomes


@given(before=st.dictionaries(IDS, METADATAS), writes=WRITES)
def test_merging_does_not_modify_its_arguments(before: dict[str, Metadata], writes: list[Write]) -> None:
    was = ({key: dict(metadata) for key, metadata in before.items()}, [repr(write) for write in writes])
    merge("c", writes, before)
    assert (before, [repr(write) for write in writes]) == was


def test_the_embeddings_of_a_single_write_are_not_copied() -> None:
    kinds: tuple[Literal["add", "upsert"], ...] = ("add", "upsert")
    for kind in kinds:
        embeddings = np.ones((2, 2), dtype=np.float32)
        merged = merge("c", [Write(kind, Batch(["a", "b"], ["", ""], [{}, {}], embeddings))], {})
        assert merged.records.embeddings is embeddings


def test_an_empty_merged_write_keeps_the_dimension() -> None:
    write = Write("add", Batch(["a"], [""], [{}], np.ones((1, 3), dtype=np.float32)))
    merged = merge("c", [write, write], {"a": {}})
    assert (merged.records.ids, merged.records.embeddings.shape) == ([], (0, 3))
