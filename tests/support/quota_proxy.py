"""A proxy in front of a Chroma server with the quotas of Chroma Cloud. It refuses or truncates what exceeds them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import aiohttp
from aiohttp import web

Form: TypeAlias = Literal["refusing", "truncating"]

RECORDS: Final = 300
PREDICATES: Final = 8
TEXT_BYTES: Final = 16_384
ID_BYTES: Final = 256
CONCURRENT: Final = 10

Body: TypeAlias = dict[str, Any]


class Refused(Exception):
    """A request exceeds a quota.

    Args:
        rule: Chroma's name of the quota.
        action: what was tried.
        usage: how much it takes.
        limit: the quota.
    """

    def __init__(self, rule: str, action: str, usage: int, limit: int) -> None:
        super().__init__(
            f"Quota exceeded: '{rule}' exceeded quota limit for action '{action}': current usage of {usage} exceeds "
            f"limit of {limit}"
        )


class QuotaProxy:
    """Forwards requests to a Chroma server.

    Args:
        target: the server's URL.
        form: what happens to a read that exceeds a quota of records: it is refused, or less is returned. Other requests
            are always refused.
        predicates: maximum number of comparisons in a filter.
        text_bytes: maximum size of a text.

    Attributes:
        refused: number of requests that were refused.
        truncated: number of responses that were truncated.
    """

    def __init__(self, target: str, form: Form, predicates: int = PREDICATES, text_bytes: int = TEXT_BYTES) -> None:
        self.target = target
        self.form = form
        self.predicates = predicates
        self.text_bytes = text_bytes
        self.refused = 0
        self.truncated = 0
        self._in_flight: dict[str, int] = {}
        self._session: aiohttp.ClientSession | None = None

    async def handle(self, request: web.Request) -> web.Response:
        """Forward a request."""
        segments = request.path.split("/")
        verb, collection = (segments[-1], segments[-2]) if len(segments) > 2 else ("", "")
        data = await request.read()
        if request.method == "POST" and verb in ("get", "query", "add", "upsert", "update", "delete"):
            try:
                data = json.dumps(self._limited(verb, json.loads(data))).encode()
            except Refused as error:
                self.refused += 1
                return web.json_response({"error": "QuotaExceededError", "message": str(error)}, status=422)
        if self._in_flight.get(collection, 0) >= CONCURRENT:
            self.refused += 1
            return web.json_response({"error": "RateLimited", "message": "too many requests"}, status=429)
        self._in_flight[collection] = self._in_flight.get(collection, 0) + 1
        try:
            return await self._forward(request, data)
        finally:
            self._in_flight[collection] -= 1

    async def _forward(self, request: web.Request, data: bytes) -> web.Response:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        headers = {"Content-Type": "application/json"} if data else {}
        async with self._session.request(
            request.method, self.target + request.raw_path, data=data or None, headers=headers
        ) as response:
            return web.Response(status=response.status, body=await response.read(), content_type="application/json")

    def _limited(self, verb: str, body: Body) -> Body:
        """The body as far as quotas allow.

        Raises:
            Refused: it exceeds them.
        """
        ids = body.get("ids") or []
        count = _predicates(body.get("where")) + _predicates(body.get("where_document"))
        if count > self.predicates:
            raise Refused("Number of where predicates", verb, count, self.predicates)
        if verb in ("add", "upsert", "update", "delete"):
            if len(ids) > RECORDS:
                raise Refused("Number of records", verb, len(ids), RECORDS)
            self._check_sizes(verb, body)
            return body
        if len(ids) > RECORDS:
            raise Refused("Number of ids", verb, len(ids), RECORDS)
        if verb == "query":
            return body | {"n_results": self._at_most("Number of results", verb, body["n_results"])}
        limit = body.get("limit")
        wanted = RECORDS + 1 if limit is None and not ids else limit
        if self.form == "refusing" and limit is None and not ids:
            return body | {"limit": RECORDS}  # Chroma Cloud's default
        return body if wanted is None else body | {"limit": self._at_most("Limit value", verb, wanted)}

    def _at_most(self, rule: str, verb: str, wanted: int) -> int:
        if wanted <= RECORDS:
            return wanted
        if self.form == "refusing":
            raise Refused(rule, verb, wanted, RECORDS)
        self.truncated += 1
        return RECORDS

    def _check_sizes(self, verb: str, body: Body) -> None:
        for rule, limit, values in (
            ("Document size bytes", self.text_bytes, body.get("documents")),
            ("ID size bytes", ID_BYTES, body.get("ids")),
        ):
            largest = max((len(value.encode()) for value in values or [] if value), default=0)
            if largest > limit:
                raise Refused(rule, verb, largest, limit)

    async def close(self) -> None:
        """Close the connections to the server."""
        if self._session is not None:
            await self._session.close()


def _predicates(where: Mapping[str, object] | None) -> int:
    if not where:
        return 0
    total = 0
    for key, value in where.items():
        total += sum(map(_predicates, value)) if key in ("$and", "$or") and isinstance(value, list) else 1
    return total


@contextmanager
def quota_proxy(
    target: str, form: Form, predicates: int = PREDICATES, text_bytes: int = TEXT_BYTES
) -> Iterator[tuple[str, QuotaProxy]]:
    """Run a proxy in a thread while the block runs.

    Args:
        target: URL of the Chroma server.
        form: see `QuotaProxy`, as for the others.
        predicates: maximum number of comparisons in a filter.
        text_bytes: maximum size of a text.

    Yields:
        Its URL, and the proxy.
    """
    proxy = QuotaProxy(target, form, predicates, text_bytes)
    loop = asyncio.new_event_loop()
    started = threading.Event()
    stopping = asyncio.Event()
    ports: list[int] = []

    async def serve() -> None:
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{tail:.*}", proxy.handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ports.append(runner.addresses[0][1])
        started.set()
        await stopping.wait()
        await proxy.close()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield f"http://127.0.0.1:{ports[0]}", proxy
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(10)
        loop.close()
