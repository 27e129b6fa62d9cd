"""The type and the encoding of a body, by its header and by its bytes."""

from __future__ import annotations

import re
from typing import Final

from ragstore_gateway.extraction.charset_names import CHARSETS

SNIFFED: Final = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})
"""Types that servers send for files that they do not know."""

HEAD_BYTES: Final = 4096
"""Beginning of a document in which it may name its encoding."""

MAGIC: Final = (
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-elf"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
)
"""Types of files by their first bytes."""

_BYTE_ORDER_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))

FALLBACK: Final = "cp1252"
"""The encoding of a page that names none and is not UTF-8, as in browsers."""

# Atomic groups: without them, backtracking over comments is exponential.
_HTML: Final = re.compile(
    rb"(?>\s|<!--.{0,2000}?-->|<\?xml[^>]{0,200}\?>)*+<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_XML: Final = re.compile(rb"\s*<\?xml\b", re.I)
_META: Final = re.compile(rb"<meta\b[^>]{0,500}?\bcharset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.I)
_DECLARATION: Final = re.compile(rb"\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})", re.I)
_PARAMETER: Final = re.compile(r";\s*charset\s*=\s*\"?\s*([A-Za-z0-9_.:-]{1,40})", re.I)
_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,80}")

_TEXT_TYPES: Final = ("application/json", "application/xml", "application/xhtml+xml", "application/javascript")


def content_type(header: str, body: bytes) -> tuple[str, str]:
    """The type and the encoding of a body.

    Args:
        header: the `Content-Type`; empty when it is missing.

    Returns:
        The type in lower case without parameters, and Python's name of the encoding; that is empty if the body is no
        text. Both are empty for an empty body.
    """
    if not body:
        return "", ""
    media_type = _media_type(header, body)
    return media_type, _charset(header, body) if is_text(media_type) else ""


def is_text(media_type: str) -> bool:
    """Whether a type is one of text."""
    return media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(("+xml", "+json"))


def _media_type(header: str, body: bytes) -> str:
    declared = header.partition(";")[0].strip().lower()
    if not _TYPE.fullmatch(declared):
        declared = ""
    found = next((kind for magic, kind in MAGIC if body.startswith(magic)), "")
    if found:
        # Files of offices are zip files; their type says more than their bytes.
        return found if declared in SNIFFED or is_text(declared) or found == "application/pdf" else declared
    if declared not in SNIFFED:
        return declared
    head = body[:HEAD_BYTES]
    for mark, charset in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            head = head.removeprefix(mark).decode(charset, "replace").encode()
            return "text/html" if _HTML.match(head) else "text/plain"
    if _HTML.match(head):
        return "text/html"
    if _XML.match(head):
        return "application/xml"
    return "application/octet-stream" if b"\0" in head or not _is_utf8(body) else "text/plain"


def _charset(header: str, body: bytes) -> str:
    for mark, charset in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return charset
    head = body[:HEAD_BYTES]
    named = _known(_PARAMETER.search(header))
    if not named and (within := _known(_META.search(head)) or _known(_DECLARATION.match(head))):
        # The name itself was readable as ASCII, so that it is not UTF-16.
        named = "utf-8" if within.startswith("utf-16") else within
    return named or ("utf-8" if _is_utf8(body) else FALLBACK)


def _known(found: re.Match[str] | re.Match[bytes] | None) -> str:
    if found is None:
        return ""
    name = found[1] if isinstance(found[1], str) else found[1].decode("ascii")
    return CHARSETS.get(name.lower(), "")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
