"""`/openapi.json`: made once, with an `ETag`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from litestar import Litestar, Request, Response, get
from litestar.testing import AsyncTestClient

from ragstore.kit.served_document import served_document


class Counted:
    """Makes a document, and counts how often."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, app: Litestar) -> str:
        self.made += 1
        return '{"openapi": "3.1.0"}'


def app_of(make: Counted) -> Litestar:
    @get("/openapi.json")
    async def document(request: Request[Any, Any, Any]) -> Response[bytes]:
        return await served_document(request, make)

    return Litestar([document], openapi_config=None)


async def test_the_document_is_made_once_also_for_concurrent_first_callers() -> None:
    make = Counted()
    async with AsyncTestClient(app_of(make)) as http:
        responses = await asyncio.gather(*(http.get("/openapi.json") for _ in range(5)))
        responses.append(await http.get("/openapi.json"))

    assert make.made == 1
    assert {response.text for response in responses} == {'{"openapi": "3.1.0"}'}
    assert {response.headers["content-type"] for response in responses} == {"application/json"}
    assert len({response.headers["etag"] for response in responses}) == 1


@pytest.mark.parametrize("condition", ["{etag}", "W/{etag}", '"other", {etag}', "*"])
async def test_a_caller_that_has_the_document_gets_304_without_it(condition: str) -> None:
    async with AsyncTestClient(app_of(Counted())) as http:
        etag = (await http.get("/openapi.json")).headers["etag"]
        response = await http.get("/openapi.json", headers={"If-None-Match": condition.format(etag=etag)})

    assert (response.status_code, response.content, response.headers["etag"]) == (304, b"", etag)


@pytest.mark.parametrize("condition", ['"other"', "", "etag", '"'])
async def test_a_caller_that_has_another_document_gets_this_one(condition: str) -> None:
    async with AsyncTestClient(app_of(Counted())) as http:
        response = await http.get("/openapi.json", headers={"If-None-Match": condition})

    assert (response.status_code, response.json()) == (200, {"openapi": "3.1.0"})
