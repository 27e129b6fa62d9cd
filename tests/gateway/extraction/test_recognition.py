"""The format of a document: by its content, then its declared media type, then its name."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragstore.kit.errors import ServiceError, UnsupportedMediaType
from ragstore_gateway.errors import ExtractionFailed, NoText
from ragstore_gateway.extraction import dispatch
from ragstore_gateway.extraction.formats import DECLARATIONS, EXTENSIONS, FORMATS, Format
from ragstore_gateway.extraction.protocol import Request
from ragstore_gateway.extraction.recognition import MAX_PACKAGE_ENTRIES, recognise
from tests.gateway.extraction import documents
from tests.support.hangs import ends

TEXT = b"The kettle boils."
HTML = b"\n<!-- c -->\n<!DOCTYPE html>\n<html><p>The kettle"


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as package:
        for name in names:
            package.writestr(name, "The kettle boils.")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: documents.pdf([""]), "pdf"),
        (lambda: b"\n\njunk" + documents.pdf([""]), "pdf"),
        (documents.word, "docx"),
        (documents.excel, "xlsx"),
        (documents.powerpoint, "pptx"),
        (lambda: HTML, "html"),
        (lambda: b"\xef\xbb\xbf<html>", "html"),
    ],
)
@pytest.mark.parametrize(("media_type", "name"), [("", ""), ("text/plain", "a.txt"), ("text/html", "a.docx")])
def test_the_content_decides_first(make: Callable[[], bytes], found: Format, media_type: str, name: str) -> None:
    assert recognise(make(), media_type, name) == found


@pytest.mark.parametrize(
    ("media_type", "name", "found"),
    [
        ("text/markdown; charset=utf-8", "a.csv", "markdown"),
        ("TEXT/CSV", "a.md", "csv"),
        ("text/plain", "a.md", "text"),
        ("application/octet-stream", "a.md", "markdown"),
        ("", "folder.d/A.TSV", "csv"),
        ("", "a.htm", "html"),
        ("", "", "text"),
        ("application/json", "a.json", "text"),
        ("text/x-python", "a.py", "text"),
    ],
)
def test_the_media_type_decides_before_the_name(media_type: str, name: str, found: Format) -> None:
    assert recognise(TEXT, media_type, name) == found


def test_a_fragment_of_html_is_html_only_if_nothing_else_is_declared() -> None:
    assert recognise(b"<p>kettle") == "html"
    assert recognise(b"<p align=center>kettle", name="README.md") == "markdown"


@pytest.mark.parametrize(("end", "found"), [(b"<html>", "html"), (b"kettle", "text")])
@pytest.mark.parametrize("between", [b"", b" \n"])
def test_any_number_of_comments_may_come_first(end: bytes, found: Format, between: bytes) -> None:
    with ends():
        assert recognise(b"\n<?xml version='1.0'?>" + (b"<!---->" + between) * 400 + end) == found


@pytest.mark.parametrize("extension", [".pdf", ".docx", ".xlsx", ".pptx"])
def test_a_text_with_the_extension_of_a_binary_format_is_an_error(extension: str) -> None:
    with pytest.raises(ExtractionFailed, match=f"not that of a {extension[1:].upper()} file"):
        recognise(TEXT, name=f"a{extension}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "the document is an image"),
        (b"\x1f\x8b\x08" + bytes(100), "the document is compressed"),
        (b"{\\rtf1 The kettle}", "the document is an RTF file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000), "Word, Excel and PowerPoint 97-2003"),
        (archive("a.txt"), "the document is an archive"),
        (archive("mimetype", "content.xml"), "OpenDocument and EPUB files"),
        (archive("[Content_Types].xml", "xl/workbook.bin"), "XLSB files"),
        (bytes(range(256)) * 10, "binary content"),
        (bytes(1000), "binary content"),
    ],
)
def test_other_binary_content_is_not_supported(content: bytes, message: str) -> None:
    for name in ("", "a.txt", "a.html"):
        with pytest.raises(UnsupportedMediaType, match=message):
            recognise(content, name=name)


def test_a_document_with_macros_is_not_supported() -> None:
    def with_macros(xml: bytes) -> bytes:
        return xml.replace(
            b"vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
            b"vnd.ms-word.document.macroEnabled.main+xml",
        )

    content = documents.replaced(documents.word(), {"[Content_Types].xml": with_macros})
    with pytest.raises(UnsupportedMediaType, match="macros"):
        dispatch.extract("docx", content, Request("", "", "text", "", 1000, 1.0), 10**9)


def test_an_image_by_its_media_type_is_not_supported() -> None:
    with pytest.raises(UnsupportedMediaType, match="images"):
        recognise(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml")


@pytest.mark.parametrize("kind", ["docx", "xlsx", "pptx"])
def test_a_missing_extra_is_named(kind: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    without = replace(DECLARATIONS[kind], package="ragstore_no_such_package")
    monkeypatch.setitem(DECLARATIONS, kind, without)
    request = Request("", "", "text", "", 1000, 1.0)
    with pytest.raises(UnsupportedMediaType, match=f"{kind.upper()} files need the extra 'office'"):
        dispatch.extract(kind, documents.word(), request, 10**9)


@pytest.mark.parametrize("kind", ["text", "markdown", "csv", "html"])
@pytest.mark.parametrize("content", [b"", b" \n\t", b"\xef\xbb\xbf"])
def test_a_document_of_whitespace_has_no_text(kind: Format, content: bytes) -> None:
    with pytest.raises(NoText):
        dispatch.extract(kind, content, Request("", "", "text", "", 1000, 1.0), 10**9)


def test_each_format_has_a_media_type_and_an_extension_of_its_own() -> None:
    declared = [kind for each in DECLARATIONS.values() for kind in (each.media_type, *each.further_types)]
    assert len(set(declared)) == len(declared)
    assert set(EXTENSIONS.values()) == set(FORMATS)


def test_the_page_lists_every_format_with_its_extensions() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "extraction-and-splitting.md").read_text()
    for each in DECLARATIONS.values():
        extensions = " ".join(f"`{extension}`" for extension in each.extensions)
        assert f"\n| {each.title} | {extensions}" in page


def test_no_message_contains_the_content() -> None:
    for content in (documents.word()[:100], b"%PDF-1.7 kettle", archive("kettle")):
        with pytest.raises(ServiceError) as raised:
            dispatch.extract(recognise(content), content, Request("", "kettle", "text", "", 1000, 1.0), 10**9)
        assert "kettle" not in raised.value.detail


def test_a_container_of_too_many_entries_is_rejected_before_its_directory_is_read() -> None:
    entry = b"PK\x01\x02" + bytes(42)
    count = MAX_PACKAGE_ENTRIES + 1
    with pytest.raises(ExtractionFailed, match="more than 20000 entries"):
        recognise(b"PK\x03\x04" + entry * count)
    with pytest.raises(ExtractionFailed, match="cannot be read"):
        recognise(b"PK\x03\x04" + entry * (count - 1))
