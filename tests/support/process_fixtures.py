"""The declaration of a fixture that starts a process, where the fixture is defined.

    @pytest.fixture(scope="session")
    @starts_process
    def chroma() -> Iterator[Served]: ...

Fixtures that have it as a parameter inherit the declaration. `tests.support.fast_tier` reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

FixtureFunction = TypeVar("FixtureFunction", bound=Callable[..., object])


def starts_process(function: FixtureFunction) -> FixtureFunction:
    """Declare that a fixture starts a process. Stands below `@pytest.fixture`.

    A fixture that requests such a fixture with `request.getfixturevalue` needs it, too: pytest learns of that only
    while the fixture is set up.
    """
    function.__dict__["starts_process"] = True
    return function


def is_declared(definition: pytest.FixtureDef[object]) -> bool:
    """Whether a fixture declares that it starts a process."""
    return getattr(definition.func, "starts_process", False)
