"""`builtin/wordllama`, a model of the extra `models`."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ragstore_gateway.embeddings.model_files import ModelDamaged, package_folder
from ragstore_gateway.embeddings.token_means import MAX_PIECE
from ragstore_gateway.embeddings.wordllama import TOKENIZER, WEIGHTS, WordLlamaEmbedder
from ragstore_gateway.errors import ModelUnavailable
from tests.gateway.embeddings.factories import embeddings

RECORDED = json.loads((Path(__file__).parent / "wordllama_vectors.json").read_text())


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


@pytest.mark.parametrize(("form", "normalize"), [("raw", False), ("normalised", True)])
async def test_vectors_equal_those_that_wordllama_computes(
    embedder: WordLlamaEmbedder, form: str, normalize: bool
) -> None:
    vectors = await embedder.embed(RECORDED["texts"], "document", normalize=normalize)
    for vector, recorded in zip(vectors, RECORDED[form], strict=True):
        assert vector[:8] == pytest.approx(recorded["first"], abs=1e-6)
        assert vector.sum() == pytest.approx(recorded["sum"], abs=1e-4)


async def test_vectors_are_float32_of_length_1(embedder: WordLlamaEmbedder) -> None:
    vectors = await embedder.embed(["tea", "a b c " * 1000, "\x00", "\u200b", "🍵"], "query")
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


async def test_a_text_has_the_same_vector_in_any_batch(embedder: WordLlamaEmbedder) -> None:
    texts = [f"tea number {index} " * (index % 40 + 1) for index in range(600)]
    together = await embedder.embed(texts, "document")
    for index in (0, 255, 256, 599):
        alone = await embedder.embed([texts[index]], "document")
        assert alone[0].tolist() == together[index].tolist()


@pytest.mark.parametrize("text", ["tea and  milk, " * 2_000, "!?" * 9_000, "a " * 4_096 + "b", "c" * MAX_PIECE])
def test_a_long_text_has_the_mean_of_all_its_tokens(embedder: WordLlamaEmbedder, text: str) -> None:
    ids = embedder._tokenizer.encode(text, add_special_tokens=False).ids
    whole = embedder._tokens[ids].mean(axis=0)
    assert embedder.vectors([text])[0] == pytest.approx(whole, abs=2e-4)
    assert embedder.vectors(["tea", text, "milk"])[1].tolist() == embedder.vectors([text])[0].tolist()


@pytest.mark.parametrize("text", ["!?" * 50_000, "tea " * 50_000])
def test_the_memory_for_a_long_text_is_bounded(embedder: WordLlamaEmbedder, text: str) -> None:
    """In one piece these took 100 MB and 50 MB, and a question of 1 MB took 1.1 GB."""
    tracemalloc.start()
    embedder.vectors([text])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30_000_000


async def test_each_batch_is_a_job_of_its_own_and_none_follows_when_the_caller_is_gone() -> None:
    """A call occupied one of the process's few threads for seconds, also after its caller had left."""
    embedder = WordLlamaEmbedder()
    inner, calls = embedder._tokenizer, 0
    begun, may_continue = threading.Event(), threading.Event()

    class Slow:
        def encode_batch_fast(self, texts: list[str], *, add_special_tokens: bool) -> object:
            nonlocal calls
            calls += 1
            begun.set()
            may_continue.wait(20)
            return inner.encode_batch_fast(texts, add_special_tokens=add_special_tokens)

    embedder._tokenizer = Slow()  # type: ignore[assignment]  # it waits in each batch
    texts = ["tea " * 4_000] * 40
    task = asyncio.create_task(embedder.embed(texts, "document"))
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_continue.set()
    assert calls == 1
    assert (await embedder.embed(texts, "document")).shape == (40, 256)
    assert calls == 1 + 10


@pytest.mark.parametrize("file", [WEIGHTS[0], TOKENIZER[0]])
def test_a_file_that_differs_from_the_tested_one_is_not_used(tmp_path: Path, file: str) -> None:
    for name, _ in (WEIGHTS, TOKENIZER):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(package_folder("wordllama") / name, tmp_path / name)
    WordLlamaEmbedder(tmp_path)
    with (tmp_path / file).open("ab") as damaged:
        damaged.write(b" ")
    with pytest.raises(ModelDamaged, match="differs from the tested one"):
        WordLlamaEmbedder(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(ModelDamaged, match="cannot be read"):
        WordLlamaEmbedder(tmp_path)


async def test_another_local_model_without_its_extra_is_an_error_that_says_what_to_install() -> None:
    async with embeddings() as made:
        embedder = made.of("local", {"model": "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"})
        with pytest.raises(ModelUnavailable, match=r"pip install 'ragstore-gateway\[sentence-transformers\]'"):
            await embedder.embed(["tea"], "document")


GROWTH = """
import asyncio
from pathlib import Path

from ragstore_gateway.embeddings.wordllama import WordLlamaEmbedder

PAGES_PER_MIB = 256
EMBEDDER = WordLlamaEmbedder()


async def embed(numbers):
    for number in numbers:
        await EMBEDDER.embed([f"Where is boiler number {number} in the cellar? " * 3], "query")
    return int(Path("/proc/self/statm").read_text().split()[1]) / PAGES_PER_MIB


before = asyncio.run(embed(range(500)))
print(asyncio.run(embed(range(500, 8500))) - before)
"""


@pytest.mark.process
def test_questions_that_are_all_different_take_no_memory() -> None:
    run = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, timeout=120, check=True)
    assert float(run.stdout) < 8, "MiB; 8,000 texts in the tokenizer's cache take 45 MiB"
