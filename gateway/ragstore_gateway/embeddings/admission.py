"""Checks requests for embeddings, and reserves memory for their responses, before the work begins."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Final

from ragstore.kit.byte_budget import reserve
from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.embeddings.schemas import NOT_BLANK

MAX_UNSCANNED_BYTES: Final = 65_536
"""Size of a body up to which it is decoded without a scan: at most 22,000 lists, 15 ms."""

MAX_BODY_VALUES: Final = 10_000
"""Maximum number of values of a larger body. 60 MiB of texts of one character took 1.7 s and 1 GiB to decode."""

STEP_BYTES: Final = 262_144
"""Number of bytes or characters that are scanned in one step: about 0.5 ms."""

LONGEST_ESCAPE: Final = 6
"""Maximum number of bytes of JSON for a byte of a text: `\\u0041`."""

ASSUMED_DIMENSION: Final = 4_096
"""Dimension that is assumed until a provider has returned a vector: few models have more."""

MATRIX_BYTES: Final = 16
"""Bytes of a component before it is encoded: four matrices of float32, namely as computed, for the cache, in the order
of the texts, and normalized."""

JSON_BYTES: Final = 2 * 22
"""Bytes of a component as JSON: up to 22 characters, in the parts of the body and in the body, or in the body and in
the connection's buffer."""

BASE64_BYTES: Final = 2 * 6
"""The same for base64: 5.4 characters, with the quotes."""

ROW_BYTES: Final = 512
"""Bytes of a vector beyond its components: arrays, keys, and the names of fields in JSON."""

_TOKEN: Final = re.compile(rb'[",\[{]')
_CHARACTERS: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_QUOTE: Final = ord('"')
_not_blank: Final = re.compile(NOT_BLANK).search


def scanned(content: bytes, path: str, longest: int, hint: str = "") -> Generator[None, None, None]:
    """Check a body before it is decoded, in steps: its number of values, and the length of its texts.

    Args:
        content: the body. It need not be valid.
        path: the JSON path of the texts.
        longest: maximum size of a text, as UTF-8.
        hint: why there may be too many values.

    Raises:
        InvalidRequest: it has too many values, or a text that is far too long. Other texts are checked exactly when
            they are decoded.
    """
    if len(content) <= MAX_UNSCANNED_BYTES:
        return
    at = values = 0
    while at < len(content):
        token = _TOKEN.search(content, at, at + STEP_BYTES)
        if token is None:
            at += STEP_BYTES
        elif content[token.start()] == _QUOTE:
            at = yield from _end_of_text(content, token.end(), path, longest)
        else:
            at = token.end()
            values += 1
            if values > MAX_BODY_VALUES:
                raise InvalidRequest.at(path, f"Must not have more than {MAX_BODY_VALUES} values{hint}")
        yield


def _end_of_text(content: bytes, start: int, path: str, longest: int) -> Generator[None, None, int]:
    """The index behind a text that begins behind its quote."""
    at = start
    while at < len(content):
        found = _CHARACTERS.match(content, at, at + STEP_BYTES)
        end = at if found is None else found.end()
        if end - start > longest * LONGEST_ESCAPE:
            raise InvalidRequest.at(path, f"A text must have at most {longest} bytes")
        if content[end : end + 1] == b'"':
            return end + 1
        # The step ends within the text: behind a character, or behind the backslash of an escape.
        at = end + 2 if content[end : end + 1] == b"\\" else end
        yield
    return at


def checked(texts: Sequence[str], path: str, max_texts: int, longest: int) -> Generator[None, None, None]:
    """Check texts, in steps: first their number and lengths, and then their content.

    Args:
        path: their JSON path.
        max_texts: maximum number of texts.
        longest: maximum size of a text, as UTF-8.

    Raises:
        InvalidRequest: one is blank or too long, or there are none or too many.
    """
    if not texts:
        raise InvalidRequest.at(path, "Must have at least one text")
    if len(texts) > max_texts:
        raise InvalidRequest.at(path, f"Must have at most {max_texts} texts")
    for index, text in enumerate(texts):
        if len(text) > longest:
            raise InvalidRequest.at(f"{path}[{index}]", f"Must have at most {longest} bytes")
    characters = 0
    for index, text in enumerate(texts):
        characters += len(text)
        if characters > STEP_BYTES:
            characters = 0
            yield
        # A character takes at most four bytes, so that most texts need not be encoded to be measured.
        if len(text) * 4 > longest and len(text.encode("utf-8", "surrogatepass")) > longest:
            raise InvalidRequest.at(f"{path}[{index}]", f"Must have at most {longest} bytes")
        if (yield from _is_blank(text)):
            raise InvalidRequest.at(f"{path}[{index}]", "Must not be empty")


def _is_blank(text: str) -> Generator[None, None, bool]:
    for start in range(0, len(text), STEP_BYTES):
        if _not_blank(text, start, start + STEP_BYTES):
            return False
        yield
    return True


async def reserve_response(texts: int, dimension: int | None, encoding_format: str) -> int:
    """Reserve memory for vectors and for the response that has them; see `ragstore.kit.byte_budget.reserve`.

    Args:
        texts: number of texts. Repeated ones count, since their vectors are repeated, too.
        dimension: number of components; None if it is not known.
        encoding_format: `float` or `base64`.

    Returns:
        The number of bytes.

    Raises:
        Overloaded: there was no room in time.
    """
    encoded = BASE64_BYTES if encoding_format == "base64" else JSON_BYTES
    size = texts * ((dimension or ASSUMED_DIMENSION) * (MATRIX_BYTES + encoded) + ROW_BYTES)
    await reserve(size)
    return size
