"""Responses of a gateway with one knowledge base, for commands."""

from __future__ import annotations

from aiohttp import web

from tests.support.fake_providers import Received, json_response

_RESOURCE = "/ragstore/rags/1?version=1"


def found_base(received: Received, name: str) -> web.Response | None:
    """The response to a request that looks the base up; None for another request.

    Args:
        name: the name of the base.
    """
    path = received.path.partition("?")[0]
    if path.endswith("/descriptors"):
        return json_response([{"resource": _RESOURCE, "name": name, "description": ""}])
    if path == "/ragstore/rags/1":
        return json_response({}, headers={"X-Resource-URI": _RESOURCE})
    return None
