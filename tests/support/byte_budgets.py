"""Budgets of bytes for tests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from ragstore.kit.byte_budget import ByteBudget


def budget_of(max_bytes: int) -> ByteBudget:
    """A budget whose refusals are counted for itself."""
    return ByteBudget(max_bytes, 10.0, Counter("refusals", "Test.", ["reason"], registry=CollectorRegistry()))
