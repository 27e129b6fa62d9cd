"""The values of a body are counted in steps, with the same result as in one."""

from __future__ import annotations

import json
import random

import pytest

from ragstore.kit import value_count
from ragstore.kit.decoding import JSON
from ragstore.kit.time_slices import run_whole
from ragstore.kit.value_count import STEP_BYTES, has_too_many_values, too_many_json_values


def random_value(numbers: random.Random, depth: int = 0) -> object:
    choice = numbers.random()
    if depth > 3 or choice < 0.4:
        return numbers.choice([1, None, "a,b[{", '\\"x,', "q\\\\", "\\" * numbers.randrange(9)])
    if choice < 0.7:
        return [random_value(numbers, depth + 1) for _ in range(numbers.randrange(4))]
    return {f'{index}"\\': random_value(numbers, depth + 1) for index in range(numbers.randrange(4))}


def test_steps_of_any_size_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random.Random(1)
    for step in (2, 7, 64):
        monkeypatch.setattr(value_count, "STEP_BYTES", step)
        for _ in range(300):
            body = json.dumps([random_value(numbers) for _ in range(6)]).encode()
            for limit in (3, 10, 20, 40):
                assert run_whole(too_many_json_values(body, limit)) == has_too_many_values(body, JSON, limit), body


def test_a_large_body_is_counted_in_many_steps() -> None:
    body = b'["' + b"x," * 10 * STEP_BYTES + b'"]'
    assert sum(1 for _ in too_many_json_values(body)) == len(body) // STEP_BYTES + 1
