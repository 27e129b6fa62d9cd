"""Properties of the steps that need no parser: any bytes are decoded, any Markdown has headings with valid spans."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragstore.kit.errors import ServiceError, UnsupportedMediaType
from ragstore_gateway.errors import DocumentTooLarge, ExtractionFailed, NoText
from ragstore_gateway.extraction.decode_text import decode, is_binary
from ragstore_gateway.extraction.formats import FORMATS
from ragstore_gateway.extraction.kept_text import KeptText, headings_of, pages_of, read_kept_text
from ragstore_gateway.extraction.parsers.plain import markdown_headings
from ragstore_gateway.extraction.recognition import recognise
from ragstore_gateway.extraction.text_builder import TextBuilder, clean

BLOCKS = st.lists(
    st.sampled_from(
        [
            "# a",
            "## b ##",
            "c",
            "===",
            "---",
            "```",
            "    # d",
            "> # e",
            "- # f",
            "1. g",
            "",
            "\t",
            "#",
            "######",
            "<!--",
            "-->",
        ]
    ),
    max_size=20,
)


@settings(deadline=None)
@given(
    st.binary(max_size=200), st.sampled_from(["", "text/plain; charset=zip", 'text/html; charset="big5"', "x;charset="])
)
@example(b"\xff\xfe\x00", "")
@example(b"\x00a\x00b", "")
@example(b"<meta charset=hex>\xff", "text/html")
def test_any_bytes_are_decoded_and_cleaned(content: bytes, media_type: str) -> None:
    is_binary(content)
    text = clean(decode(content, media_type))
    assert not set(text) & {"\0", "\r", "\ufeff"}
    text.encode()


@settings(deadline=None)
@given(st.text(max_size=200))
def test_a_text_in_utf_8_is_decoded_as_it_is(text: str) -> None:
    if not is_binary(text.encode()) and not text.startswith("\ufeff") and "\0" not in text:
        assert decode(text.encode()) == text


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["", "text/html", "image/png"]), st.sampled_from(["", "a.pdf", "a.md"]))
def test_any_content_has_a_format_or_a_clear_error(content: bytes, media_type: str, name: str) -> None:
    try:
        outcome: str = recognise(content, media_type, name)
    except ServiceError as error:
        outcome = error.code
    assert outcome in (*FORMATS, UnsupportedMediaType.code, ExtractionFailed.code)


@settings(deadline=None)
@given(BLOCKS)
@example(["---", "title: x", "---", "# a"])
@example(["# a"])
def test_headings_of_any_markdown_are_in_order_and_within_the_text(blocks: list[str]) -> None:
    source = "\n".join(blocks)
    position = 0
    for heading in markdown_headings(source):
        assert position <= heading.start < heading.end <= len(source)
        assert 1 <= heading.level <= 6
        assert heading.text.split()[0] in source[heading.start : heading.end]
        position = heading.end


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["paragraph", "row", "heading", "page"]), st.text(max_size=20))))
def test_spans_of_a_built_text_are_in_order_and_reproduce_it(pieces: list[tuple[str, str]]) -> None:
    builder = TextBuilder(120)
    builder.begin_page()
    try:
        for kind, text in pieces:
            match kind:
                case "paragraph":
                    builder.paragraph(text)
                case "row":
                    builder.row([text, text])
                case "heading":
                    builder.heading(2, text)
                case _:
                    builder.end_page()
                    builder.begin_page()
    except DocumentTooLarge:
        return
    builder.end_page()
    built = builder.built("text/plain")
    assert len(built.text) <= 120
    assert [built.text[each.start : each.end] for each in built.headings] == [each.text for each in built.headings]
    assert " ".join(built.text[page.start : page.end] for page in built.pages).split() == built.text.split()
    assert [page.number for page in built.pages] == list(range(1, len(built.pages) + 1))


@pytest.mark.parametrize("name", ["punycode", "idna", "unicode_escape", "raw_unicode_escape", "cp037", "utf-7", "zip"])
def test_a_declared_encoding_that_no_page_may_name_is_not_used(name: str) -> None:
    content = "Käse und Brot, größer als früher".encode("cp1252")
    assert decode(content, f"text/plain; charset={name}") == decode(content)


def test_a_kept_text_has_the_pages_and_headings_of_the_text_that_it_was_made_of() -> None:
    builder = TextBuilder(1000)
    for number in (1, 2):
        builder.begin_page()
        builder.heading(1, f"Chapter {number}")
        builder.paragraph("Some text.")
        builder.end_page()
    extracted = builder.built("application/pdf", "Title")
    kept = KeptText(
        text=extracted.text,
        type=extracted.media_type,
        title=extracted.title,
        pages=pages_of(extracted),
        headings=headings_of(extracted),
    )
    assert read_kept_text(msgspec.json.encode(kept), 1000) == extracted


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "image/png"},
        {"text": "a\r\nb"},
        {"pages": [{"number": 1, "start": 0, "end": 10}]},
        {"pages": [{"number": 1, "start": 2, "end": 1}]},
        {"pages": [{"number": 1, "start": 0, "end": 2}, {"number": 2, "start": 1, "end": 3}]},
        {"pages": [{"number": 2, "start": 0, "end": 1}, {"number": 1, "start": 1, "end": 3}]},
        {"headings": [{"level": 7, "text": "x", "start": 0, "end": 1}]},
        {"headings": [{"level": 1, "text": "x", "start": -1, "end": 1}]},
        {"title": 5},
    ],
)
def test_a_damaged_kept_text_is_rejected(fields: dict[str, object]) -> None:
    with pytest.raises(ExtractionFailed):
        read_kept_text(msgspec.json.encode({"text": "tea", "type": "text/plain", **fields}), 100)


@pytest.mark.parametrize(("text", "error"), [(" ", NoText), ("x" * 101, DocumentTooLarge)])
def test_a_kept_text_is_neither_blank_nor_too_long(text: str, error: type[ServiceError]) -> None:
    with pytest.raises(error):
        read_kept_text(msgspec.json.encode({"text": text, "type": "text/plain"}), 100)
