"""Local models other than the built-in one. The model itself is a double: its library is an extra of several GB."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from ragstore_gateway.embeddings.local import MAX_BATCH, LocalEmbedder
from ragstore_gateway.embeddings.prefixes import Prefixes
from ragstore_gateway.errors import EmbeddingFailed


class Model:
    """A model that waits, or fails for one text."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun = threading.Event()
        self.may_continue = threading.Event()

    def encode(self, texts: list[str], **_: Any) -> Any:
        self.batches.append(texts)
        self.begun.set()
        self.may_continue.wait(20)
        if "q: bad" in texts:
            raise RuntimeError("a secret text")
        return np.array([[len(text), 1.0] for text in texts])


def embedder(model: Model) -> LocalEmbedder:
    made = LocalEmbedder("m", Prefixes("q: ", ""))
    made._model = model
    return made


async def test_callers_take_turns_and_one_that_leaves_is_not_computed_further() -> None:
    """Each call held one of the process's few threads until its turn came, and was computed to its end."""
    model = Model()
    made = embedder(model)
    first = asyncio.create_task(made.embed([f"{number}" for number in range(10 * MAX_BATCH)], "document"))
    await asyncio.to_thread(model.begun.wait, 20)
    others = [asyncio.create_task(made.embed(["tea", "coffee"], "query", normalize=False)) for _ in range(50)]
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    model.may_continue.set()
    for vectors in await asyncio.gather(*others):
        assert vectors.tolist() == [[6, 1], [9, 1]]
    assert [len(batch) for batch in model.batches] == [MAX_BATCH] + [2] * 50


async def test_a_failing_model_is_a_clear_error_without_the_text_and_harms_no_other_call() -> None:
    model = Model()
    model.may_continue.set()
    made = embedder(model)
    with pytest.raises(EmbeddingFailed, match=r"^local/m failed: RuntimeError$"):
        await made.embed(["bad"], "query")
    assert (await made.embed(["tea"] * 200, "document")).shape == (200, 2)
