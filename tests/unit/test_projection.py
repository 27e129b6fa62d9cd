"""Positions and neighbours of embeddings on a map."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstore.kit.time_slices import run_whole
from ragstore.model.collections import Distance
from ragstore.model.distances import distances_to
from ragstore.model.maps import blocks_of
from ragstore.model.projection import Projection, project, rounded
from ragstore.model.vectors import Matrix

DISTANCES: tuple[Distance, ...] = ("cosine", "l2", "ip")


def embeddings_of(count: int, dimension: int, *, offset: float = 0.0) -> Matrix:
    """Clustered embeddings."""
    random = np.random.default_rng(3)
    centres = random.standard_normal((5, dimension)) * np.linspace(3, 1, dimension)
    chosen = centres[random.integers(0, 5, count)]
    return (chosen + 0.3 * random.standard_normal((count, dimension)) + offset).astype(np.float32)


def projected(embeddings: Matrix, distance: Distance) -> Projection:
    return run_whole(project(embeddings, distance))


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize(("count", "dimension", "offset"), [(300, 24, 0.0), (40, 900, 0.0), (200, 16, 5000.0)])
def test_neighbours_are_exact(distance: Distance, count: int, dimension: int, offset: float) -> None:
    embeddings = embeddings_of(count, dimension, offset=offset)

    found = projected(embeddings, distance)

    exact = np.stack([distances_to(embeddings, row, distance) for row in embeddings]).astype(np.float64)
    np.fill_diagonal(exact, np.inf)
    expected = np.sort(exact, axis=1)[:, :15]
    largest = np.abs(expected).max()
    assert np.allclose(found.distances, expected, rtol=1e-6, atol=1e-6 * largest)
    assert np.allclose(np.take_along_axis(exact, found.neighbours, axis=1), expected, rtol=1e-6, atol=1e-6 * largest)


@pytest.mark.parametrize("distance", ["l2", "ip"])
@pytest.mark.parametrize(("count", "dimension"), [(200, 12), (200, 40), (30, 300)])
def test_positions_are_the_first_two_principal_components(distance: Distance, count: int, dimension: int) -> None:
    embeddings = embeddings_of(count, dimension)

    found = projected(embeddings, distance).positions

    centred = embeddings.astype(np.float64) - embeddings.astype(np.float64).mean(axis=0)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    expected = left[:, :2] * lengths[:2]
    signs = np.sign(np.einsum("ij,ij->j", found, expected))
    assert np.allclose(found, expected * signs, atol=1e-3 * lengths[0])


def test_cosine_places_embeddings_of_length_one() -> None:
    embeddings = embeddings_of(50, 8)
    lengths = np.random.default_rng(0).uniform(0.1, 100, (50, 1)).astype(np.float32)

    assert np.allclose(
        projected(embeddings, "cosine").positions, projected(embeddings * lengths, "cosine").positions, atol=1e-4
    )


def test_the_same_embeddings_have_the_same_map() -> None:
    first, second = (projected(embeddings_of(100, 20), "cosine") for _ in range(2))

    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize(("count", "dimension"), [(0, 3), (1, 3), (2, 3), (3, 1), (16, 1), (17, 2)])
def test_few_embeddings_have_a_map(distance: Distance, count: int, dimension: int) -> None:
    found = projected(embeddings_of(count, dimension), distance)

    size = max(0, min(15, count - 1))
    assert found.positions.shape == (count, 2)
    assert found.neighbours.shape == found.distances.shape == (count, size)
    assert all(index not in row for index, row in enumerate(found.neighbours))
    assert np.isfinite(found.positions).all()


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("number", [0.0, 0.1, 3e38, 1e-45])
def test_equal_embeddings_are_at_one_place(distance: Distance, number: float) -> None:
    found = projected(np.full((30, 7), number, dtype=np.float32), distance)

    assert not found.positions.any()
    assert len(np.unique(found.distances)) == 1
    assert np.isfinite(found.distances).all()


def test_a_zero_embedding_has_the_cosine_distance_1_from_all() -> None:
    found = projected(np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float32), "cosine")

    assert found.distances[0].tolist() == [1.0, 1.0]


def test_the_largest_float32_has_finite_distances() -> None:
    found = projected(np.array([[3e38, 0], [-3e38, 0], [0, 3e38]], dtype=np.float32), "l2")

    assert np.isfinite(found.distances).all()
    assert np.isfinite(found.positions).all()


def test_numbers_have_the_digits_of_float32() -> None:
    numbers: NDArray[np.float64] = np.array([1 / 3, -200 / 3, 123456.789, 1e9 / 3, 0.0, -1e-320])

    assert rounded(numbers).tolist() == [0.3333333, -66.66667, 123456.8, 333333300.0, 0.0, 0.0]
    assert rounded(np.array([1e300, -2e-30 / 3])).tolist() == pytest.approx([3.402823e38, -6.666667e-31], rel=1e-12)


@pytest.mark.parametrize("total", [*range(40), 99, 100, 101, 12_345])
def test_a_sample_is_of_distinct_documents_in_even_blocks(total: int) -> None:
    for size in {*range(min(total, 35) + 1), total // 2, total}:
        blocks = list(blocks_of(total, size))
        offsets = [offset for block in blocks for offset in block]
        assert len(offsets) == len(set(offsets)) == size
        assert offsets == sorted(offsets)
        assert all(0 <= offset < total for offset in offsets)
        assert len(blocks) == min(10, size)
        gaps = [after.start - before.stop for before, after in pairwise(blocks)]
        assert not gaps or max(gaps) - min(gaps) <= 1
