"""Checks of office files, which are ZIP packages of XML, before a library opens them."""

from __future__ import annotations

import io
import zipfile
from typing import Final

from ragstore_gateway.errors import DocumentTooLarge, EncryptedDocument, ExtractionFailed

UNPACKED_SHARE: Final = 4
"""The libraries need up to four times the size of the XML in memory."""

_DOCTYPE: Final = (b"<!DOCTYPE", "<!DOCTYPE".encode("utf-16-le"), "<!DOCTYPE".encode("utf-16-be"))
_HEAD_BYTES: Final = 64 * 1024


def check_package(content: bytes, memory_bytes: int) -> None:
    """Check an office file.

    The sizes in its directory are binding: `zipfile` reads no more of a member than its declared size.

    Args:
        content: the file.
        memory_bytes: the memory of this process.

    Raises:
        DocumentTooLarge: it is too large when unpacked.
        EncryptedDocument: its members are encrypted.
        ExtractionFailed: its XML has a document type definition. The standard forbids them, and they are the means of
            attacks by entities.
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
            if member.filename.lower().endswith((".xml", ".rels")):
                with package.open(member) as part:
                    head = part.read(_HEAD_BYTES)
                if any(doctype in head for doctype in _DOCTYPE):
                    raise ExtractionFailed("The document's XML has a document type definition, which is not allowed")
