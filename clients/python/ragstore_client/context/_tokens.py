"""Counts tokens: with a tokenizer, or by an estimate that needs none."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from ragstore_client._exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from tokenizers import Tokenizer
else:
    Tokenizer = object

TokenCounter: TypeAlias = Callable[[str], int]
"""Returns the number of tokens of a text."""


class Encoding(Protocol):
    """An encoding of tiktoken."""

    def encode_ordinary(self, text: str) -> list[int]:
        """The tokens of a text; special tokens in it are ordinary text."""
        ...


_WORD: Final = re.compile("[A-ZÀ-Þ]?[a-zß-ɏ]+|[A-ZÀ-Þ]+(?![a-zß-ɏ])|[A-ZÀ-Þ]")
_CAPITALS: Final = re.compile("[A-ZÀ-Þ]{2,}")
_ACCENTED: Final = re.compile("[À-ɏ]")
_DIGITS: Final = re.compile("[0-9]+")
_PUNCTUATION: Final = re.compile(r"[!-/:-@\[-`{-~]+")
_LINE_END: Final = re.compile(r"[\r\n]+")
_GAP: Final = re.compile(r"[ \t]{2,}")
_KANA: Final = re.compile("[\u3040-\u30ff]")
_HANGUL: Final = re.compile("[\uac00-\ud7af]")
_IDEOGRAPH: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_WIDE_PUNCTUATION: Final = re.compile("[\u2010-\u2027\u3000-\u303f\uff00-\uffef]")
_OTHER: Final = re.compile(
    "[^\t\r\n -~À-ɏ\u2010-\u2027\u3000-\u303f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]"
)

_WITHOUT_CONTROLS: Final = dict.fromkeys({*range(32), 127} - {9, 10, 13})
_COMMON_IDEOGRAPHS: Final = frozenset(
    bytes(byte for row in range(0xB0, 0xD8) for cell in range(0xA1, 0xFF) for byte in (row, cell)).decode(
        "gb2312", "ignore"
    )
)
"""The 3,755 ideographs of GB 2312, level 1. Vocabularies have few tokens for others, which need two or three each."""


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text, on the high side.

    It is meant for byte-level BPE vocabularies of 100,000 tokens and more (GPT-4, gpt-oss, Qwen, DeepSeek, Mistral's
    Tekken), and does not undercount English, German, Swedish or Chinese prose, or source code; docs/context-figures.md
    has the measurements. Smaller vocabularies, such as Llama 2's and Claude 2's, need up to a third more tokens than it
    returns. Letters of other scripts count as one token per byte, the most that such a vocabulary needs.

    Args:
        text: any text.

    Returns:
        The number of tokens.
    """
    words = _WORD.findall(text)
    digits = _DIGITS.findall(text)
    punctuation = _PUNCTUATION.findall(text)
    # Fitted as an upper bound, by linear programming, to windows of 20 to 4,000 characters of manual pages in four
    # languages and of source code, with six vocabularies; then rounded up.
    estimate = (
        6.0
        + 0.45 * len(words)
        + 0.25 * _total(words)
        + 0.2 * _total(_CAPITALS.findall(text))
        + 1.5 * len(digits)
        + 1.0 * _total(digits)
        + 0.8 * len(punctuation)
        + 0.4 * _total(punctuation)
        + 1.8 * len(_LINE_END.findall(text))
        + 1.0 * len(_GAP.findall(text))
    )
    if text.isascii():
        controls = len(text) - len(text.translate(_WITHOUT_CONTROLS))
        return min(math.ceil(estimate + controls), len(text))
    ideographs = _IDEOGRAPH.findall(text)
    common = sum(map(_COMMON_IDEOGRAPHS.__contains__, ideographs))
    estimate += (
        1.7 * len(_ACCENTED.findall(text))
        + 1.75 * common
        + 3.0 * (len(ideographs) - common)
        + 1.5 * len(_KANA.findall(text))
        + 2.3 * len(_HANGUL.findall(text))
        + 1.0 * len(_WIDE_PUNCTUATION.findall(text))
        + len("".join(_OTHER.findall(text)).encode("utf-8", "surrogatepass"))
    )
    return min(math.ceil(estimate), len(text.encode("utf-8", "surrogatepass")))


def tiktoken_counter(encoding: str | Encoding = "o200k_base") -> TokenCounter:
    """Count tokens with tiktoken.

    tiktoken downloads the vocabulary of a named encoding on first use.

    Args:
        encoding: an encoding, or its name. GPT-4o and gpt-oss use `o200k_base`.

    Returns:
        A function that counts; special tokens in a text count as ordinary text.

    Raises:
        InvalidConfiguration: tiktoken is not installed, or has no encoding of this name.
    """
    if isinstance(encoding, str):
        try:
            tiktoken = import_module("tiktoken")
        except ImportError:
            raise InvalidConfiguration("tiktoken_counter needs the package tiktoken") from None
        try:
            named: Encoding = tiktoken.get_encoding(encoding)
        except ValueError:
            raise InvalidConfiguration(f"tiktoken has no encoding {encoding!r}") from None
        return tiktoken_counter(named)
    encode = encoding.encode_ordinary
    return lambda text: len(encode(text))


def tokenizers_counter(tokenizer: Tokenizer) -> TokenCounter:
    """Count tokens with a tokenizer of the package `tokenizers`.

    Args:
        tokenizer: the tokenizer, such as `Tokenizer.from_file("tokenizer.json")`. A truncation or padding that it is
            configured with would make its counts wrong, so a copy without them is used.

    Returns:
        A function that counts, without the special tokens that frame an input.
    """
    own = type(tokenizer).from_str(tokenizer.to_str())
    own.no_truncation()
    own.no_padding()
    return lambda text: len(own.encode(text, add_special_tokens=False).ids)


def _total(pieces: list[str]) -> int:
    return len("".join(pieces))
