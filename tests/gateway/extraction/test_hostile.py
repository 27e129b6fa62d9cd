"""Hostile and damaged documents: each has a clear error in bounded time and memory, and the next one is extracted."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ragstore.kit.errors import ServiceError
from ragstore_gateway.extraction.extractor import Extractor
from tests.gateway.extraction import documents
from tests.gateway.extraction.conftest import LIMITS, MEMORY_BYTES

pytestmark = pytest.mark.process

MIB = 1024 * 1024
SECRET = "samovar"
"""A word of the documents that no message may contain."""


class Hostile(NamedTuple):
    """A document that cannot be extracted.

    Attributes:
        name: its file name.
        content: makes the document.
        code: the code of the error.
        message: a part of its message.
    """

    name: str
    content: Callable[[], bytes]
    code: str
    message: str


def file(name: str) -> Callable[[], bytes]:
    return (documents.FILES / name).read_bytes


def nested_tables(depth: int) -> bytes:
    """A DOCX file with tables in tables."""
    tables = b"<w:tbl><w:tr><w:tc>" * depth + b"<w:p/>" + b"</w:tc></w:tr></w:tbl>" * depth

    def change(xml: bytes) -> bytes:
        return xml.replace(b"<w:sectPr", tables + b"<w:sectPr", 1)

    return documents.replaced(documents.word(), {"word/document.xml": change})


def corrupt_member() -> bytes:
    """A DOCX file with a damaged document in an intact directory."""
    package = bytearray(documents.word())
    with zipfile.ZipFile(io.BytesIO(bytes(package))) as opened:
        start = opened.getinfo("word/document.xml").header_offset + 60
    package[start : start + 200] = bytes(200)
    return bytes(package)


DAMAGED = "extraction_failed"
TOO_LARGE = "document_too_large"
ENCRYPTED = "encrypted_document"

HOSTILE = {
    "zip bomb": Hostile(
        "a.docx",
        lambda: documents.zip_bomb(documents.word(), "word/media/image.bin", 1024 * MIB),
        TOO_LARGE,
        "unpacked",
    ),
    "zip bomb in the text": Hostile(
        "a.pptx",
        lambda: documents.zip_bomb(documents.powerpoint(), "ppt/presentation.xml", 128 * MIB),
        TOO_LARGE,
        "unpa",
    ),
    "zip bomb below the limit": Hostile(
        "a.docx",
        lambda: documents.zip_bomb(documents.word(), "word/document.xml", 60 * MIB),
        DAMAGED,
        "the XML of a part",
    ),
    "billion laughs in docx": Hostile(
        "a.docx",
        lambda: documents.with_entities(documents.word(), "word/document.xml"),
        DAMAGED,
        "document type definition",
    ),
    "billion laughs in xlsx": Hostile(
        "a.xlsx",
        lambda: documents.with_entities(documents.excel(), "xl/worksheets/sheet1.xml"),
        DAMAGED,
        "document type definition",
    ),
    "billion laughs in pptx": Hostile(
        "a.pptx",
        lambda: documents.with_entities(documents.powerpoint(), "ppt/slides/slide1.xml"),
        DAMAGED,
        "document type definition",
    ),
    "entity behind a long comment": Hostile(
        "a.xlsx",
        lambda: documents.replaced(documents.excel(), {"xl/worksheets/sheet1.xml": commented}),
        DAMAGED,
        "document type definition",
    ),
    "entity in utf-32": Hostile(
        "a.xlsx",
        lambda: documents.replaced(documents.excel(), {"xl/worksheets/sheet1.xml": wide}),
        DAMAGED,
        "the XML of a part",
    ),
    "nested tables": Hostile("a.docx", lambda: nested_tables(3000), DAMAGED, "DOCX"),
    "encrypted pdf": Hostile("a.pdf", file("encrypted.pdf"), ENCRYPTED, "password"),
    "encrypted docx": Hostile("a.docx", file("encrypted.docx"), ENCRYPTED, "password"),
    "encrypted docx as pdf": Hostile("a.pdf", file("encrypted.docx"), ENCRYPTED, "password"),
    "scan": Hostile("a.pdf", file("scan.pdf"), "no_text", "no text layer"),
    "stream bomb": Hostile("a.pdf", lambda: documents.pdf([" " * (300 * MIB)]), DAMAGED, f"more than {MEMORY_BYTES}"),
    "form bomb": Hostile("a.pdf", lambda: documents.pdf_forms(9), DAMAGED, f"more than {MEMORY_BYTES}"),
    "truncated pdf": Hostile("a.pdf", lambda: file("manual.pdf")()[:900], DAMAGED, "PDF file is damaged"),
    "truncated docx": Hostile("a.docx", lambda: documents.word()[:-1000], DAMAGED, "damaged"),
    "truncated xlsx": Hostile("a.xlsx", lambda: documents.excel()[:3000], DAMAGED, "damaged"),
    "corrupt docx": Hostile("a.docx", corrupt_member, DAMAGED, "DOCX document is damaged"),
    "docx named pdf, truncated": Hostile("a.pdf", lambda: documents.word()[:1000], DAMAGED, "ZIP container"),
    "nested html": Hostile("a.html", lambda: b"<html><body>" + b"<div>" * 200_000, "no_text", "no text"),
    "large html tree": Hostile(
        "a.html", lambda: b"<html><body>" + b"<p>samovar" * 790_000, TOO_LARGE, f"more than {MEMORY_BYTES}"
    ),
    "long csv line": Hostile("a.csv", lambda: b"samovar " * 900_000, TOO_LARGE, "1000000 characters"),
    "long text": Hostile("a.txt", lambda: b"samovar " * 200_000, TOO_LARGE, "1000000 characters"),
    "long sheet": Hostile(
        "a.xlsx",
        lambda: documents.replaced(documents.excel(), {"xl/worksheets/sheet1.xml": repeated_rows}),
        TOO_LARGE,
        "1000000 characters",
    ),
    "large file": Hostile("a.txt", lambda: bytes(9 * MIB), TOO_LARGE, f"{LIMITS.max_document_bytes} bytes"),
    "zero bytes": Hostile("a.txt", lambda: bytes(MIB), "unsupported_media_type", "binary"),
}


def repeated_rows(xml: bytes) -> bytes:
    """A sheet with a long cell in many rows."""
    row = b'<row><c t="inlineStr"><is><t>' + b"samovar " * 1000 + b"</t></is></c></row>"
    return xml.replace(b"</sheetData>", row * 200 + b"</sheetData>")


def with_definition(xml: bytes, before: str = "", charset: str = "utf-8") -> bytes:
    """An XML document in another encoding, with a document type definition that has an entity."""
    root = xml.decode().partition("?>")[2] if xml.startswith(b"<?xml") else xml.decode()
    declaration = f"<?xml version='1.0' encoding='{charset[:6] if charset.startswith('utf-') else charset}'?>"
    return f'{declaration}{before}<!DOCTYPE x [<!ENTITY e "samovar">]>{root}'.encode(charset)


def commented(xml: bytes) -> bytes:
    return with_definition(xml, f"<!-- {'c' * 70_000} -->").replace(b"kettle", b"&e;")


def wide(xml: bytes) -> bytes:
    return with_definition(xml, charset="utf-32")


def peak_bytes(pid: int) -> int:
    """The peak of a process's memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_document_is_a_clear_error_and_the_next_one_is_extracted(
    extractor: Extractor, name: str
) -> None:
    hostile = HOSTILE[name]
    with pytest.raises(ServiceError) as raised:
        await extractor.extract(hostile.content(), name=hostile.name)
    assert raised.value.code == hostile.code, raised.value.detail
    assert hostile.message in raised.value.detail
    assert SECRET not in raised.value.detail
    pids = [worker.pid for worker in extractor.workers]
    assert all(peak_bytes(pid) <= MEMORY_BYTES for pid in pids)
    extracted = await extractor.extract(file("manual.pdf")())
    assert "limescale" in extracted.text


