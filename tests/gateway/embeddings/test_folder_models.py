"""`onnx:FOLDER`: models that an administrator has put below `RAGSTORE_GATEWAY_MODELS_PATH`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.embeddings.embeddings import EmbeddingLimits, Embeddings
from ragstore_gateway.embeddings.model_folders import ModelFolders
from ragstore_gateway.errors import ModelUnavailable
from ragstore_gateway.secrets.connections import Connections
from tests.gateway.embeddings.factories import references
from tests.support.onnx_models import DIMENSION, WORDS, sentence_model, table, write_json

TRANSFORMER = {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
NORMALIZE = {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
DENSE = {"idx": 2, "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
MODEL = {"model": "onnx:tiny"}


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Embeddings]:
    limits = EmbeddingLimits(4, 20.0, 1 << 20)
    embeddings = Embeddings(references(), Connections(), limits, ModelFolders(str(tmp_path)))
    async with embeddings.running():
        yield embeddings


def stored(made: Embeddings, **fields: Any) -> dict[str, Any]:
    """The parameters of a new base."""
    made.check("local", {**MODEL, **fields})
    return dict(made.with_model("local", {**MODEL, **fields}, None))


async def vector(made: Embeddings, text: str, kind: Any = "document", **fields: Any) -> Vectors:
    """The vector of a text, as the model returns it."""
    [found] = await made.of("local", stored(made, **fields)).embed([text], kind, normalize=False)
    return found


def mean(*words: str) -> Vectors:
    """The mean of the tokens of a text."""
    rows = [WORDS.index(each) for each in ("[CLS]", *words, "[SEP]")]
    found: Vectors = table()[rows].mean(axis=0)
    return found


async def test_without_settings_a_vector_is_the_mean_of_the_tokens(made: Embeddings, tmp_path: Path) -> None:
    sentence_model(tmp_path / "tiny")
    assert await vector(made, "Tea kettle") == pytest.approx(mean("tea", "kettle"), abs=1e-6)


async def test_the_model_may_be_where_sentence_transformers_exports_it(made: Embeddings, tmp_path: Path) -> None:
    folder = sentence_model(tmp_path / "tiny")
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx/model.onnx")
    assert await vector(made, "tea") == pytest.approx(mean("tea"), abs=1e-6)


@pytest.mark.parametrize(
    "config", [{"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, {"pooling_mode": "cls"}]
)
async def test_the_pooling_is_the_configured_one(made: Embeddings, tmp_path: Path, config: dict[str, Any]) -> None:
    files = {"modules.json": [TRANSFORMER, POOLING], "1_Pooling/config.json": config}
    sentence_model(tmp_path / "tiny", files=files)
    assert await vector(made, "tea kettle") == pytest.approx(table()[WORDS.index("[CLS]")], abs=1e-6)


async def test_a_model_with_the_module_normalize_returns_vectors_of_length_1(made: Embeddings, tmp_path: Path) -> None:
    pooling = {"pooling_mode_mean_tokens": True}
    files = {"modules.json": [TRANSFORMER, POOLING, NORMALIZE], "1_Pooling/config.json": pooling}
    sentence_model(tmp_path / "tiny", files=files)
    assert np.linalg.norm(await vector(made, "tea")) == pytest.approx(1)
    assert np.linalg.norm(mean("tea")) > 1.01


async def test_a_dense_layer_follows_the_pooling(made: Embeddings, tmp_path: Path) -> None:
    weight = np.random.default_rng(2).standard_normal((4, DIMENSION)).astype(np.float32)
    files = {
        "modules.json": [TRANSFORMER, POOLING, DENSE],
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
        "2_Dense/config.json": {"activation_function": "torch.nn.modules.activation.Tanh"},
    }
    folder = sentence_model(tmp_path / "tiny", files=files)
    save_file({"linear.weight": weight}, folder / "2_Dense/model.safetensors")
    assert await vector(made, "tea") == pytest.approx(np.tanh(mean("tea") @ weight.T), abs=1e-5)


async def test_a_text_that_exceeds_the_maximum_length_is_read_in_windows(made: Embeddings, tmp_path: Path) -> None:
    sentence_model(tmp_path / "tiny", files={"sentence_bert_config.json": {"max_seq_length": 4}})
    expected = (mean("tea", "tea") + mean("shop", "shop")) / 2
    assert await vector(made, "tea tea shop shop") == pytest.approx(expected, abs=1e-6)


async def test_prompts_are_those_of_the_model_unless_configured(made: Embeddings, tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "ask: ", "passage": "say: "}}
    sentence_model(tmp_path / "tiny", files={"config_sentence_transformers.json": prompts})
    assert await vector(made, "tea", "query") == pytest.approx(mean("ask", ":", "tea"), abs=1e-6)
    assert await vector(made, "tea") == pytest.approx(mean("say", ":", "tea"), abs=1e-6)
    assert await vector(made, "tea", documentPrefix="two ") == pytest.approx(mean("two", "tea"), abs=1e-6)


async def test_texts_are_written_in_lower_case_where_the_model_wants_it(made: Embeddings, tmp_path: Path) -> None:
    folder = sentence_model(tmp_path / "tiny", files={"sentence_bert_config.json": {"do_lower_case": True}})
    content = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(
        content.replace('{"type":"Lowercase"}', "null").replace(
            '"normalizer": {\n    "type": "Lowercase"\n  }', '"normalizer": null'
        )
    )
    assert await vector(made, "TEA") == pytest.approx(mean("tea"), abs=1e-6)


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        ("onnx:absent", "There is no folder"),
        ("onnx:../tiny", "There is no folder"),
        ("onnx:/etc", "There is no folder"),
    ],
)
async def test_a_folder_that_is_not_below_the_setting_is_rejected(
    made: Embeddings, tmp_path: Path, model: str, missing: str
) -> None:
    sentence_model(tmp_path / "tiny")
    with pytest.raises(InvalidRequest, match=missing) as rejected:
        made.check("local", {"model": model})
    assert rejected.value.field_errors[0].path == "$.embeddingParameters.model"


async def test_a_link_must_not_lead_out_of_the_folder(
    made: Embeddings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = sentence_model(tmp_path_factory.mktemp("outside") / "tiny")
    root = Path(made.folders._root)
    (root / "linked").symlink_to(outside)
    with pytest.raises(InvalidRequest, match="There is no folder onnx:linked"):
        made.check("local", {"model": "onnx:linked"})


async def test_without_the_setting_there_are_no_folders() -> None:
    with pytest.raises(InvalidRequest, match="RAGSTORE_GATEWAY_MODELS_PATH is not set"):
        Embeddings(references(), Connections(), EmbeddingLimits()).check("local", MODEL)


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
async def test_a_folder_without_its_files_is_rejected(made: Embeddings, tmp_path: Path, file: str) -> None:
    (sentence_model(tmp_path / "tiny") / file).unlink()
    with pytest.raises(InvalidRequest, match=f"onnx:tiny has no {file}"):
        made.check("local", MODEL)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"modules.json": {"no": "list"}}, "modules.json of onnx:tiny cannot be read"),
        ({"modules.json": [TRANSFORMER, POOLING]}, "1_Pooling/config.json of onnx:tiny cannot be read"),
        ({"modules.json": [TRANSFORMER, {**POOLING, "path": "../x"}]}, "a path outside of it"),
        ({"modules.json": [{**POOLING, "type": "models.WordWeights"}]}, "a module that is not known: WordWeights"),
        ({"1_Pooling/config.json": {"pooling_mode_lasttoken": True}}, "must have the pooling mean or cls"),
        (
            {
                "1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": False},
                "config_sentence_transformers.json": {"prompts": {"query": "q: "}},
            },
            "leaves prompts out",
        ),
    ],
)
async def test_settings_of_a_model_that_cannot_be_honoured_are_rejected(
    made: Embeddings, tmp_path: Path, files: dict[str, object], message: str
) -> None:
    sentence_model(tmp_path / "tiny", files=files)
    with pytest.raises(InvalidRequest, match=message):
        made.check("local", MODEL)


async def test_files_that_cannot_be_loaded_are_503_and_the_next_request_tries_again(
    made: Embeddings, tmp_path: Path
) -> None:
    folder = sentence_model(tmp_path / "tiny")
    good = (folder / "model.onnx").read_bytes()
    sha256 = stored(made)["sha256"]
    embedder = made.of("local", {**MODEL, "sha256": sha256})
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ModelUnavailable, match=r"model\.onnx of onnx:tiny cannot be used"):
        await embedder.embed(["tea"], "document")
    (folder / "model.onnx").write_bytes(good)
    assert (await embedder.embed(["tea"], "document")).shape == (1, DIMENSION)


async def test_the_same_folder_with_other_weights_is_another_model(made: Embeddings, tmp_path: Path) -> None:
    sentence_model(tmp_path / "tiny", seed=1)
    before = stored(made)
    sentence_model(tmp_path / "tiny", seed=2)
    after = stored(made)
    assert before["sha256"] != after["sha256"]
    with pytest.raises(ModelUnavailable, match="have changed"):
        await made.of("local", before).embed(["tea"], "document")
    with pytest.raises(InvalidRequest, match="another hash") as rejected:
        made.check("local", before)
    assert rejected.value.field_errors[0].path == "$.embeddingParameters.sha256"
    assert made.of("local", after).name == f"local/onnx:tiny@{after['sha256'][:12]}"


@pytest.mark.parametrize("file", ["tokenizer.json", "sentence_bert_config.json"])
async def test_other_settings_are_another_model(made: Embeddings, tmp_path: Path, file: str) -> None:
    folder = sentence_model(tmp_path / "tiny")
    before = stored(made)["sha256"]
    if file == "tokenizer.json":
        (folder / file).write_text((folder / file).read_text() + "\n")
    else:
        write_json(folder, {file: {"max_seq_length": 8}})
    assert stored(made)["sha256"] != before


async def test_a_version_that_names_no_model_keeps_the_hash(made: Embeddings, tmp_path: Path) -> None:
    sentence_model(tmp_path / "tiny")
    before = stored(made)
    assert made.with_model("local", {}, before) == before


async def test_the_gateways_own_model_may_be_a_folder(made: Embeddings, tmp_path: Path) -> None:
    sentence_model(tmp_path / "tiny")
    default = made.set_default("local", MODEL)
    assert default.dimension == DIMENSION
    assert made.named(default.name) is default


async def test_a_hash_is_for_folders_only(made: Embeddings) -> None:
    with pytest.raises(InvalidRequest, match="Must be absent"):
        made.check("local", {"model": "builtin/minilm", "sha256": "0" * 64})
