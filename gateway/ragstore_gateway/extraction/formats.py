"""The formats of documents, with their media types, names and file extensions."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

Format: TypeAlias = Literal["text", "markdown", "html", "csv", "pdf", "docx", "xlsx", "pptx"]

FORMATS: Final[tuple[Format, ...]] = get_args(Format)

_OFFICE: Final = "application/vnd.openxmlformats-officedocument."

MEDIA_TYPES: Final[dict[Format, str]] = {
    "text": "text/plain",
    "markdown": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "pdf": "application/pdf",
    "docx": f"{_OFFICE}wordprocessingml.document",
    "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "pptx": f"{_OFFICE}presentationml.presentation",
}

NAMES: Final[dict[Format, str]] = {
    "text": "text",
    "markdown": "Markdown",
    "html": "HTML",
    "csv": "CSV",
    "pdf": "PDF",
    "docx": "DOCX",
    "xlsx": "XLSX",
    "pptx": "PPTX",
}
"""The formats, as messages call them."""

EXTENSIONS: Final[dict[str, Format]] = {
    **dict.fromkeys((".txt", ".text", ".rst"), "text"),
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd"), "markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    ".pdf": "pdf",
    ".docx": "docx",
    ".xlsx": "xlsx",
    ".pptx": "pptx",
}
"""Extensions of document files. A file with another extension is text if its content is."""
