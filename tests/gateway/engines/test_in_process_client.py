"""`InProcessClient`: requests to an application of this process."""

from __future__ import annotations

from typing import Any

from litestar import Litestar, Request, post
from litestar.response import Redirect

from ragstore.kit.context import begin_request
from ragstore_gateway.store.in_process_client import InProcessClient


@post("/echo", status_code=200)
async def echo(request: Request[Any, Any, Any]) -> dict[str, str]:
    """The headers of a request, its query and its body."""
    return {**request.headers, "query": str(request.query_params.get("q")), "body": (await request.body()).decode()}


@post("/moved", status_code=307)
async def moved() -> Redirect:
    """A redirect, which a client follows that does not know where it is."""
    return Redirect("/echo", status_code=307)


async def test_a_request_has_its_own_headers_and_the_id_of_the_request_in_progress_and_no_others() -> None:
    async with InProcessClient(Litestar([echo])) as client:
        request = client.build_request(
            "POST", "http://127.0.0.1/echo", params={"q": "1"}, content=b"text", headers={"content-type": "text/plain"}
        )
        begin_request("of the gateway's request")
        received = (await client.send(request)).json()

    assert received == {
        "host": "127.0.0.1",
        "content-type": "text/plain",
        "content-length": "4",
        "x-request-id": "of the gateway's request",
        "query": "1",
        "body": "text",
    }


async def test_a_redirect_is_a_response_as_any_other() -> None:
    async with InProcessClient(Litestar([echo, moved])) as client:
        response = await client.send(client.build_request("POST", "http://127.0.0.1/moved"))

    assert (response.status_code, response.headers["location"]) == (307, "/echo")
