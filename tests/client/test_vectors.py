"""Vectors of every type are encoded as little-endian float32 in base64."""

from __future__ import annotations

import base64
import struct
import tracemalloc
from array import array
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore_client import Base64, InvalidInput, to_base64, to_float32

VALUES = [0.0, 1.0, -2.0, 3.5]
WRITTEN = base64.b64encode(struct.pack("<4f", *VALUES)).decode()


@pytest.mark.parametrize(
    "vector",
    [
        VALUES,
        tuple(VALUES),
        array("f", VALUES),
        array("d", VALUES),
        memoryview(array("f", VALUES)),
        np.array(VALUES, dtype="float32"),
        np.array(VALUES, dtype="float64"),
        np.array(VALUES, dtype="float16"),
        np.array(VALUES, dtype=">f4"),
        np.array([value for value in VALUES for _ in "xy"], dtype="float32")[::2],
        struct.pack("<4f", *VALUES),
        bytearray(struct.pack("<4f", *VALUES)),
        Base64(WRITTEN),
    ],
    ids=[
        "list",
        "tuple",
        "array of floats",
        "array of doubles",
        "memoryview",
        "numpy float32",
        "numpy float64",
        "numpy float16",
        "numpy big-endian",
        "numpy with strides",
        "bytes",
        "bytearray",
        "base64",
    ],
)
def test_every_type_of_vector_is_encoded_alike(vector: object) -> None:
    assert to_base64(vector) == WRITTEN  # type: ignore[arg-type]  # the parameters are what this is about
    assert to_float32(vector).tolist() == VALUES  # type: ignore[arg-type]


def test_whole_numbers_are_a_vector_too() -> None:
    written = base64.b64encode(struct.pack("<3f", 1, 2, 3)).decode()
    for vector in ([1, 2, 3], range(1, 4), np.array([1, 2, 3]), array("l", [1, 2, 3])):
        assert to_base64(vector) == written


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_float32_values_round_trip(values: list[float]) -> None:
    assert to_float32(to_base64(values)).tolist() == values


@pytest.mark.parametrize(
    "vector",
    [[], b"", b"abc", [[1.0]], ["one"], 5, None, np.zeros((2, 2)), np.zeros(0), np.array(["one"])],
    ids=["empty", "no bytes", "odd bytes", "nested", "words", "number", "None", "matrix", "empty array", "word array"],
)
def test_a_value_that_is_no_vector_is_rejected(vector: object) -> None:
    with pytest.raises(InvalidInput, match="embedding"):
        to_base64(vector)  # type: ignore[arg-type]  # the parameters are what this is about


def test_the_error_does_not_contain_the_values() -> None:
    with pytest.raises(InvalidInput) as caught:
        to_base64([1.25, "secret"])  # type: ignore[list-item]  # what this is about
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("make", [lambda values: memoryview(values), np.array], ids=["memoryview", "numpy"])
def test_float32_values_are_not_made_into_python_floats(make: Callable[[array[float]], memoryview]) -> None:
    count = 200_000
    vector = make(array("f", bytes(4 * count)))
    tracemalloc.start()
    try:
        encoded = to_base64(vector)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # base64 as bytes, as str and as Base64 takes 16 bytes a value, a copy 4; a float in a tuple would take 32 more.
    assert peak_bytes < 24 * count
    assert len(encoded) > 5 * count
