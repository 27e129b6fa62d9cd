"""Responses in pieces."""

from __future__ import annotations

import msgspec
import pytest
from litestar import Response, get
from litestar.testing import AsyncTestClient

from ragstore.kit.service import UntracedLitestar
from ragstore_gateway.api.piecewise import PIECE_BYTES, pieces_of, piecewise, raw_text


@pytest.mark.parametrize("sizes", [[], [0], [1, 2, 3], [PIECE_BYTES], [3 * PIECE_BYTES + 1, 5], [5] * 100_000])
async def test_parts_of_any_size_become_pieces_of_one_size(sizes: list[int]) -> None:
    parts = [bytes([index % 256]) * size for index, size in enumerate(sizes)]
    pieces = [piece async for piece in pieces_of(parts)]
    assert b"".join(pieces) == b"".join(parts)
    assert all(PIECE_BYTES <= len(piece) < 2 * PIECE_BYTES for piece in pieces[:-1])


async def test_a_response_in_pieces_has_its_length_and_its_headers() -> None:
    @get("/")
    async def handler() -> Response[bytes]:
        return piecewise(bytes, [b"x" * PIECE_BYTES, b"y"], media_type="application/pdf", headers={"X-Own": "own"})

    async with AsyncTestClient(UntracedLitestar([handler])) as client:
        response = await client.get("/")
    assert response.content == b"x" * PIECE_BYTES + b"y"
    assert {name: response.headers[name] for name in ("content-length", "content-type", "x-own")} == {
        "content-length": str(PIECE_BYTES + 1),
        "content-type": "application/pdf",
        "x-own": "own",
    }


@pytest.mark.parametrize("text", ["", 'a "quote" \\ \n \x01 \U0001f600', "\u00e4" * 600_000])
def test_a_text_is_the_same_json_in_slices(text: str) -> None:
    assert bytes(raw_text(text)) == msgspec.json.encode(text)
