"""The size of regular expressions, by which expensive ones are rejected."""

from __future__ import annotations

import pytest

from ragstore.model.filters.regex_size import RegexSize, is_too_large, regex_size


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("", (0, 0)),
        ("abc", (3, 0)),
        (r"\d{3}-\d{4}", (8, 7)),
        (r"(?:\w{1,8}\s){20}\d", (181, 181)),
        (r"(?P<name>a{2}){3}", (6, 0)),
        (r"(?<name>a{2}){3}|b", (8, 0)),
        (r"(?i)ab", (2, 0)),
        (r"(?i-s:ab){2}", (4, 0)),
        (r"[a-z]{5}", (5, 0)),
        (r"[^a-z]{5}", (5, 5)),
        (r"[]a]{5}[^]a]{2}", (7, 2)),
        (r"[[:alpha:]]{5}", (5, 0)),
        (r"[a-z&&[^aeiou]]{5}", (5, 0)),
        (r"[\w-]{5}[é]{2}", (7, 7)),
        (r"\p{Greek}{3}\pL{2}", (5, 5)),
        (r"\x{41}{3}\x41{2}A{2}", (7, 0)),
        (r"\.{3}\\{2}", (5, 0)),
        (r".{0,10}x{2,}", (13, 10)),
        (r"((a{2}){3}){4}", (24, 0)),
        (r"a{0}b*c+d?", (4, 0)),
        (r"a{x}", (4, 0)),
        ("(((", (0, 0)),
        (")))", (3, 0)),
        ("[", (1, 0)),
        ("\\", (1, 0)),
    ],
)
def test_repetitions_are_written_out(pattern: str, size: tuple[int, int]) -> None:
    assert regex_size(pattern) == RegexSize(*size)


@pytest.mark.parametrize("pattern", [r"(?:\w{1,8}\s){20}\d", r"a.{0,500}z", "(?:[a-z]{100}){100}", r"\w{1000}"])
def test_expensive_ones_are_too_large(pattern: str) -> None:
    assert is_too_large(pattern)


@pytest.mark.parametrize(
    "pattern", [r"[0-9a-f]{64}", r"\b\w{3,30}@\w+\.\w{2,10}\b", "foo.{0,80}bar", "(?i)straße", "x" * 1000]
)
def test_usual_ones_are_not(pattern: str) -> None:
    assert not is_too_large(pattern)


@pytest.mark.parametrize("pattern", ["(" * 1000, "[" * 1000, "(a" * 250 + "){9}" * 250, "\\p{" * 300, "a{9}" * 250])
def test_any_text_has_a_size(pattern: str) -> None:
    assert regex_size(pattern).total >= 0
