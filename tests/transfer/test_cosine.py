"""Embeddings of cosine collections, which Chroma rounds."""

from __future__ import annotations

import numpy as np
import pytest

from ragstore.cosine import kept, sendable
from ragstore.model.vectors import Matrix
from tests.support.transfers import Store


def _random(dimension: int, scale: float, rows: int = 500) -> Matrix:
    drawn = np.random.default_rng(dimension).standard_normal((rows, dimension)) * scale
    return drawn.astype(np.float32)


@pytest.mark.parametrize("store", ["embedded", "remote"])
@pytest.mark.parametrize("scale", [1.0, 1e12])
def test_chroma_keeps_what_is_foreseen(store: str, scale: float, name: str, request: pytest.FixtureRequest) -> None:
    there: Store = request.getfixturevalue(store)
    sent = _random(768, scale, rows=100)
    there.create(name, "cosine")
    there.put(name, *({"id": str(place), "text": "", "embedding": row.tolist()} for place, row in enumerate(sent)))
    found = np.array([each["embedding"] for each in there.listed(name)], dtype=np.float32)
    assert (found != sent).any()
    assert (found == kept(sent)).all()


@pytest.mark.parametrize("dimension", [1, 2, 3, 32, 768, 1536])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_what_chroma_gave_can_be_had_again(dimension: int, scale: float) -> None:
    given = kept(_random(dimension, scale))
    assert (kept(sendable(given)) == given).all()


def test_an_embedding_that_cannot_be_had_is_sent_as_it_is() -> None:
    wanted = _random(768, 1.0)
    assert (kept(wanted) != wanted).any(axis=1).all()
    assert (sendable(wanted) == wanted).all()


def test_zeros_stay_zeros() -> None:
    wanted = np.zeros((2, 3), dtype=np.float32)
    wanted[1, 1] = 0.5
    assert (sendable(wanted) == wanted).all()


def test_what_is_sent_is_next_to_what_is_wanted() -> None:
    given = kept(_random(768, 1.0))
    assert np.allclose(sendable(given), given, rtol=1e-6, atol=0)
