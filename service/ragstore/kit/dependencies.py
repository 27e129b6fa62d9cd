"""Litestar's dependencies, resolved one after the other.

Litestar 2.25 resolves independent dependencies in a task group, with a task for each. The dependencies of our services
are in memory and wait for nothing, so that the tasks are all they cost: a tenth of the processor time of a small
request, and two turns of the event loop.
"""

from __future__ import annotations

from litestar import Litestar
from litestar.routes import HTTPRoute


def resolve_in_turn(app: Litestar) -> None:
    """Resolve the dependencies of each route one after the other, ordered by name where Litestar has no order.

    Args:
        app: the application, with all of its routes.
    """
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for _, parameters in route.route_handler_map.values():
                batches = parameters.dependency_batches
                parameters.dependency_batches = [
                    {dependency} for batch in batches for dependency in sorted(batch, key=lambda each: each.key)
                ]
