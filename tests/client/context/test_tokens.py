"""The estimate of tokens against real tokenizers, and the counters."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ragstore_client import InvalidConfiguration
from ragstore_client.context import estimate_tokens, tiktoken_counter, tokenizers_counter
from tests.client.context.tokenizers import LANGUAGES, TOKENIZERS, sample

WINDOWS = st.tuples(st.sampled_from(LANGUAGES), st.integers(0, 10_000), st.integers(1, 2_000))


def window(language: str, start: int, length: int) -> str:
    """A part of a sample, from any character to any other."""
    text = sample(language)
    start %= len(text)
    return text[start : start + length]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_estimate_never_undercounts_a_sample(tokenizer: str, language: str) -> None:
    count = TOKENIZERS[tokenizer]()
    text = sample(language)
    for paragraph in (text, *text.split("\n\n"), *text.split("\n"), *text.split(" ")):
        assert estimate_tokens(paragraph) >= count(paragraph), paragraph


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(given=WINDOWS)
def test_the_estimate_never_undercounts_any_part_of_a_sample(tokenizer: str, given: tuple[str, int, int]) -> None:
    text = window(*given)
    assert estimate_tokens(text) >= TOKENIZERS[tokenizer]()(text)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(given=st.lists(WINDOWS, min_size=2, max_size=6), separator=st.sampled_from(["", " ", "\n", "\n\n---\n\n", "\t"]))
def test_the_estimate_never_undercounts_a_mixture_of_languages(
    tokenizer: str, given: list[tuple[str, int, int]], separator: str
) -> None:
    text = separator.join(window(*each) for each in given)
    assert estimate_tokens(text) >= TOKENIZERS[tokenizer]()(text)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(
    text=st.text(st.characters(min_codepoint=0x370, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cn"]), max_size=50)
)
def test_the_estimate_never_undercounts_other_scripts(tokenizer: str, text: str) -> None:
    assert estimate_tokens(text) >= TOKENIZERS[tokenizer]()(text)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=[])))
def test_the_estimate_of_any_text_is_at_most_its_bytes_and_never_fails(text: str) -> None:
    assert 0 <= estimate_tokens(text) <= len(text.encode("utf-8", "surrogatepass"))


def test_the_estimate_of_prose_is_no_wild_guess() -> None:
    for language in LANGUAGES:
        text = sample(language)
        assert estimate_tokens(text) < 2 * TOKENIZERS["o200k_base"]()(text), language


def test_special_tokens_in_a_text_are_ordinary_text() -> None:
    assert TOKENIZERS["o200k_base"]()("<|endoftext|>") > 1
    assert TOKENIZERS["qwen3_6"]()("<|im_start|>") > 1


def test_a_tokenizers_truncation_and_padding_do_not_change_the_count() -> None:
    tokenizer = Tokenizer.from_str(plain_tokenizer().to_str())
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    count = tokenizers_counter(tokenizer)
    assert count("a b a b") == 4
    assert count("a") == 1
    assert len(tokenizer.encode("a b a b").ids) == 9


def plain_tokenizer() -> Tokenizer:
    from tokenizers import models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, "?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_an_unknown_encoding_and_a_missing_package_are_configuration_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConfiguration, match="no encoding 'x200k'"):
        tiktoken_counter("x200k")
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(InvalidConfiguration, match="needs the package tiktoken"):
        tiktoken_counter()


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_the_estimate_never_undercounts_a_list_of_place_names(tokenizer: str) -> None:
    # Each of these ideographs is common, and most need two or three tokens of cl100k_base.
    text = "、".join(["乌鲁木齐、呼和浩特、哈尔滨、齐齐哈尔"] * 5)
    assert estimate_tokens(text) >= TOKENIZERS[tokenizer]()(text)
