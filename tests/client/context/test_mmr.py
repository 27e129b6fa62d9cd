"""Maximal marginal relevance against its definition, a naive implementation, and LangChain's."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstore_client import InvalidConfiguration, InvalidInput
from ragstore_client.context._order import choose, maximal_marginal_relevance
from ragstore_client.context._passages import Passage

TOLERANCE = 1e-5
"""Two scores that differ by less may be ordered either way: the vectors are float32."""


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    norm = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / norm if norm else 0.0


def naive_score(
    query: Sequence[float], vectors: list[list[float]], chosen: list[int], i: int, diversity: float
) -> float:
    """The score of a candidate, written as the definition is."""
    relevance = cosine(query, vectors[i])
    if not chosen:
        return relevance
    return (1 - diversity) * relevance + diversity * (1 - max(cosine(vectors[i], vectors[c]) for c in chosen))


def assert_greedy(query: list[float], vectors: list[list[float]], picks: list[int], diversity: float) -> None:
    """Each pick has the highest score of the remaining candidates."""
    for step, pick in enumerate(picks):
        chosen = picks[:step]
        left = [i for i in range(len(vectors)) if i not in chosen]
        best = max(naive_score(query, vectors, chosen, i, diversity) for i in left)
        assert naive_score(query, vectors, chosen, pick, diversity) >= best - TOLERANCE


def random_vectors(seed: int, count: int, dimension: int) -> tuple[list[float], list[list[float]]]:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count + 1, dimension)).astype(np.float32).tolist()
    return vectors[0], vectors[1:]


def choice(query: list[float], vectors: list[list[float]], k: int, diversity: float) -> list[int]:
    return choose(array("f", query), [array("f", v) for v in vectors], k=k, diversity=diversity)


SMALL = st.lists(st.lists(st.integers(-3, 3).map(float), min_size=3, max_size=3), min_size=1, max_size=8)


@settings(deadline=None)
@given(SMALL, st.lists(st.integers(-3, 3).map(float), min_size=3, max_size=3), st.floats(0, 1), st.integers(1, 9))
def test_each_pick_has_the_highest_score_of_the_definition(
    vectors: list[list[float]], query: list[float], diversity: float, k: int
) -> None:
    picks = choice(query, vectors, k, diversity)
    assert len(picks) == len(set(picks)) == min(k, len(vectors))
    assert_greedy(query, vectors, picks, diversity)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(2, 24), st.floats(0.01, 0.99), st.integers(1, 35))
def test_the_picks_are_langchains_with_lambda_mult_1_minus_diversity(
    seed: int, count: int, dimension: int, diversity: float, k: int
) -> None:
    # LangChain takes half a second of each process that collects tests.
    from langchain_core.vectorstores import utils

    query, vectors = random_vectors(seed, count, dimension)
    ours = choice(query, vectors, k, diversity)
    theirs = utils.maximal_marginal_relevance(np.array(query), vectors, lambda_mult=1 - diversity, k=k)
    if ours != theirs:  # only a tie within the precision of float32 may be broken differently
        assert_greedy(query, vectors, ours, diversity)
        first = next(step for step, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        scores = [naive_score(query, vectors, ours[:first], i, diversity) for i in (ours[first], theirs[first])]
        assert scores[0] == pytest.approx(scores[1], abs=TOLERANCE)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 20))
def test_without_diversity_the_order_is_that_of_the_similarity(seed: int, count: int) -> None:
    query, vectors = random_vectors(seed, count, 8)
    similarities = [cosine(query, vectors[i]) for i in choice(query, vectors, count, 0.0)]
    assert all(a >= b - TOLERANCE for a, b in pairwise(similarities))


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 20))
def test_with_diversity_1_the_first_is_the_most_similar_and_the_others_the_least_redundant(
    seed: int, count: int
) -> None:
    query, vectors = random_vectors(seed, count, 8)
    picks = choice(query, vectors, count, 1.0)
    assert cosine(query, vectors[picks[0]]) >= max(cosine(query, v) for v in vectors) - TOLERANCE
    assert_greedy(query, vectors, picks, 1.0)


def test_a_near_duplicate_gives_way_to_a_different_passage() -> None:
    given = [
        Passage(id="best", text="", embedding=[1.0, 0.1, 0.0]),
        Passage(id="copy", text="", embedding=np.array([1.0, 0.11, 0.0], np.float32)),
        Passage(id="other", text="", embedding=np.array([0.8, 0.0, 0.6], np.float32).tobytes()),
    ]
    query = [1.0, 0.1, 0.05]
    assert [p.id for p in maximal_marginal_relevance(query, given, k=2, diversity=0.0)] == ["best", "copy"]
    assert [p.id for p in maximal_marginal_relevance(query, given, k=2, diversity=0.7)] == ["best", "other"]
    assert [p.id for p in maximal_marginal_relevance(query, given, k=9, diversity=0.7)] == ["best", "other", "copy"]
    assert maximal_marginal_relevance(query, given, k=0, diversity=0.7) == []
    assert maximal_marginal_relevance(query, [], k=3, diversity=0.7) == []


def test_a_zero_or_infinite_vector_is_similar_to_nothing() -> None:
    assert choice([1.0, 0.0], [[0.0, 0.0], [math.inf, 1.0], [0.1, 0.9]], 3, 0.3)[0] == 2
    assert sorted(choice([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 2, 0.3)) == [0, 1]


def test_missing_embeddings_other_dimensions_and_impossible_diversities_are_errors() -> None:
    one = Passage(id="a", text="", embedding=[1.0, 2.0])
    with pytest.raises(InvalidInput, match="embedding of every passage"):
        maximal_marginal_relevance([1.0, 2.0], [one, Passage(id="b", text="")], k=1, diversity=0.5)
    with pytest.raises(InvalidInput, match="2 dimensions, the query has 3"):
        maximal_marginal_relevance([1.0, 2.0, 3.0], [one], k=1, diversity=0.5)
    with pytest.raises(InvalidConfiguration, match=r"not 1\.5"):
        maximal_marginal_relevance([1.0, 2.0], [one], k=1, diversity=1.5)
