"""Texts and questions are split into words in the same way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore_gateway.keywords.words import MAX_WORD, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The kettle's XK-4711", ["the", "kettle", "s", "xk", "4711"]),
        ("Straße, naïve ÉCLAIR", ["strasse", "naive", "eclair"]),
        ("snake_case user@example.com", ["snake", "case", "user", "example", "com"]),
        ("\uff26\uff35\uff2c\uff2c \uff11\uff12", ["full", "12"]),
        ("Воздух и ВОДА", ["воздух", "и", "вода"]),
        ("東京都の水", ["東京", "京都", "都の", "の水"]),
        ("水 iPhone15を買う", ["水", "iphone15", "を買", "買う"]),
        ("", []),
        ("!?\0\n", []),
    ],
)
def test_the_words_of_a_text(text: str, found: list[str]) -> None:
    assert list(words(text)) == found


def test_a_long_word_is_cut() -> None:
    assert list(words("a" * 1000)) == ["a" * MAX_WORD]


@given(st.text())
def test_a_word_has_only_letters_and_digits_and_is_a_word_of_itself(text: str) -> None:
    for word in words(text):
        assert word
        assert not set(word) & set(" \"'\\:*&|!()<>\0")
        assert list(words(word)) == [word]
