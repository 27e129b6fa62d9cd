"""Schemathesis over the embedded store. A file for each store, so that they can run at the same time."""

from __future__ import annotations

from tests.fuzz.bounded_run import assert_nothing_is_found


def test_schemathesis_finds_nothing() -> None:
    assert_nothing_is_found("embedded", examples=3)
