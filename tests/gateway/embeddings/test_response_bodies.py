"""The bodies of responses with embeddings, which are made in steps."""

from __future__ import annotations

import base64

import msgspec
import numpy as np
import pytest

from ragstore.kit.time_slices import run_whole
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.embeddings.response_bodies import STEP_NUMBERS, embed_body, embeddings_body
from ragstore_gateway.embeddings.schemas import EmbeddingsData, EmbeddingsResponse, EmbeddingsUsage, EmbedResponse

VECTORS: Vectors = np.random.default_rng(1).standard_normal((30, 3072), dtype=np.float32)
TEXTS = ["tea"] * len(VECTORS)


def body(encoding_format: str) -> bytes:
    return run_whole(embeddings_body(VECTORS, TEXTS, model='a "model"', encoding_format=encoding_format))


@pytest.mark.parametrize("normalize", [True, False])
def test_a_body_in_steps_is_the_body_of_the_struct(normalize: bool) -> None:
    expected = EmbedResponse(VECTORS.tolist(), normalize, 3072)
    assert run_whole(embed_body(VECTORS, normalize=normalize)) == msgspec.json.encode(expected)


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
def test_a_body_of_openai_in_steps_is_the_body_of_the_struct(encoding_format: str) -> None:
    found = body(encoding_format)
    tokens = msgspec.json.decode(found, type=EmbeddingsResponse).usage.prompt_tokens
    given = (
        [base64.b64encode(row.tobytes()).decode() for row in VECTORS]
        if encoding_format == "base64"
        else VECTORS.tolist()
    )
    data = [EmbeddingsData("embedding", index, each) for index, each in enumerate(given)]
    expected = EmbeddingsResponse("list", data, 'a "model"', EmbeddingsUsage(tokens, tokens))
    assert found == msgspec.json.encode(expected)
    assert tokens >= len(TEXTS)


def test_a_step_encodes_a_bounded_number_of_components() -> None:
    """The whole was one step, in which no other request ran."""
    least = VECTORS.size // STEP_NUMBERS
    assert len(list(embed_body(VECTORS, normalize=True))) >= least
    assert len(list(embeddings_body(VECTORS, TEXTS, model="m", encoding_format="float"))) >= least + len(TEXTS)
    wide: Vectors = np.zeros((2, 2 * STEP_NUMBERS), dtype=np.float32)
    assert len(list(embed_body(wide, normalize=True))) == 2
