"""The model that is installed with the gateway."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ragstore_gateway.embeddings.builtin import TOKENIZER, WEIGHTS, BuiltinEmbedder, ModelDamaged, model_folder
from ragstore_gateway.errors import ModelUnavailable
from tests.gateway.embeddings.factories import embeddings

RECORDED = json.loads((Path(__file__).parent / "wordllama_vectors.json").read_text())


@pytest.fixture(scope="module")
def embedder() -> BuiltinEmbedder:
    return BuiltinEmbedder()


@pytest.mark.parametrize(("form", "normalize"), [("raw", False), ("normalised", True)])
async def test_vectors_equal_those_that_wordllama_computes(
    embedder: BuiltinEmbedder, form: str, normalize: bool
) -> None:
    vectors = await embedder.embed(RECORDED["texts"], "document", normalize=normalize)
    for vector, recorded in zip(vectors, RECORDED[form], strict=True):
        assert vector[:8] == pytest.approx(recorded["first"], abs=1e-6)
        assert vector.sum() == pytest.approx(recorded["sum"], abs=1e-4)


async def test_vectors_are_float32_of_length_1(embedder: BuiltinEmbedder) -> None:
    vectors = await embedder.embed(["tea", "a b c " * 1000, "\x00", "\u200b", "🍵"], "query")
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


async def test_a_text_has_the_same_vector_in_any_batch(embedder: BuiltinEmbedder) -> None:
    texts = [f"tea number {index} " * (index % 40 + 1) for index in range(600)]
    together = await embedder.embed(texts, "document")
    for index in (0, 255, 256, 599):
        alone = await embedder.embed([texts[index]], "document")
        assert alone[0].tolist() == together[index].tolist()


@pytest.mark.parametrize("file", [WEIGHTS[0], TOKENIZER[0]])
def test_a_file_that_differs_from_the_tested_one_is_not_used(tmp_path: Path, file: str) -> None:
    for name, _ in (WEIGHTS, TOKENIZER):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(model_folder() / name, tmp_path / name)
    BuiltinEmbedder(tmp_path)
    with (tmp_path / file).open("ab") as damaged:
        damaged.write(b" ")
    with pytest.raises(ModelDamaged, match="differs from the tested one"):
        BuiltinEmbedder(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(ModelDamaged, match="cannot be read"):
        BuiltinEmbedder(tmp_path)


async def test_another_local_model_without_its_extra_is_an_error_that_says_what_to_install() -> None:
    async with embeddings() as made:
        embedder = made.of("local", {"model": "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"})
        with pytest.raises(ModelUnavailable, match=r"pip install 'ragstore-gateway\[sentence-transformers\]'"):
            await embedder.embed(["tea"], "document")


GROWTH = """
import asyncio
from pathlib import Path

from ragstore_gateway.embeddings.builtin import BuiltinEmbedder

PAGES_PER_MIB = 256
EMBEDDER = BuiltinEmbedder()


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
