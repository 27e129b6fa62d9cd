"""The example handbook as an extracted document: the page marks are comments of its Markdown."""

from __future__ import annotations

import re

from ragstore_gateway.extraction.extracted import Extracted, Page
from ragstore_gateway.extraction.parsers.plain import markdown_headings
from tests.support.pages import ROOT

_MARK = re.compile(r"<!-- page (\d+) -->\n*")


def handbook() -> Extracted:
    """The handbook, without its page marks, with pages and headings."""
    pieces = _MARK.split((ROOT / "examples/handbook/handbook.md").read_text())
    text, pages = pieces[0], []
    for number, page in zip(pieces[1::2], pieces[2::2], strict=True):
        pages.append(Page(int(number), len(text), len(text) + len(page)))
        text += page
    return Extracted(text, "text/markdown", pages=tuple(pages), headings=markdown_headings(text))
