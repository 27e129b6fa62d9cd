"""Where each strategy splits a text."""

from __future__ import annotations

import pytest
from semantic_text_splitter import MarkdownSplitter, TextSplitter

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.parsers.plain import markdown_headings
from ragstore_gateway.splitting.chunk import WINDOW, Chunking, ChunkStrategy, ChunkUnit
from ragstore_gateway.splitting.runs import chunks_in_parts, has_long_run
from ragstore_gateway.splitting.strategies import MAX_LAYER_TOKENS, split
from ragstore_gateway.splitting.tokens import MAX_ENCODED_CHARACTERS, count_tokens
from tests.gateway.splitting.handbook import handbook

PROSE = "The boiler is old. It is serviced in May.\n\nThe lift\nis tested. Every year."


def texts(text: str, strategy: ChunkStrategy, size: int, overlap: int = 0) -> list[str]:
    """The texts of the chunks, in characters."""
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    return [chunk.text for chunk in split(document, Chunking(strategy, size, overlap))]


def test_recursive_keeps_paragraphs_that_fit_and_splits_the_others_at_lines_and_sentences() -> None:
    assert texts(PROSE, "recursive", 42) == [
        "The boiler is old. It is serviced in May.",
        "The lift\nis tested. Every year.",
    ]
    assert texts(PROSE, "recursive", 24) == [
        "The boiler is old.",
        "It is serviced in May.",
        "The lift",
        "is tested. Every year.",
    ]


def test_a_window_is_as_full_as_words_allow_and_repeats_the_end_of_the_one_before() -> None:
    assert texts(PROSE, "window", 30, 8) == [
        "The boiler is old. It is",
        "It is serviced in May.\n\nThe",
        "The lift\nis tested. Every",
        "Every year.",
    ]


def test_a_sentence_is_not_split_if_it_fits_and_a_wrapped_line_does_not_end_it() -> None:
    assert texts(PROSE, "sentence", 30) == [
        "The boiler is old.",
        "It is serviced in May.",
        "The lift\nis tested.",
        "Every year.",
    ]
    assert texts("Two lifts\nThe lift works.", "sentence", 15) == ["Two lifts", "The lift works."]


def test_a_sentence_that_is_too_long_is_split_between_words_and_joined_with_no_other() -> None:
    assert texts("Short. This sentence is far too long. End.", "sentence", 16) == [
        "Short.",
        "This sentence is",
        "far too long.",
        "End.",
    ]


def test_paragraphs_are_joined_if_they_fit_and_a_long_one_is_split_into_its_sentences() -> None:
    text = "One.\n\nTwo.\n \nThis paragraph is long. It has two sentences.\n\nThree."
    assert texts(text, "paragraph", 26) == [
        "One.\n\nTwo.",
        "This paragraph is long.",
        "It has two sentences.",
        "Three.",
    ]


def test_markdown_begins_a_chunk_with_each_heading_and_keeps_a_title_with_its_first_section() -> None:
    text = "Preface.\n\n# Title\n\n## One\n\nFirst.\n\n```\n# no heading\n```\n\n## Two\n\nSecond."
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    chunks = split(document, Chunking("markdown", 512, 64))
    assert [(chunk.heading, chunk.text) for chunk in chunks] == [
        ("", "Preface."),
        ("One", "# Title\n\n## One\n\nFirst.\n\n```\n# no heading\n```"),
        ("Two", "## Two\n\nSecond."),
    ]


def test_a_chunk_has_the_page_and_the_heading_where_it_begins() -> None:
    document = handbook()
    chunks = split(document, Chunking("paragraph", 512, 0))
    found = next(chunk for chunk in chunks if "hands out electric heaters" in chunk.text)
    assert (found.page, found.heading) == (2, "Heating failure in winter")
    assert split(Extracted("plain", "text/plain"), Chunking())[0].page is None


def test_layers_have_the_records_and_the_metadata_of_the_agent_runtime() -> None:
    document = handbook()
    records = split(document, Chunking("layers", 512, 64))
    layers = {str(record.metadata["layer"]): record for record in reversed(records)}
    assert list(dict.fromkeys(str(record.metadata["layer"]) for record in records)) == [
        "document",
        "page",
        "section",
        "chunk",
    ]
    assert sum(record.metadata["layer"] == "page" for record in records) == 12
    assert (layers["document"].page, layers["document"].heading) == (None, "")
    assert (layers["page"].page, layers["page"].heading) == (1, "")
    assert (layers["section"].page, layers["section"].heading) == (1, "Part 1: Running the Buildings")
    chunks = [record for record in records if record.metadata["layer"] == "chunk"]
    assert [chunk.metadata["chunk_index"] for chunk in chunks] == list(range(len(chunks)))
    assert all(record.metadata["text_preview"] == record.text[:200] for record in records)
    assert chunks[-1].metadata["section_id"] == records[-1].metadata["section_id"]


