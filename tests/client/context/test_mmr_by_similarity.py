"""MMR with the similarities of a source, in place of the query's vector."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore_client import InvalidInput
from ragstore_client.context import Passage, maximal_marginal_relevance


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 40), st.floats(0, 1))
def test_the_choice_is_that_with_the_query_s_vector(seed: int, count: int, k: int, diversity: float) -> None:
    chance = np.random.default_rng(seed)
    query = chance.normal(size=8).astype(np.float32)
    vectors = chance.normal(size=(count, 8)).astype(np.float32)
    similarities = vectors @ query / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
    passages = [
        Passage(id=str(number), text="", similarity=float(similarity), embedding=vector)
        for number, (vector, similarity) in enumerate(zip(vectors, similarities, strict=True))
    ]
    by_vector = maximal_marginal_relevance(query, passages, k=k, diversity=diversity)
    by_similarity = maximal_marginal_relevance(None, passages, k=k, diversity=diversity)
    assert [passage.id for passage in by_similarity] == [passage.id for passage in by_vector]


@pytest.mark.parametrize(
    "wrong",
    [
        Passage(id="b", text="", similarity=None, embedding=[1.0, 0.0]),
        Passage(id="b", text="", similarity=0.5, embedding=[1.0]),
        Passage(id="b", text="", similarity=0.5),
    ],
)
def test_every_passage_needs_a_similarity_and_a_vector(wrong: Passage) -> None:
    right = Passage(id="a", text="", similarity=0.5, embedding=[1.0, 0.0])
    with pytest.raises(InvalidInput):
        maximal_marginal_relevance(None, [right, wrong], k=2, diversity=0.5)


def test_a_similarity_that_is_not_a_number_is_the_lowest() -> None:
    passages = [
        Passage(id=name, text="", similarity=similarity, embedding=[1.0, 0.0])
        for name, similarity in [("nan", math.nan), ("low", -0.9)]
    ]
    assert [passage.id for passage in maximal_marginal_relevance(None, passages, k=2, diversity=0)] == ["low", "nan"]
