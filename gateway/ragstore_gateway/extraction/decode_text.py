"""Decodes texts whose charset is not known for certain."""

from __future__ import annotations

import codecs
import re
from typing import Final

from charset_normalizer import from_bytes

from ragstore_gateway.extraction.charset_names import CHARSETS

SAMPLE_BYTES: Final = 64 * 1024
"""The first bytes of a text, from which its charset is guessed."""

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META: Final = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_PARAMETER: Final = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)

MAX_CONTROL_SHARE: Final = 0.1
"""A content with more control characters is not text."""

MAX_INVALID_SHARE: Final = 0.1
"""UTF-8 with some invalid sequences is still UTF-8 if they are fewer than this share of its non-ASCII characters."""


def decode(content: bytes, media_type: str = "") -> str:
    """Decode a text: by its byte order mark, as UTF-8, as declared, or by its content.

    Args:
        content: the bytes of the text.
        media_type: the declared media type, which may have a `charset`.

    Returns:
        The text. Bytes that are invalid in its charset are U+FFFD.
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(name, "replace")
    if name := _wide(content):
        return content.decode(name, "replace")
    try:
        return content.decode()
    except UnicodeDecodeError:
        pass
    text = content.decode("utf-8", "replace")
    invalid = text.count("\ufffd")
    if invalid <= MAX_INVALID_SHARE * (len(text) - len(text.encode("ascii", "ignore"))):
        return text
    for name in _declared(content, media_type):
        return content.decode(name, "replace")
    guess = from_bytes(content[:SAMPLE_BYTES]).best()
    return content.decode(guess.encoding if guess else "cp1252", "replace")


def is_binary(content: bytes) -> bool:
    """Whether a content is not a text in any charset."""
    sample = content[:SAMPLE_BYTES]
    if sample.startswith(tuple(mark for mark, _ in _BYTE_ORDER_MARKS)) or _wide(sample):
        return False
    controls = sample.translate(None, bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n\r\x0c\x1b"))
    return len(controls) > MAX_CONTROL_SHARE * len(sample)


def _wide(content: bytes) -> str:
    """UTF-16 without a byte order mark, by the zero bytes of its ASCII characters; empty for anything else."""
    sample = content[:4096]
    half = len(sample) // 2
    if half < 2 or len(content) % 2:
        return ""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd > 0.4 * half and even < 0.05 * half:
        return "utf-16-le"
    if even > 0.4 * half and odd < 0.05 * half:
        return "utf-16-be"
    return ""


def _declared(content: bytes, media_type: str) -> list[str]:
    """The charsets that the media type and an HTML page declare, without charsets that no page may name.

    A text that is not UTF-8 is not of the charset that it declares as such.
    """
    declared = [found[1] for found in [_PARAMETER.search(media_type)] if found]
    declared += [found[1].decode("ascii") for found in [_META.search(content[:4096])] if found]
    codecs_ = (CHARSETS.get(name.lower(), "utf-8") for name in declared)
    return [codec for codec in codecs_ if codec != "utf-8"]
