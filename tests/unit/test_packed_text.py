"""Packed texts are the texts that they were made of."""

from __future__ import annotations

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore.chroma.http.bodies import ENCODER
from ragstore.model.large_bodies.packed_metadata import (
    VALUE_BYTES,
    PackedMetadata,
    PackedScalar,
    pack_metadata,
    size_of_metadata,
)
from ragstore.model.large_bodies.packed_text import PackedText, pack_text, utf8

WIDE = "x" * 100 + "\N{SMILING FACE WITH OPEN MOUTH}"


def packed(text: str) -> PackedText:
    return PackedText.join([text])


@pytest.mark.parametrize("text", ["x" * 1000, "ä" * 1000, "\u4e2d" * 1000, "\N{SMILING FACE WITH OPEN MOUTH}", ""])
def test_a_text_that_would_not_become_smaller_is_not_packed(text: str) -> None:
    assert pack_text(text) is text


def test_a_text_of_four_bytes_a_character_is_packed() -> None:
    text = pack_text(WIDE)
    assert isinstance(text, PackedText)
    assert (str(text), len(text), utf8(text)) == (WIDE, len(WIDE), WIDE.encode())


@given(st.text())
def test_a_packed_text_is_pickled_and_encoded_as_the_text(text: str) -> None:
    assert pickle.loads(pickle.dumps(packed(text))) == text  # from the line itself
    assert msgspec.json.decode(ENCODER.encode(packed(text))) == text
    assert packed(text) == text
    assert hash(packed(text)) == hash(text)


@given(st.text(), st.integers(4, 9))
def test_the_slices_of_a_packed_text_cut_no_character(text: str, size: int) -> None:
    slices = list(packed(text).slices(size))
    assert "".join(slices) == text
    assert all(len(each.encode()) <= size for each in slices)


def test_texts_of_metadata_and_of_its_lists_are_packed() -> None:
    texts: list[PackedScalar] = [WIDE, "short"]
    numbers: list[PackedScalar] = [1.5]
    metadata: PackedMetadata = {"a": WIDE, "b": texts, "c": 1, "d": numbers}
    found = pack_metadata(metadata)
    assert found == metadata
    assert isinstance(found["a"], PackedText)
    assert isinstance(found["b"], list)
    assert isinstance(found["b"][0], PackedText)
    assert size_of_metadata(found) == size_of_metadata(metadata) == 2 * len(WIDE) + len("short") + 7 * VALUE_BYTES
