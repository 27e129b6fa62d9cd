"""Documents of every format become text, with the spans of their pages and headings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.extractor import Extractor
from tests.gateway.extraction import documents

pytestmark = pytest.mark.process

RUSSIAN = (
    "Чайник кипятит литр воды за три минуты. Гарантия на чайник три года. "
    "Накипь не входит в гарантию. Чистите чайник уксусом каждый месяц, и он будет служить долго. "
)
JAPANESE = "このやかんは三分で一リットルの水を沸かします。保証期間は三年です。毎月お酢で掃除してください。" * 3

EVERY: dict[str, Callable[[], bytes]] = {
    "a.md": lambda: b"# The kettle\n\nIt boils.\n\nWarranty\n--------\n\nThree years.\n",
    "a.html": lambda: documents.PAGE.encode(),
    "a.pdf": lambda: (documents.FILES / "manual.pdf").read_bytes(),
    "a.docx": documents.word,
    "a.xlsx": documents.excel,
    "a.pptx": documents.powerpoint,
}

each_format = pytest.mark.parametrize("name", EVERY)


def headings(extracted: Extracted) -> list[tuple[int, str, str]]:
    """The level, the text and the span of each heading."""
    return [(each.level, each.text, extracted.text[each.start : each.end]) for each in extracted.headings]


def pages(extracted: Extracted) -> list[str]:
    """The text of each page."""
    return [extracted.text[page.start : page.end] for page in extracted.pages]


@each_format
async def test_spans_of_pages_and_headings_are_in_order_and_reproduce_the_text(extractor: Extractor, name: str) -> None:
    extracted = await extractor.extract(EVERY[name](), name=name)
    position = 0
    for page in extracted.pages:
        assert position <= page.start <= page.end <= len(extracted.text)
        position = page.end
    position = 0
    for heading in extracted.headings:
        assert position <= heading.start < heading.end <= len(extracted.text)
        assert heading.text in extracted.text[heading.start : heading.end]
        position = heading.end


# -- text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Käse, 茶".encode(), "Käse, 茶"),
        ("Käse, 茶".encode("utf-8-sig"), "Käse, 茶"),
        ("Käse, 茶".encode("utf-16"), "Käse, 茶"),
        ("Käse, 茶".encode("utf-32"), "Käse, 茶"),
        ("The kettle".encode("utf-16-le"), "The kettle"),
        ("The kettle".encode("utf-16-be"), "The kettle"),
        (RUSSIAN.encode("cp1251"), RUSSIAN),
        (JAPANESE.encode("shift_jis"), JAPANESE),
        ("Ein großer Käse für Sören, naturgemäß süß.".encode("cp1252"), "Ein großer Käse für Sören, naturgemäß süß."),
    ],
    ids=["utf-8", "utf-8 with mark", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "cp1251", "shift_jis", "cp1252"],
)
async def test_the_charset_of_a_text_is_recognised_by_its_content(
    extractor: Extractor, content: bytes, text: str
) -> None:
    assert (await extractor.extract(content)).text == text


async def test_a_declared_charset_counts_if_the_content_is_not_utf_8(extractor: Extractor) -> None:
    extracted = await extractor.extract("Łódź".encode("iso8859-2"), media_type="text/plain; charset=ISO-8859-2")
    assert extracted.text == "Łódź"


async def test_one_invalid_byte_does_not_change_the_charset_of_a_text(extractor: Extractor) -> None:
    extracted = await extractor.extract(("Käse für Sören " * 10).encode() + b"\xff")
    assert extracted.text == "Käse für Sören " * 10 + "\ufffd"


async def test_line_breaks_become_line_feeds_and_control_characters_are_left_out(extractor: Extractor) -> None:
    extracted = await extractor.extract(b"The kettle\r\nboils\rone litre\x0cof water\0 in three minutes\n\tor four")
    assert extracted.text == "The kettle\nboils\none litre\nof water in three minutes\n\tor four"


async def test_a_text_keeps_its_media_type(extractor: Extractor) -> None:
    assert (await extractor.extract(b"The kettle", media_type="text/plain")).media_type == "text/plain"


# -- Markdown -------------------------------------------------------------------------------------


async def test_headings_of_markdown_are_those_of_its_blocks(extractor: Extractor) -> None:
    code = "```sh\n# no heading\n```\n\n    # no heading\n"
    source = f"# The *kettle* #\n\nIt boils.\n\n{code}\nWarranty\nof it\n---\n\n###### Six\n"
    extracted = await extractor.extract(source.encode(), media_type="text/markdown")
    assert extracted.text == source
    assert headings(extracted) == [
        (1, "The *kettle*", "# The *kettle* #"),
        (2, "Warranty of it", "Warranty\nof it\n---"),
        (6, "Six", "###### Six"),
    ]


async def test_front_matter_has_the_title_of_a_markdown_file_and_no_heading(extractor: Extractor) -> None:
    source = '---\ntitle: "Manual"\ntags: [kettle]\n---\n\n# The kettle\n'
    extracted = await extractor.extract(source.encode(), name="a.md")
    assert (extracted.title, headings(extracted)) == ("Manual", [(1, "The kettle", "# The kettle")])


async def test_the_first_heading_is_the_title_of_a_markdown_file(extractor: Extractor) -> None:
    assert (await extractor.extract(b"# The kettle\n\n# Warranty\n", name="a.md")).title == "The kettle"


# -- HTML -----------------------------------------------------------------------------------------


async def test_a_page_has_its_main_text_title_language_and_date(extractor: Extractor) -> None:
    extracted = await extractor.extract(documents.PAGE.encode())
    assert (extracted.media_type, extracted.title) == ("text/html", "Der Kessel")
    assert (extracted.language, extracted.published) == ("de", "2026-03-04")
    assert "Kalk ist ausgeschlossen." in extracted.text
    assert "| Griff | 5 |" in extracted.text
    assert "Startseite" not in extracted.text
    assert "Impressum" not in extracted.text
    assert headings(extracted) == [
        (1, "Der Kessel", "Der Kessel"),
        (2, "Garantie", "Garantie"),
        (2, "Reinigung", "Reinigung"),
    ]


async def test_a_page_as_markdown_has_marks(extractor: Extractor) -> None:
    extracted = await extractor.extract(documents.PAGE.encode(), output="markdown")
    assert "**Essig**" in extracted.text
    assert headings(extracted)[1] == (2, "Garantie", "## Garantie")


async def test_a_page_as_html_has_only_its_main_content(extractor: Extractor) -> None:
    extracted = await extractor.extract(documents.PAGE.encode(), output="html")
    assert "<h2>Garantie</h2>" in extracted.text
    assert "<nav" not in extracted.text


@pytest.mark.parametrize(
    "content",
    [
        "<html><head><meta charset='windows-1251'></head><body><p>Чайник</p></body></html>",
        "<?xml version='1.0' encoding='windows-1251'?>\n<!DOCTYPE html><meta charset='windows-1251'><p>Чайник</p>",
    ],
)
async def test_a_page_has_the_charset_that_it_declares(extractor: Extractor, content: str) -> None:
    assert "Чайник" in (await extractor.extract(content.encode("cp1251"))).text


async def test_a_page_without_a_main_text_has_all_of_its_text(extractor: Extractor) -> None:
    assert (await extractor.extract(b"<p>Hello <b>kettle</b></p>", name="a.html")).text == "Hello kettle"


# -- PDF ------------------------------------------------------------------------------------------


async def test_a_pdf_file_is_extracted_page_by_page(extractor: Extractor) -> None:
    extracted = await extractor.extract((documents.FILES / "manual.pdf").read_bytes())
    assert (extracted.media_type, extracted.title) == ("application/pdf", "Manual of the kettle")
    assert [page.number for page in extracted.pages] == [1, 2, 3]
    assert pages(extracted) == [
        "The kettle\nThe kettle boils one litre of water in three minutes.",
        "Warranty\nThe warranty of the kettle lasts three years. It excludes limescale.",
        "Cleaning\nClean the kettle with vinegar every month. Äpfel, café.",
    ]


async def test_an_empty_page_of_a_pdf_file_has_an_empty_span(extractor: Extractor) -> None:
    extracted = await extractor.extract(documents.pdf([documents.shown("one"), "", documents.shown("three")]))
    assert pages(extracted) == ["one", "", "three"]


async def test_a_word_that_is_hyphenated_in_a_pdf_file_is_joined(extractor: Extractor) -> None:
    content = "BT /F1 12 Tf 14 TL 20 700 Td (The infor-) Tj T* (mation of the kettle) Tj ET"
    assert (await extractor.extract(documents.pdf([content]))).text == "The information of the kettle"


async def test_running_headers_and_footers_of_a_pdf_file_are_removed(extractor: Extractor) -> None:
    texts = ["The kettle boils", "one litre of water", "in three minutes."]
    contents = [
        f"BT /F1 12 Tf 14 TL 20 700 Td (Manual of the kettle) Tj T* ({text}) Tj T* (Page {number} of 3) Tj ET"
        for number, text in enumerate(texts, start=1)
    ]
    extracted = await extractor.extract(documents.pdf(contents))
    assert pages(extracted) == [f"Manual of the kettle\n{texts[0]}", *texts[1:]]


async def test_a_pdf_file_that_only_restricts_its_use_is_extracted(extractor: Extractor) -> None:
    assert "limescale" in (await extractor.extract((documents.FILES / "restricted.pdf").read_bytes())).text


# -- office ---------------------------------------------------------------------------------------


async def test_a_docx_file_has_paragraphs_headings_and_tables_in_order(extractor: Extractor) -> None:
    extracted = await extractor.extract(documents.word())
    assert extracted.text == (
        "The kettle\n\nThe kettle boils one litre of water.\n\nWarranty\n\nPart\tYears\tNote\nHandle\t5\n\n"
        "Limescale is excluded."
    )
    assert extracted.title == "Manual of the kettle"
    assert headings(extracted) == [(1, "The kettle", "The kettle"), (2, "Warranty", "Warranty")]


async def test_a_docx_file_as_markdown_has_marks(extractor: Extractor) -> None:
    extracted = await extractor.extract(documents.word(), output="markdown")
    assert headings(extracted)[1] == (2, "Warranty", "## Warranty")


async def test_each_sheet_of_an_xlsx_file_is_a_page_with_its_name_and_rows(extractor: Extractor) -> None:
    extracted = await extractor.extract(documents.excel())
    assert pages(extracted) == [
        "Parts\n\npart\tprice\tsince\tin stock\nkettle\t4.5\t2026-01-02\t12\nlid of glass\t7\t2026-01-02 03:04:05",
        "",
        "Offices\n\nVienna\tTrue",
    ]
    assert [text for _, text, _ in headings(extracted)] == ["Parts", "Offices"]


async def test_each_slide_of_a_pptx_file_is_a_page_with_its_title_text_tables_and_notes(extractor: Extractor) -> None:
    extracted = await extractor.extract(documents.powerpoint())
    assert pages(extracted) == [
        "The kettle\n\nIt boils one litre of water.\n\nShow the kettle.",
        "Warranty\n\nHandle\t5 years",
    ]
    assert headings(extracted) == [(1, "The kettle", "The kettle"), (1, "Warranty", "Warranty")]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
async def test_a_csv_file_has_a_line_for_each_row(extractor: Extractor, delimiter: str) -> None:
    rows = (("part", "price"), (f'"handle{delimiter} left"', "4"), ('"lid\nof ""glass"""', "7"))
    content = "\n".join(delimiter.join(row) for row in rows).encode()
    lines = (await extractor.extract(content, name="a.csv")).text.split("\n")
    assert lines == ["part\tprice", f"handle{delimiter.replace(chr(9), '')} left\t4", 'lid of "glass"\t7']
