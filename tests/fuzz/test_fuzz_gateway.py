"""Schemathesis over the gateway."""

from __future__ import annotations

from tests.fuzz.bounded_run import assert_nothing_is_found


def test_schemathesis_finds_nothing() -> None:
    assert_nothing_is_found("gateway", examples=1)
