"""Extracts the text of a document of a known format."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Final, TypeAlias

from ragstore.kit.errors import UnsupportedMediaType
from ragstore_gateway.errors import NoText
from ragstore_gateway.extraction import parsers
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.formats import DECLARATIONS, Format, FormatDeclaration
from ragstore_gateway.extraction.office_package import check_package
from ragstore_gateway.extraction.protocol import Request

Parser: TypeAlias = Callable[[bytes, Request], Extracted]
"""Extracts the text of a document, with the further arguments of a request."""


def _parser(declaration: FormatDeclaration) -> Parser:
    module, _, function = declaration.parser.partition(":")
    parser: Parser = getattr(import_module(f"{parsers.__name__}.{module}"), function)
    return parser


_PARSERS: Final = {each.name: _parser(each) for each in DECLARATIONS.values() if not each.package}
"""The parsers that need no extra, which are imported when the process starts."""


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
    declaration = DECLARATIONS[kind]
    if declaration.package:
        if find_spec(declaration.package) is None:
            raise UnsupportedMediaType(f"{declaration.title} files need the extra 'office' of ragstore-gateway")
        check_package(content, memory_bytes)
    # The libraries of the extra take up to 0.2 s to import.
    parser = _PARSERS.get(kind) or _parser(declaration)
    extracted = parser(content, request)
    if not extracted.text.strip():
        raise NoText("The document has no text")
    return extracted
