"""Dependencies are resolved without a task for each."""

from __future__ import annotations

from litestar import Litestar
from litestar.routes import HTTPRoute

from ragstore.app import create_litestar
from ragstore.settings import Settings


def resolution_steps(app: Litestar) -> list[list[str]]:
    """The names that Litestar resolves together, of all handlers."""
    return [
        [dependency.key for dependency in batch]
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for _, parameters in route.route_handler_map.values()
        for batch in parameters.dependency_batches
    ]


def test_no_route_of_the_store_resolves_dependencies_in_a_task_group() -> None:
    steps = resolution_steps(create_litestar(Settings()))
    assert ["collection"] in steps
    assert [step for step in steps if len(step) > 1] == []
