"""Folders with tiny models in ONNX's format. Their weights are random, and the same ones in each run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from ragstore_gateway.embeddings.onnx_graph import OnnxGraph

WORDS = ("[UNK]", "[CLS]", "[SEP]", "tea", "kettle", "shop", "warranty", "opens", "ask", "say", ":", "two", "years")
DIMENSION = 16
TOKENS = ("texts", "tokens")


def table(seed: int = 1) -> NDArray[np.float32]:
    """The vector of each word."""
    return np.random.default_rng(seed).standard_normal((len(WORDS), DIMENSION)).astype(np.float32)


def tokenizer() -> Tokenizer:
    """A tokenizer of `WORDS`."""
    made = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = Lowercase()
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return made


def write_json(folder: Path, files: Mapping[str, object]) -> None:
    """Write files in JSON, by path."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def sentence_model(folder: Path, seed: int = 1, *, files: Mapping[str, object] | None = None) -> Path:
    """Write a model whose tokens have the vectors of `table`."""
    graph = OnnxGraph()
    tokens = graph.input("input_ids", "int64", TOKENS)
    graph.input("attention_mask", "int64", TOKENS)
    graph.node("Gather", graph.constant(table(seed)), tokens, output="last_hidden_state")
    graph.output("last_hidden_state", "float32", (*TOKENS, DIMENSION))
    return _written(folder, graph, files or {})


def cross_encoder(folder: Path, logits: int = 1) -> Path:
    """Write a model whose logit is the product of the sums of both texts: it counts their common words."""
    graph = OnnxGraph()
    tokens, mask, kinds = (
        graph.input(name, "int64", TOKENS) for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    # A component for each word: random vectors of few components are too near to each other.
    vectors = graph.node("Gather", graph.constant(np.eye(len(WORDS), dtype=np.float32)), tokens)
    last = graph.constant(np.array([-1], np.int64))

    def summed(chosen: str) -> str:
        weights = graph.node("Unsqueeze", graph.node("Cast", chosen, to=1), last)
        return graph.node(
            "ReduceSum", graph.node("Mul", vectors, weights), graph.constant(np.array([1], np.int64)), keepdims=0
        )

    second = summed(graph.node("Mul", mask, kinds))
    first = summed(graph.node("Sub", mask, kinds))
    one = graph.node("ReduceSum", graph.node("Mul", first, second), last, keepdims=1)
    graph.node("Concat", *[one] * logits, output="logits", axis=1)
    graph.output("logits", "float32", ("texts", logits))
    return _written(folder, graph, {})


def _written(folder: Path, graph: OnnxGraph, files: Mapping[str, object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(graph.encoded())
    tokenizer().save(str(folder / "tokenizer.json"))
    write_json(folder, files)
    return folder
