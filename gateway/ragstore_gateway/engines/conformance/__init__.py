"""The conformance suite of the engines, for pytest: every engine that passes it behaves as knowledge bases need.

    from ragstore_gateway.engines.conformance import Conformance, Target

    @pytest.fixture(scope="session")
    def target() -> Target:
        return Target("tea", {"port": 1234})

    class TestTea(Conformance): ...

The extra `conformance` installs pytest and pytest-asyncio. Nothing else of the gateway imports this package.
"""

from __future__ import annotations

import pytest

# Before the modules are imported: failed assertions then show their values.
for _module in ("filtering", "removal", "searching", "writing"):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")

from ragstore_gateway.engines.conformance.filtering import Filtering  # noqa: E402
from ragstore_gateway.engines.conformance.removal import Removal  # noqa: E402
from ragstore_gateway.engines.conformance.searching import Searching  # noqa: E402
from ragstore_gateway.engines.conformance.suite import Target  # noqa: E402
from ragstore_gateway.engines.conformance.writing import Writing  # noqa: E402


class Conformance(Writing, Searching, Filtering, Removal):
    """All tests of an engine, which is the fixture `target`, which the module of the subclass defines."""


__all__ = ["Conformance", "Target"]
