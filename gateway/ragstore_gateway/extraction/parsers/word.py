"""DOCX files, by python-docx."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable
from typing import Final

import docx
from docx.styles.style import BaseStyle, ParagraphStyle
from docx.table import Table, _Cell
from docx.text.paragraph import Paragraph

from ragstore.kit.errors import UnsupportedMediaType
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.protocol import Request
from ragstore_gateway.extraction.text_builder import TextBuilder

_HEADING: Final = re.compile(r"heading (\d)\Z", re.IGNORECASE)
_MAX_BASE_STYLES: Final = 20

# Types of a main part that python-docx does not open.
_OTHER_TYPES: Final = (b"template.main+xml", b"macroEnabled.main+xml", b"macroEnabledTemplate.main+xml")
_MAX_TYPES_BYTES: Final = 1024 * 1024


def document(content: bytes, request: Request) -> Extracted:
    """Extract the text of a DOCX file: paragraphs, headings and tables in order.

    Headers, footers, notes, comments and text boxes are left out.

    Args:
        content: the document.
        request: the maximum number of characters of its text; as Markdown, headings have `#` marks.

    Raises:
        UnsupportedMediaType: it is a template, or has macros.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as package, package.open("[Content_Types].xml") as part:
        types = part.read(_MAX_TYPES_BYTES)
    if any(kind in types for kind in _OTHER_TYPES):
        raise UnsupportedMediaType("Word templates and documents with macros are not supported; save it as DOCX")
    opened = docx.Document(io.BytesIO(content))
    levels = {style.style_id: _level(style) for style in opened.styles}
    builder = TextBuilder(request.max_characters, marked=request.output == "markdown")
    for block in opened.iter_inner_content():
        if isinstance(block, Table):
            for table_row in block.rows:
                builder.row(_cells(table_row.cells))
        elif level := levels.get(block._p.style):
            builder.heading(level, block.text)
        else:
            builder.paragraph(block.text)
    return builder.built(MEDIA_TYPES["docx"], opened.core_properties.title)


def _level(style: BaseStyle) -> int:
    """The level of the headings of a style, which may be based on a built-in one; 0 if its paragraphs are none."""
    for _ in range(_MAX_BASE_STYLES):
        if not isinstance(style, ParagraphStyle):
            return 0
        name = style.name or ""
        if found := _HEADING.match(name):
            return int(found[1])
        if name.lower() == "title":
            return 1
        if style.base_style is None:
            return 0
        style = style.base_style
    return 0


def _cells(cells: Iterable[_Cell]) -> list[str]:
    """The texts of the cells of a row, merged cells once, tables in cells included."""
    texts = []
    before = None
    for cell in cells:
        if cell._tc is not before:
            before = cell._tc
            texts.append(" ".join(_texts(cell)))
    return texts


def _texts(cell: _Cell) -> Iterable[str]:
    for block in cell.iter_inner_content():
        if isinstance(block, Paragraph):
            yield block.text
        else:
            for table_row in block.rows:
                yield from _cells(table_row.cells)
