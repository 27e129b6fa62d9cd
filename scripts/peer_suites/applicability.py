"""Skips tests of the suites that do not apply to the gateway."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import pytest


class NotApplicable(NamedTuple):
    """Tests that do not apply.

    Attributes:
        pattern: a regular expression that is searched for in their ids; empty for all tests.
        reason: why they do not apply, for the list of skipped tests.
        fixture: a fixture that they use; empty for any.
    """

    pattern: str
    reason: str
    fixture: str = ""

    def includes(self, request: pytest.FixtureRequest) -> bool:
        """Whether the test of a request is one of them."""
        if self.fixture and self.fixture not in request.fixturenames:
            return False
        return re.search(self.pattern, request.node.nodeid) is not None


def skip_not_applicable(request: pytest.FixtureRequest, groups: Iterable[NotApplicable]) -> None:
    """Skip the test of a request if one of the groups includes it."""
    for group in groups:
        if group.includes(request):
            pytest.skip(group.reason)
