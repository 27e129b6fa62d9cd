"""Reranking by a model in a folder, `onnx:FOLDER`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.embeddings.cross_encoder import CrossEncoders
from ragstore_gateway.embeddings.model_folders import ModelFolders
from ragstore_gateway.errors import ModelUnavailable
from tests.gateway.retrieval.conftest import Assisted
from tests.support.onnx_models import cross_encoder, write_json

TEXTS = ["two years", "the warranty of the kettle", "tea " * 400, "kettle"]


@pytest.fixture
def models(tmp_path: Path) -> CrossEncoders:
    return CrossEncoders(ModelFolders(str(tmp_path)))


async def test_the_text_with_most_words_of_the_question_has_the_highest_score(
    models: CrossEncoders, tmp_path: Path
) -> None:
    cross_encoder(tmp_path / "ranker")
    scores = await models.load("onnx:ranker").scores("kettle warranty", [*TEXTS])
    assert max(range(4), key=scores.__getitem__) == 1
    assert scores[3] > scores[0]


async def test_a_text_has_the_same_score_alone_and_among_others(models: CrossEncoders, tmp_path: Path) -> None:
    model = models.load(f"onnx:{cross_encoder(tmp_path / 'ranker').name}")
    together = await model.scores("kettle", TEXTS)
    assert together == pytest.approx([(await model.scores("kettle", [each]))[0] for each in TEXTS], rel=1e-4)


async def test_a_text_that_is_too_long_is_cut_off(models: CrossEncoders, tmp_path: Path) -> None:
    write_json(cross_encoder(tmp_path / "ranker"), {"tokenizer_config.json": {"model_max_length": 8}})
    [short, long] = await models.load("onnx:ranker").scores("kettle", ["tea tea tea tea", "tea " * 1000])
    assert short == pytest.approx(long)


def test_a_model_without_one_logit_is_not_used(models: CrossEncoders, tmp_path: Path) -> None:
    cross_encoder(tmp_path / "ranker", logits=2)
    with pytest.raises(ModelUnavailable, match="must have one logit"):
        models.load("onnx:ranker")


def test_a_model_is_loaded_once_until_its_files_change(models: CrossEncoders, tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path / "ranker")
    first = models.load("onnx:ranker")
    assert models.load("onnx:ranker") is first
    write_json(folder, {"tokenizer_config.json": {"model_max_length": 8}})
    assert models.load("onnx:ranker") is not first


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
def test_a_folder_without_its_files_is_rejected(models: CrossEncoders, tmp_path: Path, file: str) -> None:
    (cross_encoder(tmp_path / "ranker") / file).unlink()
    with pytest.raises(InvalidRequest, match=f"onnx:ranker has no {file}") as rejected:
        models.check("onnx:ranker", "$.rerank.model")
    assert rejected.value.field_errors[0].path == "$.rerank.model"


@pytest.mark.parametrize(
    ("rerank", "path"),
    [
        ({"provider": "local", "model": "onnx:absent"}, "model"),
        ({"provider": "local", "model": "onnx:../ranker"}, "model"),
        ({"provider": "local", "model": "bge"}, "model"),
        ({"provider": "local"}, "model"),
        ({"provider": "local", "model": "onnx:ranker", "baseUrl": "http://r.example"}, "baseUrl"),
        ({"provider": "tei"}, "baseUrl"),
    ],
)
def test_an_assistant_with_a_model_that_cannot_be_used_is_rejected(
    assistant_gateway: Assisted, rerank: dict[str, str], path: str
) -> None:
    cross_encoder(assistant_gateway.folder / "models/ranker")
    body = {"name": "r", "model": "m", "workflow": ["docs"], "tasks": [{"enableWorkflowRag": True, "rerank": rerank}]}
    response = assistant_gateway.call("root", "POST", "/ragstore/assistants", json=body)
    assert response.status_code == 400, response.text
    assert [each["path"] for each in response.json()["errors"]] == [f"$.tasks[0].rerank.{path}"]


def test_a_base_with_a_folder_that_does_not_exist_is_rejected(assistant_gateway: Assisted) -> None:
    body = {"name": "absent", "embeddingParameters": {"model": "onnx:absent"}}
    response = assistant_gateway.call("root", "POST", "/ragstore/rags", json=body)
    assert response.status_code == 400
    assert [each["path"] for each in response.json()["errors"]] == ["$.embeddingParameters.model"]


def test_a_local_model_orders_the_passages_of_all_bases(assistant_gateway: Assisted) -> None:
    cross_encoder(assistant_gateway.folder / "models/ranker")
    task = {"id": "t", "enableWorkflowRag": True, "rerank": {"provider": "local", "model": "onnx:ranker"}}
    assistant_gateway.assistant("ranked locally", workflow=["docs", "faq"], tasks=[task])
    assistant_gateway.ask("ranked locally", "kettle shop opens")
    assert assistant_gateway.system.startswith("\n\n## Relevant Context:\n### Source: faq\n\n")
    assistant_gateway.assistant("not ranked", workflow=["docs", "faq"])
    assistant_gateway.ask("not ranked", "kettle shop opens")
    assert assistant_gateway.system.startswith("\n\n## Relevant Context:\n### Source: docs\n\n")
