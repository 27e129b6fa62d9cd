"""Whether what a command printed is what a page shows.

JSON is compared as JSON, with numbers as float32 keeps them. Values that differ from run to run are normalised: times,
versions, generated ids, keys and sizes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from email.parser import Parser
from typing import Any, Final

import pytest

from tests.support.pages import Block

VOLATILE: Final = ("timestamp", "version", "chroma_version", "storage_bytes")
"""Fields whose values differ from run to run; what is shown must be of the same type."""

_ALIKE: Final = (
    (re.compile(r"rsk_[\w-]{43}"), "rsk_KEY"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "REQUEST"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"dur=[\d.]+"), "dur=TIME"),
    (re.compile(r"[ \t]+$", flags=re.MULTILINE), ""),
)


def check_answer(shown: Block, printed: str) -> None:
    """Fail unless what was printed is what a block shows.

    Args:
        shown: the block.
        printed: what its command printed.
    """
    if shown.language == "json":
        assert list(values(printed)) == [approximately(value) for value in values(shown.code)], shown.place
    elif shown.language == "http":
        _check_http(shown, printed)
    else:
        assert _alike(printed).strip() == _alike(shown.code).strip(), shown.place


def _check_http(shown: Block, printed: str) -> None:
    """The status and the body must be alike, and so must each header that is shown."""
    wanted_head, _, wanted_body = shown.code.partition("\n\n")
    head, _, body = printed.replace("\r\n", "\n").partition("\n\n")
    (wanted_status, _, wanted_lines), (status, _, lines) = wanted_head.partition("\n"), head.partition("\n")
    assert status == wanted_status, shown.place
    headers = Parser().parsestr(lines)
    for name, value in Parser().parsestr(wanted_lines).items():
        assert _alike(headers.get(name, "")) == _alike(value), f"{shown.place}: {name}"
    if wanted_body.strip():
        assert list(values(body)) == [approximately(value) for value in values(wanted_body)], shown.place


def values(text: str) -> Iterator[object]:
    """The JSON values that stand one after the other in a text.

    Yields:
        Each; what differs from run to run is its type alone.
    """
    return map(_typed, exact_values(text))


def exact_values(text: str) -> Iterator[Any]:
    """The JSON values that stand one after the other in a text."""
    rest = text.strip()
    while rest:
        value, end = json.JSONDecoder().raw_decode(rest)
        yield value
        rest = rest[end:].lstrip()


def _typed(value: object) -> object:
    """A value, with the type alone of what differs from run to run."""
    if isinstance(value, dict):
        return {key: type(item) if key in VOLATILE else _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return _alike(value) if isinstance(value, str) else value


def approximately(value: object) -> object:
    """The same value, with its numbers as float32 keeps them."""
    if isinstance(value, dict):
        return {key: approximately(item) for key, item in value.items()}
    if isinstance(value, list):
        return [approximately(item) for item in value]
    return pytest.approx(value, rel=1e-5, abs=1e-6) if isinstance(value, float) else value


def _alike(text: str) -> str:
    for pattern, name in _ALIKE:
        text = pattern.sub(name, text)
    return text
