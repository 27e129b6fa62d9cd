"""A line of an export that is nested too deeply for Python is damage like any other."""

from __future__ import annotations

import io

import pytest

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.failures import NotVerified
from ragstore.transfer.format import Checksum, ExportReader
from tests.support.nested import NESTED

HEADER = Checksum().header(CountedCollection("a", {}, 1, 2, "l2"))


def test_a_first_line_is_not_an_export() -> None:
    with pytest.raises(NotVerified, match="not an export of ragstore"):
        ExportReader(io.BytesIO(NESTED))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (NESTED, "line 2 is not a valid document"),
        (b'{"id":"a","text":"b","metadata":{"c":' + NESTED.strip() + b"}}\n", "line 2 is not a valid document"),
        (b'{"count":' + NESTED.strip() + b"}\n", "line 2 is not a valid trailer"),
    ],
)
def test_a_later_line_is_damaged(line: bytes, message: str) -> None:
    reader = ExportReader(io.BytesIO(HEADER + line))
    with pytest.raises(NotVerified, match=message):
        list(reader.documents())
