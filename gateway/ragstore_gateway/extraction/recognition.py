"""Recognises the format of a document: by its content, then its declared media type, then its name."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import PurePath
from typing import Final

from ragstore.kit.errors import UnsupportedMediaType
from ragstore_gateway.errors import EncryptedDocument, ExtractionFailed
from ragstore_gateway.extraction.decode_text import is_binary
from ragstore_gateway.extraction.formats import DECLARATIONS, EXTENSIONS, Format

_DECLARED: Final = {
    media_type: each.name for each in DECLARATIONS.values() for media_type in (each.media_type, *each.further_types)
}

_UNSUPPORTED: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"BM\x00", "an image"),
    (b"II*\x00", "an image"),
    (b"MM\x00*", "an image"),
    (b"RIFF", "an image, a sound or a video"),
    (b"ID3", "a sound"),
    (b"OggS", "a sound or a video"),
    (b"\x1f\x8b", "compressed"),
    (b"BZh", "compressed"),
    (b"\xfd7zXZ\x00", "compressed"),
    (b"\x28\xb5\x2f\xfd", "compressed"),
    (b"7z\xbc\xaf\x27\x1c", "an archive"),
    (b"Rar!", "an archive"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"{\\rtf", "an RTF file"),
    (b"%!PS", "a PostScript file"),
    (b"SQLite format 3\x00", "a database"),
)
_DOCUMENT_TYPES: Final = {each.folder: each.name for each in DECLARATIONS.values() if each.folder}

_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The stream of an encrypted office file, in the directory of its OLE container.
_ENCRYPTED_PACKAGE: Final = "EncryptedPackage".encode("utf-16-le")
_PDF_WITHIN: Final = 1024
"""Readers accept a PDF header within the first 1,024 bytes."""

_DIRECTORY_ENTRY: Final = b"PK\x01\x02"

MAX_PACKAGE_ENTRIES: Final = 20_000
"""Maximum number of entries in the directory of a ZIP container. Python 3.11 reads 500,000 of them, 25 MB, in 9 s and
180 MiB; office files have some hundred."""

# Atomic groups: without them, backtracking over comments is exponential.
_HTML: Final = re.compile(
    rb"\s*+(?:<\?xml[^>]{0,200}\?>\s*+)?(?><!--.{0,1000}?-->\s*+)*+<(?:!doctype\s+html|html|head|body)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_HTML_FRAGMENT: Final = re.compile(
    rb"\s*<(?:article|section|div|table|h[1-6]|p|ul|ol|main|script|style|title|iframe|a|br|font)[\s>/]", re.IGNORECASE
)


def recognise(content: bytes, media_type: str = "", name: str = "") -> Format:
    """The format of a document.

    Args:
        content: the document.
        media_type: the declared media type, if known.
        name: the file name, if known.

    Raises:
        EncryptedDocument: it is an encrypted office file.
        ExtractionFailed: it is declared as a binary format, and its content is not of that format.
        UnsupportedMediaType: no text can be extracted from its format.
    """
    if found := _binary_format(content):
        return found
    declared = declared_format(media_type, name)
    if declared is not None and DECLARATIONS[declared].is_binary:
        raise ExtractionFailed(f"The content is not that of a {DECLARATIONS[declared].title} file")
    if is_binary(content):
        raise UnsupportedMediaType("No text can be extracted from binary content of this type")
    start = content[:4096].lstrip(b"\xef\xbb\xbf")
    if declared in (None, "text", "html") and _HTML.match(start):
        return "html"
    if declared is None:
        return "html" if _HTML_FRAGMENT.match(start) else "text"
    return declared


def declared_format(media_type: str, name: str) -> Format | None:
    """The format that a media type, or else a file name, stands for.

    Args:
        media_type: the media type, possibly with parameters.
        name: the file name.

    Returns:
        The format; None if neither names one that is known.

    Raises:
        UnsupportedMediaType: the media type is an image, a sound or a video.
    """
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type.startswith(("image/", "audio/", "video/", "font/")):
        raise UnsupportedMediaType("No text can be extracted from images, sounds, videos or fonts")
    if found := _DECLARED.get(media_type):
        return found
    extension = PurePath(name).suffix.lower()
    return EXTENSIONS.get(extension) or ("text" if media_type.startswith("text/") else None)


def _binary_format(content: bytes) -> Format | None:
    """The format that the first bytes of a content identify."""
    if content.startswith(_OLE):
        if _ENCRYPTED_PACKAGE in content:
            raise EncryptedDocument("The document is encrypted; it can be read only with a password")
        raise UnsupportedMediaType("Files of Word, Excel and PowerPoint 97-2003 are not supported")
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return _package_format(content)
    for start, what in _UNSUPPORTED:
        if content.startswith(start):
            raise UnsupportedMediaType(f"No text can be extracted from this type: the document is {what}")
    if b"%PDF-" in content[:_PDF_WITHIN] and not _HTML.match(content[:_PDF_WITHIN]):
        return "pdf"
    return None


def _package_format(content: bytes) -> Format:
    # Counted by the mark that each entry begins with: what the directory says about itself may be wrong.
    if content.count(_DIRECTORY_ENTRY) > MAX_PACKAGE_ENTRIES:
        raise ExtractionFailed(f"The document's ZIP container has more than {MAX_PACKAGE_ENTRIES} entries")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            names = package.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        raise ExtractionFailed("The document is damaged: its ZIP container cannot be read") from None
    if "mimetype" in names:
        raise UnsupportedMediaType("OpenDocument and EPUB files are not supported")
    if "xl/workbook.bin" in names:
        raise UnsupportedMediaType("XLSB files are not supported; save the workbook as XLSX")
    if "[Content_Types].xml" in names:
        for folder, found in _DOCUMENT_TYPES.items():
            if any(name.startswith(folder) for name in names):
                return found
    raise UnsupportedMediaType("No text can be extracted from this type: the document is an archive")
