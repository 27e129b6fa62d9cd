"""HTTP requests to a running gateway, and its errors as one line for people."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, Final, Self, TypeAlias, TypeVar

import httpx
import msgspec

from ragstore_gateway.commands.gateway_client.responses import Problem
from ragstore_gateway.settings import KEY_VARIABLE, URL_VARIABLE

T = TypeVar("T")

Params: TypeAlias = Mapping[str, str | int] | Sequence[tuple[str, str]] | None

TIMEOUT_SECONDS: Final = 600.0
SLICE_BYTES: Final = 256 * 1024
"""Size of the parts in which a document is read and sent."""

BUSY_CODES: Final = frozenset({"queue_full", "overloaded"})
"""Codes of responses to a request that the gateway accepts later."""

MAX_REPETITIONS: Final = 60
"""Number of times that a request is sent again to a busy gateway."""

MAX_WAIT_SECONDS: Final = 30.0


class GatewayFailed(Exception):
    """The gateway cannot be reached, or responds with an error. The message is one line for people.

    Attributes:
        status: the status of the response; 0 without one.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class GatewayConnection:
    """A connection to a gateway. A context manager.

    Args:
        url: its address. The key is `RAGSTORE_GATEWAY_API_KEY` of the environment.
    """

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, headers=key_headers(), timeout=TIMEOUT_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def call(self, method: str, path: str, body: object = None, params: Params = None) -> httpx.Response:
        """Send a request with a JSON body, or without one.

        Args:
            body: the body; None for none.
            params: parameters of the query.

        Raises:
            GatewayFailed: there is no response, or it is an error.
        """
        return checked(await self._send(self._http.build_request(method, path, json=body, params=_params(params))))

    async def patient_call(self, method: str, path: str, body: object) -> httpx.Response:
        """Send a request with a JSON body, and repeat it while the gateway is busy; see `call`."""
        return checked(await _accepted(lambda: self._send(self._http.build_request(method, path, json=body))))

    async def upload(
        self, path: str, content: IO[bytes], media_type: str, params: Mapping[str, str | int]
    ) -> httpx.Response:
        """Send a file in parts, and repeat that while the gateway is busy.

        Args:
            content: the file, which can be read repeatedly.
            params: parameters of the query.

        Raises:
            GatewayFailed: there is no response, or it is an error.
            OSError: the file cannot be read.
        """
        size = await asyncio.to_thread(content.seek, 0, os.SEEK_END)
        headers = {"Content-Type": media_type, "Content-Length": str(size)}

        async def send() -> httpx.Response:
            body = _parts(content, size)
            return await self._send(
                self._http.build_request("POST", path, content=body, headers=headers, params=params)
            )

        return checked(await _accepted(send))

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._http.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise GatewayFailed(
                f"The gateway at {self._http.base_url} cannot be reached: start it with `ragstore-gateway serve`, or "
                f"set --url or {URL_VARIABLE} to its address"
            ) from None
        except httpx.TimeoutException:
            raise GatewayFailed(
                f"The gateway at {self._http.base_url} does not respond: its log may say why; try again later"
            ) from None
        except httpx.HTTPError as error:
            raise GatewayFailed(
                f"The connection to the gateway at {self._http.base_url} was lost ({type(error).__name__}): the same "
                "command tries again"
            ) from None


def key_headers() -> dict[str, str]:
    """The headers with the key of the environment; none without one."""
    key = os.environ.get(KEY_VARIABLE, "")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _params(params: Params) -> httpx.QueryParams:
    return httpx.QueryParams(dict(params) if isinstance(params, Mapping) else list(params or ()))


async def _accepted(send: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """The response to a request that is repeated while the gateway is busy."""
    response = await send()
    for _ in range(MAX_REPETITIONS):
        if response.status_code != httpx.codes.TOO_MANY_REQUESTS and problem(response).code not in BUSY_CODES:
            break
        await asyncio.sleep(_seconds(response.headers.get("Retry-After", "")))
        response = await send()
    return response


def _seconds(retry_after: str) -> float:
    return min(float(retry_after), MAX_WAIT_SECONDS) if retry_after.isdecimal() else 1.0


async def _parts(content: IO[bytes], size: int) -> AsyncIterator[bytes]:
    """A file from its beginning; of one that has grown since, the part that was announced."""
    await asyncio.to_thread(content.seek, 0)
    left = size
    while left:
        part = await asyncio.to_thread(content.read, min(left, SLICE_BYTES))
        if not part:
            raise OSError(0, "The file was cut while it was sent")
        left -= len(part)
        yield part


def checked(response: httpx.Response) -> httpx.Response:
    """A response that is no error.

    Raises:
        GatewayFailed: it is an error.
    """
    if response.is_success:
        return response
    status, request = response.status_code, response.request
    detail = " ".join(problem(response).detail.split())
    if not detail:
        message = f"{request.method} {request.url}: status {status}: is it a ragstore-gateway?"
    elif status == httpx.codes.UNAUTHORIZED:
        message = f"{detail} (401): set {KEY_VARIABLE} to a key of the gateway"
    else:
        message = f"{detail} ({status})"
    raise GatewayFailed(message, status)


def problem(response: httpx.Response) -> Problem:
    """The problem document of an error; an empty one if it has none.

    Args:
        response: the error.
    """
    try:
        return msgspec.json.decode(response.content, type=Problem)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Problem()


def decoded(response: httpx.Response, kind: type[T]) -> T:
    """The body of a response.

    Args:
        kind: the type of its body.

    Raises:
        GatewayFailed: it has another form.
    """
    try:
        return msgspec.json.decode(response.content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise GatewayFailed("The gateway's response has another form: is it a ragstore-gateway?") from None
