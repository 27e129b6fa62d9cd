"""Responses of servers of embeddings and of reranking models, as Text Embeddings Inference sends them."""

from __future__ import annotations

import json

from tests.support.fake_upstream import Exchange


async def embedded(exchange: Exchange) -> None:
    """Vectors for texts."""
    texts = exchange.request.json["inputs"]
    await exchange.respond(json.dumps([[float(len(text)), 1.0, 0.5, 0.5] for text in texts]).encode())


async def reranked(exchange: Exchange) -> None:
    """Scores for texts."""
    count = len(exchange.request.json["texts"])
    await exchange.respond(json.dumps([{"index": index, "score": 0.5} for index in range(count)]).encode())
