"""Models of sentence-transformers in ONNX's format, without PyTorch: `onnx:FOLDER`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, field

from ragstore_gateway.embeddings.embedder import Embedder, Kind, Vectors, normalized
from ragstore_gateway.embeddings.model_folders import ModelFolder, ModelFolders, ModelFolderUnusable
from ragstore_gateway.embeddings.prefixes import Prefixes
from ragstore_gateway.embeddings.sentence_model import Pooling, SentenceModel

SENTENCE: Final = "sentence_embedding"
"""The output of a model that was exported with its pooling."""

TOKENS: Final = ("last_hidden_state", "token_embeddings")
"""The outputs of a model that was exported without it."""

_ACTIVATIONS: Final[Mapping[str, Callable[[Vectors], Vectors]]] = {
    "torch.nn.modules.linear.Identity": lambda vectors: vectors,
    "torch.nn.modules.activation.Tanh": np.tanh,
}


class _Module(Struct):
    type: str
    path: str = ""

    @property
    def kind(self) -> str:
        """The last part of its type, such as `Pooling`."""
        return self.type.rpartition(".")[2]


class _Transformer(Struct):
    max_seq_length: int | None = None
    do_lower_case: bool = False


class _Pooling(Struct):
    pooling_mode: str = ""
    cls: bool = field(default=False, name="pooling_mode_cls_token")
    mean: bool = field(default=False, name="pooling_mode_mean_tokens")
    maximum: bool = field(default=False, name="pooling_mode_max_tokens")
    mean_sqrt: bool = field(default=False, name="pooling_mode_mean_sqrt_len_tokens")
    weighted_mean: bool = field(default=False, name="pooling_mode_weightedmean_tokens")
    last: bool = field(default=False, name="pooling_mode_lasttoken")
    include_prompt: bool = True

    @property
    def chosen(self) -> Pooling | None:
        """The pooling; None for one that is not known, or for several together."""
        if self.pooling_mode:
            return {"mean": "mean", "cls": "cls"}.get(self.pooling_mode)  # type: ignore[return-value]  # the literals
        if self.maximum or self.mean_sqrt or self.weighted_mean or self.last or self.cls == self.mean:
            return None
        return "cls" if self.cls else "mean"


class _Dense(Struct):
    activation_function: str = "torch.nn.modules.activation.Tanh"


class _Prompts(Struct):
    prompts: dict[str, str] = {}
    default_prompt_name: str | None = None


class _Plan(Struct, frozen=True):
    """How a folder's model embeds.

    Attributes:
        max_tokens: maximum number of tokens that it reads together.
        lower: whether texts are written in lower case first.
        pooling: how a vector is made of a window.
        dense: the folders of layers that change the vectors after it.
        has_length_1: whether the model's own vectors have length 1.
        prefixes: what precedes queries and documents.
    """

    max_tokens: int
    lower: bool
    pooling: Pooling
    dense: list[str]
    has_length_1: bool
    prefixes: Prefixes


def plan_of(folder: ModelFolder, query: str | None = None, document: str | None = None) -> _Plan:
    """Read the settings of a model. Without `modules.json`, it is a transformer and the mean of its tokens.

    Args:
        query: the configured prefix of queries; None for the model's.
        document: the configured prefix of documents; None for the model's.

    Raises:
        ModelFolderUnusable: a file is missing or wrong, or the model needs what the gateway does not have.
    """
    modules: list[_Module] = []
    if (folder.path / "modules.json").is_file():
        modules = folder.read_list("modules.json", _Module)
    else:
        has_pooling = (folder.path / "1_Pooling/config.json").is_file()
        modules = [_Module("Transformer"), _Module("Pooling", "1_Pooling" if has_pooling else "")]
    transformer = folder.read("sentence_bert_config.json", _Transformer) or _Transformer()
    pooling = _Pooling(pooling_mode="mean")
    dense: list[str] = []
    for module in modules:
        if module.kind == "Pooling" and module.path:
            pooling = folder.read_any(f"{_below(folder, module.path)}/config.json", _Pooling)
        elif module.kind == "Dense":
            config = folder.read_any(f"{_below(folder, module.path)}/config.json", _Dense)
            if config.activation_function not in _ACTIVATIONS:
                raise ModelFolderUnusable(f"{folder.name} has an activation that is not known")
            if not (folder.path / module.path / "model.safetensors").is_file():
                raise ModelFolderUnusable(f"{folder.name} has no {module.path}/model.safetensors")
            dense.append(module.path)
        elif module.kind not in ("Transformer", "Pooling", "Normalize"):
            raise ModelFolderUnusable(f"{folder.name} has a module that is not known: {module.kind[:100]}")
    chosen = pooling.chosen
    if chosen is None:
        raise ModelFolderUnusable(f"{folder.name} must have the pooling mean or cls")
    prompts = folder.read("config_sentence_transformers.json", _Prompts) or _Prompts()
    default = prompts.prompts.get(prompts.default_prompt_name or "", "")
    own = Prefixes(
        prompts.prompts.get("query", default) if query is None else query,
        prompts.prompts.get("document", prompts.prompts.get("passage", default)) if document is None else document,
    )
    if any(own) and not pooling.include_prompt:
        raise ModelFolderUnusable(f"{folder.name} leaves prompts out of its vectors, which is not known")
    return _Plan(
        transformer.max_seq_length or folder.max_tokens,
        transformer.do_lower_case,
        chosen,
        dense,
        any(module.kind == "Normalize" for module in modules),
        own,
    )


def load_folder(
    folders: ModelFolders, name: str, sha256: str, query: str | None = None, document: str | None = None
) -> Embedder:
    """Load a model.

    Args:
        sha256: the hash of its files.
        query: the configured prefix of queries; None for the model's.
        document: the configured prefix of documents; None for the model's.

    Raises:
        ModelFolderUnusable: it cannot be used, or its files have another hash.
    """
    folder = folders.find(name)
    plan = plan_of(folder, query, document)
    session = folder.session()
    # After the session has read its files: a later change is another hash.
    if folders.sha256(folder) != sha256:
        raise ModelFolderUnusable(
            f"The files of {name} have changed. Write the configuration without sha256 to use them"
        )
    output, pooling = next(((each, plan.pooling) for each in TOKENS if each in session.outputs), ("", plan.pooling))
    if SENTENCE in session.outputs:
        output, pooling = SENTENCE, "sentence"
    if not output:
        raise ModelFolderUnusable(f"{folder.model} of {name} has no output {', '.join((SENTENCE, *TOKENS))}")
    try:
        model = SentenceModel(
            display_name(name, sha256),
            session,
            folder.tokenizer(),
            output=output,
            max_tokens=plan.max_tokens,
            pooling=pooling,
            prefixes=plan.prefixes,
        )
        layers = [] if pooling == "sentence" else [_DenseLayer(folder, each) for each in plan.dense]
    except ModelFolderUnusable:
        raise
    except Exception:  # noqa: BLE001  # onnxruntime and safetensors have no common class of their errors
        raise ModelFolderUnusable(f"The files of {name} do not fit each other") from None
    return FolderModel(model, layers, plan)


def display_name(name: str, sha256: str) -> str:
    """The name of a model with a part of its hash: with other files, it is another model."""
    return f"local/{name}@{sha256[:12]}"


class FolderModel:
    """An `Embedder` over a model and the modules that follow it."""

    def __init__(self, model: SentenceModel, layers: list[_DenseLayer], plan: _Plan) -> None:
        self.name = model.name
        self.dimension = layers[-1].dimension if layers else model.dimension
        self._model = model
        self._layers = layers
        self._plan = plan

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`."""
        given = [each.lower() for each in texts] if self._plan.lower else texts
        vectors = await self._model.embed(given, kind, normalize=False)
        for layer in self._layers:
            vectors = layer.applied(vectors)
        return normalized(vectors) if normalize or self._plan.has_length_1 else vectors


class _DenseLayer:
    """A linear layer with an activation, which some models have after the pooling."""

    def __init__(self, folder: ModelFolder, path: str) -> None:
        from safetensors.numpy import load_file

        tensors = load_file(folder.path / path / "model.safetensors")
        self._weight = tensors["linear.weight"].astype(np.float32)
        self._bias = tensors["linear.bias"].astype(np.float32) if "linear.bias" in tensors else np.float32(0)
        self._activation = _ACTIVATIONS[folder.read_any(f"{path}/config.json", _Dense).activation_function]
        self.dimension = int(self._weight.shape[0])

    def applied(self, vectors: Vectors) -> Vectors:
        return np.asarray(self._activation(vectors @ self._weight.T + self._bias), dtype=np.float32)


def _below(folder: ModelFolder, path: str) -> str:
    if ".." in path or path.startswith("/"):
        raise ModelFolderUnusable(f"modules.json of {folder.name} has a path outside of it")
    return path