async def test_a_pdf_file_of_ten_thousand_pages_is_extracted(extractor: Extractor) -> None:
    content = documents.pdf([documents.shown(f"page {number}") for number in range(1, 10_001)])
    extracted = await extractor.extract(content)
    last = extracted.pages[-1]
    assert (last.number, extracted.text[last.start : last.end]) == (10_000, "page 10000")


async def test_entities_of_a_page_are_not_expanded(extractor: Extractor) -> None:
    page = f"{documents.ENTITIES}<html><body><p>The kettle &a11; boils one litre of water.</p></body></html>"
    extracted = await extractor.extract(page.encode(), name="a.html")
    assert "boils one litre of water" in extracted.text
    assert "kettlekettle" not in extracted.text


async def test_xml_is_text_and_its_entities_are_not_expanded(extractor: Extractor) -> None:
    source = f"<?xml version='1.0'?>\n{documents.ENTITIES}\n<svg><text>&a11;</text></svg>"
    assert (await extractor.extract(source.encode(), name="a.svg")).text == source


async def test_a_long_line_of_a_csv_file_within_the_limit_is_extracted(extractor: Extractor) -> None:
    extracted = await extractor.extract(b"kettle " * 100_000, name="a.csv")
    assert len(extracted.text) == 7 * 100_000 - 1


async def test_zero_bytes_in_a_text_are_left_out(extractor: Extractor) -> None:
    assert (await extractor.extract(b"The kettle\0 boils one litre.")).text == "The kettle boils one litre."


async def test_a_sheet_of_a_million_declared_rows_has_only_its_own(extractor: Extractor) -> None:
    def enlarged(xml: bytes) -> bytes:
        return xml.replace(b'ref="A1:D3"', b'ref="A1:XFD1048576"').replace(b'<row r="3"', b'<row r="1048576"')

    content = documents.replaced(documents.excel(), {"xl/worksheets/sheet1.xml": enlarged})
    assert len((await extractor.extract(content)).text) < 200


async def test_markdown_of_a_million_quotation_marks_is_extracted(extractor: Extractor) -> None:
    assert (await extractor.extract(b">" * 900_000 + b" kettle", name="a.md")).text.endswith(" kettle")
