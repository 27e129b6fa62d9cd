"""PPTX files, by python-pptx."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pptx
from pptx.shapes.autoshape import Shape
from pptx.shapes.base import BaseShape
from pptx.shapes.graphfrm import GraphicFrame
from pptx.shapes.group import GroupShape

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.protocol import Request
from ragstore_gateway.extraction.text_builder import TextBuilder


def presentation(content: bytes, request: Request) -> Extracted:
    """Extract the text of a PPTX file: each slide is a page, with its title as heading, then its shapes and its notes.

    Args:
        content: the document.
        request: the maximum number of characters of its text; as Markdown, headings have `#` marks.
    """
    opened = pptx.Presentation(io.BytesIO(content))
    builder = TextBuilder(request.max_characters, marked=request.output == "markdown")
    for slide in opened.slides:
        builder.begin_page()
        title = slide.shapes.title
        if title is not None:
            builder.heading(1, title.text_frame.text)
        _add_shapes(builder, slide.shapes, None if title is None else title.shape_id)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            builder.paragraph(slide.notes_slide.notes_text_frame.text)
        builder.end_page()
    return builder.built(MEDIA_TYPES["pptx"], opened.core_properties.title)


def _add_shapes(builder: TextBuilder, shapes: Iterable[BaseShape], title_id: int | None) -> None:
    for shape in shapes:
        if shape.shape_id == title_id:
            continue
        if isinstance(shape, GroupShape):
            _add_shapes(builder, shape.shapes, title_id)
        elif isinstance(shape, GraphicFrame) and shape.has_table:
            for row in shape.table.rows:
                builder.row([cell.text for cell in row.cells])
        elif isinstance(shape, Shape):
            builder.paragraph(shape.text_frame.text)
