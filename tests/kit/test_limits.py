"""The time budget of a request, which a route may change."""

from __future__ import annotations

import asyncio
import threading

from litestar.types import HTTPReceiveMessage, Message, Receive, Scope, Send
from prometheus_client import CollectorRegistry, Counter

from ragstore.kit.context import renew_deadline
from ragstore.kit.errors import Overloaded
from ragstore.kit.middleware.limits import LimitsMiddleware
from ragstore.kit.middleware.request_context import RequestContextMiddleware

SCOPE: dict[str, object] = {
    "type": "http",
    "method": "GET",
    "path": "/tea",
    "headers": [],
    "query_string": b"",
}
BUDGET = 0.05


async def _nothing() -> HTTPReceiveMessage:
    return {"type": "http.request", "body": b"", "more_body": False}


async def statuses(route: object, wrap: bool = False) -> tuple[list[int], bytes, list[tuple[bytes, bytes]]]:
    """Call a route within the limits, and return the statuses, the body and the headers."""
    limited: object = LimitsMiddleware(
        route,  # type: ignore[arg-type]  # a function of this test
        max_requests=1,
        timeout_seconds=BUDGET,
        stopping=threading.Event(),
        timeout_error=Overloaded("late"),
        rejections=Counter("r", "d", ["reason"], registry=CollectorRegistry()),
    )
    app = RequestContextMiddleware(limited) if wrap else limited  # type: ignore[arg-type]
    found: list[int] = []
    body = b""
    headers: list[tuple[bytes, bytes]] = []

    async def send(message: Message) -> None:
        nonlocal body, headers
        if message["type"] == "http.response.start":
            found.append(message["status"])
            headers = list(message["headers"])
        elif message["type"] == "http.response.body":
            body += message["body"]

    await app(dict(SCOPE), _nothing, send)  # type: ignore[operator]
    return found, body, headers


async def _respond(send: Send, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers or []})
    await send({"type": "http.response.body", "body": b"a", "more_body": True})


async def test_a_route_that_exceeds_the_budget_is_ended() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(5)

    assert (await statuses(slow))[0] == [503]


async def test_a_route_may_set_a_longer_budget_for_its_first_byte_and_between_chunks() -> None:
    async def patient(scope: Scope, receive: Receive, send: Send) -> None:
        renew_deadline(30.0)
        await asyncio.sleep(1.3)  # the budget, and the second of the last resort
        await _respond(send)
        await asyncio.sleep(1.3)
        await send({"type": "http.response.body", "body": b"b", "more_body": False})

    assert (await statuses(patient))[:2] == ([200], b"ab")


async def test_a_response_that_has_a_request_id_keeps_it() -> None:
    async def proxied(scope: Scope, receive: Receive, send: Send) -> None:
        await _respond(send, [(b"x-request-id", b"theirs")])

    headers = (await statuses(proxied, wrap=True))[2]
    assert [value for name, value in headers if name == b"x-request-id"] == [b"theirs"]
