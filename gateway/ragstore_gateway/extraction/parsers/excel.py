"""XLSX files, by openpyxl."""

from __future__ import annotations

import io
from datetime import date, datetime, time

import openpyxl

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.protocol import Request
from ragstore_gateway.extraction.text_builder import TextBuilder


def workbook(content: bytes, request: Request) -> Extracted:
    """Extract the text of an XLSX file: each sheet is a page, with its name as heading and a line for each row.

    Of formulas, the values are taken that were calculated last. Charts and hidden sheets are left out.

    Args:
        content: the document.
        request: the maximum number of characters of its text; as Markdown, headings have `#` marks.
    """
    # read_only: rows are parsed one after the other, not kept as objects.
    opened = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True, keep_links=False)
    builder = TextBuilder(request.max_characters, marked=request.output == "markdown")
    for sheet in opened.worksheets:
        if sheet.sheet_state != "visible":
            continue
        # The declared size may be wrong, and rows would be padded to it.
        sheet.reset_dimensions()
        builder.begin_page()
        title_added = False
        for values in sheet.iter_rows(values_only=True):
            cells = [_shown(value) for value in values]
            if not title_added and any(cells):
                builder.heading(1, sheet.title)
                title_added = True
            builder.row(cells)
        builder.end_page()
    return builder.built(MEDIA_TYPES["xlsx"], opened.properties.title or "")


def _shown(value: object) -> str:
    """A value as text: dates in ISO 8601, whole numbers without a fraction."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value)
