"""JSON that Python cannot decode."""

from __future__ import annotations

from typing import Final

NESTED: Final = b"[" * 100_000 + b"]" * 100_000 + b"\n"
"""A line of a list in a list, and so on."""
