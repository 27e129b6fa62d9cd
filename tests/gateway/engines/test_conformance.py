"""Each engine passes the conformance suite."""

from __future__ import annotations

from ragstore_gateway.engines.conformance import Conformance


class TestConformance(Conformance):
    """The fixture `target` of conftest.py has the engines."""
