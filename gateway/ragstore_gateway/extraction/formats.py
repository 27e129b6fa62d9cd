"""The formats of documents. A format is in its parser's module and in this list; everything else is derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

Format: TypeAlias = str
"""Name of a format, one of `FORMATS`."""


@dataclass(frozen=True)
class FormatDeclaration:
    """A format of documents.

    Attributes:
        name: its name in metrics and messages between processes.
        title: its name in messages to people.
        extensions: extensions of its files.
        parser: a module of `parsers` and its function, a `dispatch.Parser`.
        further_types: other media types that clients declare for it.
        is_binary: whether its content identifies it: see `recognition`.
        package: the package of the extra `office` that the parser needs; empty if it needs none.
        folder: the folder that identifies an office file in its ZIP container.
    """

    name: Format
    title: str
    media_type: str
    extensions: tuple[str, ...]
    parser: str
    further_types: tuple[str, ...] = ()
    is_binary: bool = False
    package: str = ""
    folder: str = ""


def _office(name: Format, media_type: str, parser: str, package: str, folder: str) -> FormatDeclaration:
    media_type = f"application/vnd.openxmlformats-officedocument.{media_type}"
    return FormatDeclaration(name, name.upper(), media_type, (f".{name}",), parser, (), True, package, folder)


_DECLARED: Final = (
    FormatDeclaration("text", "text", "text/plain", (".txt", ".text", ".rst"), "plain:text"),
    FormatDeclaration(
        "markdown",
        "Markdown",
        "text/markdown",
        (".md", ".markdown", ".mdown", ".mkd"),
        "plain:markdown",
        ("text/x-markdown",),
    ),
    FormatDeclaration(
        "html", "HTML", "text/html", (".html", ".htm", ".xhtml"), "html:page", ("application/xhtml+xml",)
    ),
    FormatDeclaration(
        "csv",
        "CSV",
        "text/csv",
        (".csv", ".tsv"),
        "plain:table",
        ("text/tab-separated-values", "application/csv"),
    ),
    FormatDeclaration("pdf", "PDF", "application/pdf", (".pdf",), "pdf:document", ("application/x-pdf",), True),
    _office("docx", "wordprocessingml.document", "word:document", "docx", "word/"),
    _office("xlsx", "spreadsheetml.sheet", "excel:workbook", "openpyxl", "xl/"),
    _office("pptx", "presentationml.presentation", "powerpoint:presentation", "pptx", "ppt/"),
)

DECLARATIONS: Final = {each.name: each for each in _DECLARED}
FORMATS: Final = tuple(DECLARATIONS)
MEDIA_TYPES: Final = {each.name: each.media_type for each in _DECLARED}
NAMES: Final = {each.name: each.title for each in _DECLARED}
"""The formats, as messages call them."""

EXTENSIONS: Final = {extension: each.name for each in _DECLARED for extension in each.extensions}
"""Extensions of document files. A file with another extension is text if its content is."""
