"""Reads what the service counted."""

from __future__ import annotations

import re

import httpx


def samples(http: httpx.Client) -> dict[str, float]:
    """All samples by their names with labels."""
    return samples_of(http.get("/metrics").text)


def samples_of(text: str) -> dict[str, float]:
    """All samples of a response of `/metrics`."""
    return {
        name: float(value)
        for name, value in re.findall(r"^(ragstore_\w+(?:\{.*\})?) ([\d.e+-]+)$", text, flags=re.MULTILINE)
    }


def grown(before: dict[str, float], after: dict[str, float], name: str) -> float:
    """How much one sample grew."""
    return after.get(name, 0.0) - before.get(name, 0.0)