def test_two_sections_of_one_heading_have_ids_of_their_own() -> None:
    text = "## General\n\nOne.\n\n## General\n\nTwo.\n\n## General 2\n\nThree."
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    chunks = [chunk for chunk in split(document, Chunking("layers")) if chunk.metadata["layer"] == "chunk"]
    assert [chunk.metadata["section_id"] for chunk in chunks] == ["general", "general-2", "general-2-2"]


def test_a_document_that_exceeds_the_size_of_a_record_has_several_records_of_its_layer() -> None:
    text = "# Long\n\n" + "The lift is tested every year. " * 2000
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    records = split(document, Chunking("layers", 512, 64))
    whole = [record for record in records if record.metadata["layer"] == "document"]
    assert len(whole) > 1
    assert all(record.token_count <= MAX_LAYER_TOKENS for record in whole)
    assert " ".join(record.text for record in whole).split() == text.split()


def test_token_counts_are_those_of_o200k_base() -> None:
    # Published by OpenAI's tokenizer page for GPT-4o.
    assert count_tokens("Many words map to one token, but some don't: indivisible.") == 14
    assert count_tokens("<|endoftext|>") > 1


def test_a_text_of_any_length_has_a_token_count() -> None:
    words = "heating " * MAX_ENCODED_CHARACTERS
    assert count_tokens(words) == pytest.approx(MAX_ENCODED_CHARACTERS, rel=0.001)


def test_a_lone_surrogate_is_a_character_like_others() -> None:
    chunks = split(Extracted("a \ud800 b", "text/plain"), Chunking("recursive", 3, 0))
    assert "".join(chunk.text for chunk in chunks).replace(" ", "") == "a\ud800b"


def test_windows_of_a_memory_have_up_to_800_characters() -> None:
    found = [chunk.text for chunk in split(handbook(), WINDOW)]
    assert all(500 < len(window) <= 800 for window in found[:-1])


@pytest.mark.parametrize(
    ("strategy", "unit"),
    [
        ("recursive", "tokens"),
        ("window", "tokens"),
        ("sentence", "characters"),
        ("paragraph", "tokens"),
        ("markdown", "characters"),
        ("layers", "characters"),
    ],
)
def test_hostile_texts_are_split_in_bounded_time(strategy: ChunkStrategy, unit: ChunkUnit) -> None:
    size = 20_000
    hostile = {
        "one word": "a" * size,
        "one grapheme cluster": "e" + "\u0301" * size,
        "flags": "\U0001f1e6" * size,
        # The time grows with the square of this run: 0.3 s for 10,000, 5.6 s for 40,000 (2026-11).
        "line breaks": "a" + "\t\n" * (size // 4) + "b",
        "brackets": "[" * size,
    }
    for name, text in hostile.items():
        chunks = split(Extracted(text, "text/markdown"), Chunking(strategy, 512, 64, unit))
        assert chunks[-1].end == len(text), name
    headings = "".join(f"{'#' * (1 + index % 6)} h\n\n" for index in range(size // 20))
    document = Extracted(headings, "text/markdown", headings=markdown_headings(headings))
    assert split(document, Chunking(strategy, 512, 64, unit))[-1].end == len(headings.rstrip())


@pytest.mark.parametrize(("strategy", "between"), [("recursive", ""), ("recursive", " a\n\n。 "), ("markdown", "")])
@pytest.mark.parametrize(("size", "overlap"), [(100, 87), (512, 64)])
def test_a_long_run_without_spaces_has_the_chunks_of_one_call_of_the_library(
    strategy: ChunkStrategy, between: str, size: int, overlap: int
) -> None:
    run = "漢字仮名交じり文ภาษาไทยประเทศ" * 150
    text = between.join([run, run[5:]])
    calls: list[str] = []

    class Spy:
        """A splitter of the library that notes the texts."""

        splitter = (MarkdownSplitter if strategy == "markdown" else TextSplitter)(size, overlap)

        def chunk_indices(self, part: str) -> list[tuple[int, str]]:
            """Split a text."""
            calls.append(part)
            return self.splitter.chunk_indices(part)

    assert has_long_run(text, markdown=strategy == "markdown")
    assert list(chunks_in_parts(Spy(), text, size)) == Spy.splitter.chunk_indices(text)
    # Each call costs what its part costs; together they are the text, with little of it twice.
    assert max(map(len, calls)) <= 8 * size
    assert sum(map(len, calls)) <= 2 * len(text)


@pytest.mark.parametrize("strategy", ["recursive", "markdown", "layers"])
def test_a_mark_that_is_prepended_to_a_character_stays_with_it_if_both_fit(strategy: ChunkStrategy) -> None:
    chunks = split(Extracted("a a a a a \u0600|\u00ad ", "text/markdown"), Chunking(strategy, 3, 0, "tokens"))

    assert [chunk.text for chunk in chunks][-2:] == ["\u0600|", "\u00ad"]


@pytest.mark.parametrize("size", [5, 8])
def test_a_mark_that_is_prepended_to_a_space_stays_with_it_below_a_heading(size: int) -> None:
    text = "a\n\n## Heading\n\n\u0600 "
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    chunks = split(document, Chunking("markdown", size, 0, "tokens"))
    assert chunks[-1].text.endswith("\u0600 ")
