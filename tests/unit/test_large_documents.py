"""Large documents are decoded to what other documents are decoded to."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore.api.schemas import NewDocument
from ragstore.kit.decoding import JSON, MSGPACK
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.time_slices import run_whole
from ragstore.model.large_bodies import large_documents
from ragstore.model.large_bodies.large_documents import SLICE_BYTES, STEP_VALUES, decode_large
from ragstore.model.large_bodies.packed_text import PackedText

EMOJI: Final = "\N{SMILING FACE WITH OPEN MOUTH}"
ESCAPES: Final = [b"\\n", b"\\\\", b'\\"', b"\\u00e4", b"\\ud83d\\ude03", EMOJI.encode(), "ä".encode(), b"x", b"\\/"]


@given(st.lists(st.sampled_from(ESCAPES), min_size=1, max_size=5), st.integers(0, 12))
def test_a_text_of_json_is_decoded_in_slices_that_cut_neither_characters_nor_escapes(
    units: list[bytes], before: int
) -> None:
    unit = b"".join(units)
    content = b"y" * before + unit * (2 * SLICE_BYTES // len(unit))
    raw = b'{"text":"' + content + b'","embedding":[1]}'
    found = run_whole(decode_large(memoryview(raw), JSON, "body"))
    assert found is not None
    assert isinstance(found.text, PackedText)
    assert str(found.text) == msgspec.json.decode(raw, type=NewDocument).text


@pytest.mark.parametrize("format_", [JSON, MSGPACK])
@pytest.mark.parametrize("unit", ["x", "ä", EMOJI, f"xy{EMOJI}z"])
def test_all_fields_are_those_of_the_document(format_: str, unit: str) -> None:
    long = unit * SLICE_BYTES
    given = {
        "id": "a",
        "text": long,
        "embedding": [1.0, 2.5],
        "metadata": {"long": long, "list": [long, "short"], "n": 1, "x": 1.5, "b": True, "none": None, "text": unit},
    }
    raw = (msgspec.json if format_ == JSON else msgspec.msgpack).encode(given)
    found = run_whole(decode_large(memoryview(raw), format_, "body"))
    assert found is not None
    assert {"id": found.id, "text": found.text, "embedding": found.embedding, "metadata": found.metadata} == given
    assert isinstance(found.text, PackedText)


@pytest.mark.parametrize(
    "content",
    [b"\xff", b"\\ud83d", b"\\x", b"\x01", EMOJI.encode()[:2]],
    ids=["byte", "surrogate", "escape", "control", "cut"],
)
@pytest.mark.parametrize("at", [0, SLICE_BYTES - 1, 2 * SLICE_BYTES])
def test_a_malformed_text_is_not_decoded(content: bytes, at: int) -> None:
    text = b"x" * at + content + b"x" * (2 * SLICE_BYTES - at)
    with suppress(InvalidRequest):  # what msgspec notices when it skips the text
        assert run_whole(decode_large(memoryview(b'{"text":"' + text + b'","embedding":[1]}'), JSON, "body")) is None


@pytest.mark.parametrize("field", [b'"text":1', b'"text":"","metadata":{"a":{}}'])
def test_a_wrong_text_or_value_is_left_to_the_decoder_that_names_it(field: bytes) -> None:
    assert run_whole(decode_large(memoryview(b'{"embedding":[1],' + field + b"}"), JSON, "body")) is None


def test_another_wrong_field_is_named() -> None:
    with pytest.raises(InvalidRequest) as raised:
        run_whole(decode_large(memoryview(b'{"text":"","embedding":["a"]}'), JSON, "body"))
    assert raised.value.field_errors[0].path == "$.embedding[0]"


def test_texts_are_decoded_as_a_whole_only_if_they_are_short() -> None:
    assert large_documents.MAX_UNIT_BYTES < SLICE_BYTES < large_documents.LARGE_BYTES


def test_a_document_of_many_values_is_decoded_in_steps() -> None:
    metadata = {str(number): "a text" for number in range(3 * STEP_VALUES + 1)}
    raw = msgspec.json.encode({"text": "", "embedding": [1.0], "metadata": metadata})
    assert len(list(decode_large(memoryview(raw), JSON, "body"))) == 4
    decoded = run_whole(decode_large(memoryview(raw), JSON, "body"))
    assert decoded is not None
    assert decoded.metadata == metadata
