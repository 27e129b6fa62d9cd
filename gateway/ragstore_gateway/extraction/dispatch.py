"""Extracts the text of a document of a known format."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from ragstore.kit.errors import UnsupportedMediaType
from ragstore_gateway.errors import NoText
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.formats import NAMES, Format
from ragstore_gateway.extraction.office_package import check_package
from ragstore_gateway.extraction.parsers import html, pdf, plain
from ragstore_gateway.extraction.protocol import Request

OFFICE: Final[dict[Format, str]] = {"docx": "docx", "xlsx": "openpyxl", "pptx": "pptx"}
"""The formats of the extra `office`, with the package that each needs."""


def extract(kind: Format, content: bytes, request: Request, memory_bytes: int) -> Extracted:
    """Extract a text.

    Args:
        kind: the document's format.
        content: the document.
        request: the further arguments.
        memory_bytes: the memory of this process.

    Raises:
        NoText: the document has no text.
        ServiceError: its text cannot be extracted.
    """
    limit = request.max_characters
    match kind:
        case "text":
            extracted = plain.text(content, request.media_type, limit)
        case "markdown":
            extracted = plain.markdown(content, request.media_type, limit)
        case "csv":
            extracted = plain.table(content, request.media_type, limit)
        case "html":
            extracted = html.page(content, request.media_type, request.output, request.url, limit)
        case "pdf":
            extracted = pdf.document(content, limit)
        case _:
            extracted = _office(kind, content, request, memory_bytes)
    if not extracted.text.strip():
        raise NoText("The document has no text")
    return extracted


def _office(kind: Format, content: bytes, request: Request, memory_bytes: int) -> Extracted:
    if find_spec(OFFICE[kind]) is None:
        raise UnsupportedMediaType(f"{NAMES[kind]} files need the extra 'office' of ragstore-gateway")
    check_package(content, memory_bytes)
    marked = request.output == "markdown"
    # The libraries are optional, and take up to 0.2 s to import.
    if kind == "docx":
        from ragstore_gateway.extraction.parsers import word

        return word.document(content, request.max_characters, marked=marked)
    if kind == "xlsx":
        from ragstore_gateway.extraction.parsers import excel

        return excel.workbook(content, request.max_characters, marked=marked)
    from ragstore_gateway.extraction.parsers import powerpoint

    return powerpoint.presentation(content, request.max_characters, marked=marked)
