"""Budgets of bytes for tests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from ragstore.kit.byte_budget import ByteBudget


def budget_of(max_bytes: int) -> ByteBudget:
    """A budget with a counter of its own."""
    return ByteBudget(max_bytes, 10.0, Counter("rejections", "Test.", ["reason"], registry=CollectorRegistry()))
