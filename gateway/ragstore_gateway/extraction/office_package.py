"""Checks of office files, which are ZIP packages of XML, before a library opens them."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import IO, Final, NoReturn
from xml.parsers import expat

from ragstore_gateway.errors import DocumentTooLarge, EncryptedDocument, ExtractionFailed

UNPACKED_SHARE: Final = 4
"""The libraries need up to four times the size of the XML in memory."""

MAX_PROLOG_BYTES: Final = 1024 * 1024
"""Maximum size of what a part has before its root element. Office programs write a declaration of 55 bytes."""

_XML_NAMES: Final = (".xml", ".rels")
_PIECE: Final = 64 * 1024


class _Root(Exception):
    """The root element has begun."""


class _Doctype(Exception):
    """A document type definition has begun.

    Args:
        has_declarations: whether it has declarations of its own, such as entities.
    """

    def __init__(self, has_declarations: bool) -> None:
        super().__init__()
        self.has_declarations = has_declarations


def check_package(content: bytes, memory_bytes: int) -> None:
    """Check an office file.

    The sizes in its directory are binding: `zipfile` reads no more of a member than its declared size.

    Args:
        content: the file.
        memory_bytes: the memory of this process.

    Raises:
        DocumentTooLarge: it is too large when unpacked.
        EncryptedDocument: its members are encrypted.
        ExtractionFailed: its XML has a document type definition, or no root element that can be found. The standard
            forbids the definitions, and they are the means of attacks by entities.
        zipfile.BadZipFile: it is damaged.
    """
    max_bytes = memory_bytes // UNPACKED_SHARE
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        members = package.infolist()
        if sum(member.file_size for member in members) > max_bytes:
            raise DocumentTooLarge(f"The document has more than {max_bytes} bytes when unpacked")
        for member in members:
            if member.flag_bits & 1:
                raise EncryptedDocument("The document is encrypted; it can be read only with a password")
            _check_part(package, member)


def _check_part(package: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Check that a part has no document type definition.

    The libraries find parts by relations, whatever their names are, so that all are read. Images are no XML, or SVG,
    which may have a definition without declarations.

    Raises:
        ExtractionFailed: it has one, or is named as XML and is none.
        zipfile.BadZipFile: it is named as XML, and is damaged.
    """
    name = member.filename.lower()
    is_xml = name.endswith(_XML_NAMES)
    is_image = name.endswith(".svg") and "/media/" in name
    try:
        with package.open(member) as part:
            _find_root(part)
    except _Doctype as found:
        if is_xml or (found.has_declarations and not is_image):
            raise ExtractionFailed("The document's XML has a document type definition, which is not allowed") from None
    except expat.ExpatError:
        # Such as an image; or XML in an encoding of 32 bits, which the standard forbids and libxml2 reads.
        if is_xml:
            raise ExtractionFailed("The document is damaged: the XML of a part cannot be read") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
        # A text can be extracted beside a damaged image.
        if is_xml:
            raise


def _find_root(part: IO[bytes]) -> None:
    """Read a part up to its root element.

    Raises:
        ExpatError: it is no XML, or in an encoding that neither expat nor Python reads.
        ExtractionFailed: its root element is too far from the beginning.
        _Doctype: it has a document type definition.
    """
    parser = expat.ParserCreate()
    parser.StartElementHandler = _at_root
    parser.StartDoctypeDeclHandler = _at_doctype
    read = 0
    try:
        while piece := part.read(_PIECE):
            read += len(piece)
            parser.Parse(piece)
            if read > MAX_PROLOG_BYTES:
                raise ExtractionFailed(f"The document's XML has more than {MAX_PROLOG_BYTES} bytes before its content")
        if read:
            parser.Parse(b"", True)
    except _Root:
        return


def _at_root(name: str, attributes: dict[str, str]) -> NoReturn:
    raise _Root


def _at_doctype(name: str, system_id: str | None, public_id: str | None, has_declarations: bool) -> NoReturn:
    raise _Doctype(has_declarations)
