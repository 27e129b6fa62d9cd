"""Requests for embeddings are checked, and room for their responses is reserved, before the work begins."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from ragstore.kit.byte_budget import Share, request_shares
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.time_slices import run_whole
from ragstore_gateway.embeddings.admission import (
    ASSUMED_DIMENSION,
    MAX_BODY_VALUES,
    STEP_BYTES,
    checked,
    reserve_response,
    scanned,
)
from ragstore_gateway.embeddings.cache import CachingEmbedder, VectorCache
from ragstore_gateway.embeddings.embedder import Kind, Vectors
from ragstore_gateway.embeddings.response_bodies import embed_body, embeddings_body
from tests.gateway.embeddings.factories import embeddings
from tests.support.byte_budgets import budget_of
from tests.support.fake_providers import Received, fake_provider, vectors_of

LONGEST = 131_072
MIB = 1024 * 1024


def scan(content: bytes, longest: int = LONGEST) -> None:
    run_whole(scanned(content, "$.inputs", longest))


def check(texts: Sequence[str], longest: int = LONGEST) -> None:
    run_whole(checked(texts, "$.inputs", 2048, longest))


@pytest.mark.parametrize("element", ['"a"', "[1]", "{}", "1", '""'])
def test_a_body_of_too_many_values_is_rejected_before_it_is_decoded(element: str) -> None:
    """60 MiB of them took seconds to decode, and 1 GiB of memory."""
    body = f'{{"inputs": [{",".join([element] * 80_000)}]}}'.encode()

    with pytest.raises(InvalidRequest, match=f"more than {MAX_BODY_VALUES} values"):
        scan(body)


@pytest.mark.parametrize("character", [" ", "a", "é", "\\u00e9", "\\\\", '\\"'])
def test_a_text_that_is_far_too_long_is_rejected_before_it_is_decoded(character: str) -> None:
    with pytest.raises(InvalidRequest, match="at most 131072 bytes"):
        scan(f'{{"inputs": ["{character * (MIB + 1)}"]}}'.encode())


@pytest.mark.parametrize("padding", range(7))
@pytest.mark.parametrize("pattern", [',[{"', "\\", '"\\', "\u00e9\\\\"])
def test_punctuation_within_texts_is_no_value_wherever_a_step_ends(pattern: str, padding: int) -> None:
    texts = ["x" * padding + pattern * (STEP_BYTES // 2 // len(pattern))] * 5

    scan(msgspec.json.encode({"inputs": texts}), longest=STEP_BYTES)


@pytest.mark.parametrize("end", ["", '"', "\\", "\\u00"])
def test_a_large_body_without_an_end_is_scanned_to_its_end(end: str) -> None:
    scan(f'{{"inputs": ["{"a" * (2 * STEP_BYTES)}{end}'.encode(), longest=MIB)


def test_the_lengths_of_all_texts_are_checked_before_the_content_of_any() -> None:
    class Unsearchable(str):
        """A text whose content must not be looked at."""

        __slots__ = ()

        def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
            raise AssertionError

    with pytest.raises(InvalidRequest) as caught:
        check([Unsearchable("a" * LONGEST), "a" * (LONGEST + 1)])
    assert caught.value.field_errors[0].path == "$.inputs[1]"


def test_a_long_text_is_blank_only_if_all_of_it_is() -> None:
    blank = " " * (3 * STEP_BYTES)
    check([blank + "a"], longest=4 * STEP_BYTES)
    with pytest.raises(InvalidRequest, match="Must not be empty"):
        check([blank], longest=4 * STEP_BYTES)


def test_long_texts_are_checked_in_steps() -> None:
    """Searching 60 MB of blanks stopped the event loop for 0.4 s."""
    steps = checked([" " * (LONGEST - 1) + "a"] * 100, "$.inputs", 2048, LONGEST)

    assert sum(1 for _ in steps) > 100 * LONGEST // STEP_BYTES // 2


class Fixed:
    """An `Embedder` with one vector for all texts."""

    name = "fixed"
    dimension = 1536

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        row = np.random.default_rng(1).random(self.dimension, dtype=np.float32) / 100 - 0.005
        return np.stack([row] * len(texts))


@pytest.mark.parametrize("form", ["json", "float", "base64"])
@pytest.mark.parametrize("texts", [["tea"] * 250, [f"tea {number}" for number in range(250)]], ids=["same", "own"])
async def test_a_response_takes_no_more_memory_than_was_reserved_and_not_far_less(form: str, texts: list[str]) -> None:
    embedder = CachingEmbedder(Fixed(), VectorCache(0), b"", timeout_seconds=20)
    share = Share()
    with request_shares(budget_of(1 << 40), Share(), share):
        await reserve_response(len(texts), embedder.dimension, "base64" if form == "base64" else "float")
        reserved = share.size

    tracemalloc.start()
    vectors = await embedder.embed(texts, "document")
    if form == "json":
        body = run_whole(embed_body(vectors, normalize=True))
    else:
        body = run_whole(embeddings_body(vectors, texts, model="fixed", encoding_format=form))
    sent = bytearray(body)  # the connection's copy
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(sent) < peak < reserved < 4 * peak


async def test_an_unknown_dimension_is_assumed_to_be_large() -> None:
    share = Share()
    with request_shares(budget_of(1 << 40), Share(), share):
        await reserve_response(1000, None, "float")
        assert share.size > 1000 * ASSUMED_DIMENSION * 22


async def test_the_response_of_a_provider_counts_while_it_is_read_and_decoded() -> None:
    response, seen = Share(), list[int]()
    budget = budget_of(1 << 40)
    add = budget.add

    def watched(share: Share, size: int) -> None:
        add(share, size)
        seen.append(share.size)

    budget.add = watched  # type: ignore[method-assign]  # only to look at it

    async def respond(received: Received) -> object:
        return vectors_of(received, 1024)

    async with fake_provider(respond) as server, embeddings() as made:  # type: ignore[arg-type]  # of aiohttp
        embedder = made.of("tei", {"baseUrl": server.url})
        with request_shares(budget, Share(), response):
            await embedder.embed([f"text {number}" for number in range(20)], "document")
            assert response.size == 0
    assert max(seen) > 20 * 1024 * 4 * 4
