"""PDF files, by PDFium."""

from __future__ import annotations

import re
from typing import Final

import pypdfium2
import pypdfium2.raw

from ragstore_gateway.errors import EncryptedDocument, ExtractionFailed, NoText
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.parsers.running_lines import without_running_lines
from ragstore_gateway.extraction.protocol import Request
from ragstore_gateway.extraction.text_builder import TextBuilder, check_length

# PDFium's mark for a hyphen at the end of a line that is not part of the word.
_SOFT_HYPHEN: Final = re.compile("[\ufffe\x02](?:\r\n|\n)?")


def document(content: bytes, request: Request) -> Extracted:
    """Extract the text of a PDF file page by page, without running headers and footers.

    Args:
        content: the document.
        request: the maximum number of characters of its text.

    Raises:
        EncryptedDocument: it can be opened only with a password.
        ExtractionFailed: it is damaged.
        NoText: it has no text layer.
    """
    builder = TextBuilder(request.max_characters)
    try:
        opened = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD:
            raise EncryptedDocument("The PDF file is encrypted; it can be read only with a password") from None
        raise ExtractionFailed("The PDF file is damaged") from None
    for text in without_running_lines(_page_texts(opened, request.max_characters)):
        builder.begin_page()
        builder.paragraph(text)
        builder.end_page()
    title = opened.get_metadata_value("Title")
    found = builder.built(MEDIA_TYPES["pdf"], title)
    if not found.text:
        raise NoText("The PDF file has no text layer; it may be a scan, whose text only OCR can recognise")
    return found


def _page_texts(opened: pypdfium2.PdfDocument, max_characters: int) -> list[str]:
    """The texts of all pages."""
    texts: list[str] = []
    length = 0
    for index in range(len(opened)):
        texts.append(_page_text(opened, index))
        length += len(texts[-1])
        # As much again as the text may be running lines. The builder checks what is left.
        check_length(length, 2 * max_characters)
    return texts


def _page_text(opened: pypdfium2.PdfDocument, index: int) -> str:
    """The text of a page; empty if the page is damaged."""
    try:
        page = opened[index]
        text_page = page.get_textpage()
        text: str = text_page.get_text_bounded()
    except pypdfium2.PdfiumError:
        return ""
    text_page.close()
    page.close()
    return _SOFT_HYPHEN.sub("", text)
