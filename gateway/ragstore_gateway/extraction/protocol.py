"""The messages between the gateway and a process that extracts texts.

A message is a frame: its length in eight bytes, then its content. The gateway sends a `Request` and the document. The
process sends the format that it recognised, and then the text or the error. Messages are MessagePack of structs: a
process that a hostile document has taken over can send nothing that the gateway executes, unlike with pickle, which
`multiprocessing` and `anyio.to_process` use.
"""

from __future__ import annotations

import struct
from typing import Final, Literal, TypeAlias

import msgspec

from ragstore_gateway.extraction.extracted import Extracted, PageLinks

Output: TypeAlias = Literal["text", "markdown", "html"]

LENGTH: Final = struct.Struct(">Q")
READY: Final = b"ready"
"""The first frame of a process: it waits for a request."""

MAX_FORMAT_BYTES: Final = 64


class Request(msgspec.Struct, frozen=True):
    """A document to extract the text of. The document itself is the next frame.

    Attributes:
        media_type: its declared media type, if known.
        name: its file name, if known.
        output: the form of the text, for formats with markup.
        url: the URL that it came from, if known.
        max_characters: maximum number of characters of its text.
        timeout_seconds: the gateway's time limit.
        links: whether the links of an HTML page are read, too.
        kept: whether it is an extracted text that was exported; see `kept_text`.
    """

    media_type: str
    name: str
    output: Output
    url: str
    max_characters: int
    timeout_seconds: float
    links: bool = False
    kept: bool = False


class Success(msgspec.Struct, frozen=True, tag="success"):
    """The text of a document.

    Attributes:
        extracted: the text.
        links: the links of an HTML page, if they were requested.
    """

    extracted: Extracted
    links: PageLinks | None = None


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """A document's text cannot be extracted.

    Attributes:
        code: the code of the error.
        detail: one sentence for the caller, without content.
        exhausted: whether the process is of no further use: it has used up its memory, or has ended.
    """

    code: str
    detail: str
    exhausted: bool = False


Response: TypeAlias = Success | Failure


def max_response_bytes(max_characters: int) -> int:
    """The maximum size of a response: its text and its headings, with up to four bytes a character, and the pages.

    Args:
        max_characters: maximum number of characters of a text.
    """
    return 8 * max_characters + 16 * 1024 * 1024
