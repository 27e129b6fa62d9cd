"""Packed embeddings are the embeddings that they were made of, bit by bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore.model.large_bodies.packed_embeddings import PackedEmbeddings, PackedRow, norms_of, pack_row, unpack_row
from ragstore.model.vectors import Vector, squared_norms

NUMBERS = st.one_of(st.integers(-200, 200).map(float), st.floats(width=32, allow_nan=False, allow_infinity=False))


def vector_of(numbers: list[float]) -> Vector:
    return np.array(numbers, dtype=np.float32)


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_an_unpacked_row_is_the_embedding(numbers: list[float]) -> None:
    vector = vector_of(numbers)
    row = pack_row(vector)
    assert unpack_row(row).tobytes() == vector.tobytes()
    assert norms_of(PackedEmbeddings([row])).tolist() == squared_norms(vector[np.newaxis]).tolist()


@pytest.mark.parametrize("other", [0.5, -0.0, 128.0, -3.4e38])
def test_whole_numbers_take_a_byte_each_although_others_are_among_them(other: float) -> None:
    row = pack_row(vector_of([*range(-99, 100), other]))
    assert isinstance(row, PackedRow)
    assert PackedEmbeddings([row]).nbytes == 200 + 6


def test_an_embedding_of_fractions_is_not_packed() -> None:
    vector = vector_of([1, 0.5, 0.25])
    assert pack_row(vector) is vector


def test_packed_embeddings_have_rows_and_become_a_matrix_when_they_are_pickled() -> None:
    vectors = [vector_of([1, 2, 0.5]), vector_of([0.1, 0.2, 0.3]), vector_of([3, 4, 5])]
    embeddings = PackedEmbeddings([pack_row(vector) for vector in vectors])
    assert (len(embeddings), embeddings.shape) == (3, (3, 3))
    assert [row.tolist() for row in embeddings] == np.stack(vectors).tolist()
    assert embeddings[1:].tolist() == np.stack(vectors[1:]).tolist()
    unpickled = pickle.loads(pickle.dumps(embeddings))  # from the line above
    assert unpickled.tolist() == np.stack(vectors).tolist()
