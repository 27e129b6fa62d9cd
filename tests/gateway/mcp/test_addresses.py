"""The addresses of documents, and the parts of their texts that a tool returns."""

from __future__ import annotations

import pytest

from ragstore_gateway.mcp.documents import MAX_CHARACTERS, part_around
from ragstore_gateway.mcp.resources import read_uri, resource_uri


@pytest.mark.parametrize(
    ("base", "name"), [("tea", "a.txt"), ("Tee & Milch", "ordner/über 100 %?#.txt"), ("x", "https://example.org/a?b=c")]
)
def test_an_address_names_one_document(base: str, name: str) -> None:
    assert read_uri(resource_uri(base, name)) == (base, name)


def test_a_text_that_fits_is_its_own_part() -> None:
    assert part_around("tea", (0, 3), None).text == "tea"


@pytest.mark.parametrize("span", [(0, 100), (60_000, 60_100), (119_900, 120_000)])
def test_a_part_has_its_passage_and_the_maximum_of_characters(span: tuple[int, int]) -> None:
    text = "".join(chr(97 + index % 26) for index in range(120_000))
    for margin in (None, 100_000):
        part = part_around(text, span, margin)
        assert len(part.text) == MAX_CHARACTERS
        assert part.start <= span[0]
        assert span[1] <= part.end
        assert part.text == text[part.start : part.end]
        assert part.length == len(text)
