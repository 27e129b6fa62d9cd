"""Scores: how near a hit is, more being nearer."""

from __future__ import annotations

import pytest

from ragstore.model.collections import Distance
from ragstore.operations.search import score as score_for


@pytest.mark.parametrize(
    ("kind", "distance", "score"),
    [
        ("cosine", 0.0, 1.0),
        ("cosine", 0.25, 0.75),
        ("cosine", 2.0, -1.0),
        ("ip", 0.0, 1.0),
        ("ip", -4.0, 5.0),
        ("ip", 1.0, 0.0),
        ("l2", 0.0, 1.0),
        ("l2", 1.0, 0.5),
        ("l2", 3.0, 0.25),
    ],
)
def test_a_score_is_what_the_contract_says(kind: Distance, distance: float, score: float) -> None:
    assert score_for(distance, kind) == pytest.approx(score)


@pytest.mark.parametrize("kind", ["cosine", "ip", "l2"])
def test_a_nearer_hit_has_a_higher_score(kind: Distance) -> None:
    scores = [score_for(distance, kind) for distance in (0.0, 0.1, 0.5, 1.0, 1.9)]
    assert scores == sorted(scores, reverse=True)
